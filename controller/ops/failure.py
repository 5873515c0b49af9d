"""A bug must not leave a controller half dead, so an unexpected exception ends the process."""

import contextlib
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


def fatal_and_raised(
    handler: Callable[Concatenate[S, P], None],
) -> Callable[Concatenate[S, P], None]:
    """An exception that escapes from this handler ends the controller, and goes on to the caller,
    which must not go on as if all was well."""

    @functools.wraps(handler)
    def guarded(self: S, /, *args: P.args, **kwargs: P.kwargs) -> None:
        try:
            handler(self, *args, **kwargs)
        except Exception:
            LOG.critical("%s failed; the controller ends", handler.__name__, exc_info=True)
            self.fail()
            raise

    return guarded


def fatal(handler: Callable[Concatenate[S, P], None]) -> Callable[Concatenate[S, P], None]:
    """An exception that escapes from this handler ends the controller."""
    raising = fatal_and_raised(handler)

    @functools.wraps(handler)
    def guarded(self: S, /, *args: P.args, **kwargs: P.kwargs) -> None:
        with contextlib.suppress(Exception):
            raising(self, *args, **kwargs)

    return guarded
