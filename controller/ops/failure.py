"""A bug must not leave a controller half dead, so an unexpected exception ends the process."""

import functools
import logging
from collections.abc import Callable
from typing import Concatenate, ParamSpec, Protocol, TypeVar

LOG = logging.getLogger("weir.failure")


class Failing(Protocol):
    """`fail` ends the controller; it is called while the exception is being handled."""

    fail: Callable[[], object]


P = ParamSpec("P")
S = TypeVar("S", bound=Failing)


def fatal(handler: Callable[Concatenate[S, P], None]) -> Callable[Concatenate[S, P], None]:
    """An exception that escapes from this handler ends the controller."""

    @functools.wraps(handler)
    def guarded(self: S, /, *args: P.args, **kwargs: P.kwargs) -> None:
        try:
            handler(self, *args, **kwargs)
        except Exception:
            _end(self, handler.__name__)

    return guarded


def fatal_to_callers(
    handler: Callable[Concatenate[S, P], None],
) -> Callable[Concatenate[S, P], None]:
    """As `fatal`, and the exception goes on to the caller, which must not go on as if all was
    well."""

    @functools.wraps(handler)
    def guarded(self: S, /, *args: P.args, **kwargs: P.kwargs) -> None:
        try:
            handler(self, *args, **kwargs)
        except Exception:
            _end(self, handler.__name__)
            raise

    return guarded


def _end(failing: Failing, what: str) -> None:
    LOG.critical("%s failed; the controller ends", what, exc_info=True)
    failing.fail()
