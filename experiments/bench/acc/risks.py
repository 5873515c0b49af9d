"""How likely a window of TCP ends in a timeout, by several models, if each packet is lost
independently: Eq. 1 and 2 of TCP-ACC, what Weir goes by, and the rules of TCP itself.

Beside the models are the outcomes that they are about. Which packets of a window are ``lost`` is a
number whose bit n is that of the n-th packet. ``coded`` packets follow the window.
``transport/crates/proto/src/acc/redundancy.rs`` has the same sums, for what the layer decides.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import comb

# That many duplicate acknowledgements have TCP send again at once (RFC 5681, section 3.2).
DUPLICATES = 3


def eq1_printed(window: int, loss: float, coded: int = 0) -> float:
    """Return Eq. 1 as it is printed: no more than two packets arrive. Of one or two packets that
    is so even if none is lost."""
    return sum(
        _exactly(window + coded, window + coded - arrive, loss)
        for arrive in range(min(DUPLICATES, window + coded + 1))
    )


def eq1(window: int, loss: float, coded: int = 0) -> float:
    """Return Eq. 1 without the outcome that nothing is lost."""
    packets = window + coded
    all_arrive = _exactly(packets, 0, loss) if packets < DUPLICATES else 0.0
    return eq1_printed(window, loss, coded) - all_arrive


def eq2(losses: int, loss: float, coded: int = 0) -> float:
    """Return Eq. 2: of what is sent for so many losses, and ``coded`` packets more, more than
    ``coded`` are lost again. The paper calls the losses d_new, and prints w."""
    return 1 - sum(_exactly(losses + coded, lost, loss) for lost in range(coded + 1))


def lost_again(window: int, loss: float) -> float:
    """Return Eq. 2 for what a window loses, in the mean, with c2 = 0: what is sent again for it is
    lost, too, or some of it."""
    return sum(_exactly(window, lost, loss) * eq2(lost, loss) for lost in range(1, window + 1))


def either(window: int, loss: float) -> float:
    """Return what the paper makes of a window after which nothing is coded: the outcome of Eq. 1
    or, where more than two packets arrive, that of Eq. 2 for what is lost."""
    repaired = (
        _exactly(window, lost, loss) * (1 - eq2(lost, loss))
        for lost in range(1, window + 1)
        if window - lost >= DUPLICATES
    )
    return 1 - _exactly(window, 0, loss) - sum(repaired)


def tail_is_lost(window: int, loss: float, coded: int = 0) -> float:
    """Return Weir's: one of the last three packets is lost, and more of all than ``coded`` ones
    make up for."""
    tail = min(window, DUPLICATES)
    others = window - tail + coded
    return sum(
        _exactly(tail, of_tail, loss) * _exactly(others, of_others, loss)
        for of_tail in range(1, tail + 1)
        for of_others in range(others + 1)
        if of_tail + of_others > coded
    )


def last_is_lost(_window: int, loss: float) -> float:
    """Return how likely the last packet is lost, with which only a loss probe or a timeout helps,
    whatever TCP makes of acknowledgements that come."""
    return loss


def by_the_rules(window: int, loss: float) -> float:
    """Return what NewReno (RFC 5681 and 6582) does: fewer than three packets arrive after the first
    that is lost or, where enough do, one that is sent again is lost again."""
    repaired = 0.0
    for before in range(window):
        after = window - before - 1
        for arrive in range(DUPLICATES, after + 1):
            lost = after - arrive + 1
            likely = (1 - loss) ** before * loss * _exactly(after, lost - 1, loss)
            repaired += likely * (1 - loss) ** lost
    return 1 - _exactly(window, 0, loss) - repaired


@dataclass(frozen=True)
class Model:
    """``of`` gives the probability of a timeout from a window, after which nothing is coded, and
    the loss."""

    name: str
    label: str
    of: Callable[[int, float], float]


MODELS = {
    "eq1": Model("Eq. 1", "at most two arrive", eq1),
    "eq2": Model("Eq. 2", "one is lost again", lost_again),
    "either": Model("Eq. 1, 2", "at most two arrive, or one is lost again", either),
    "weir": Model("Weir", "one of the last three is lost", tail_is_lost),
    "last": Model("last", "the last is lost", last_is_lost),
    "rules": Model("RFC 5681", "fewer than three follow, or one is lost again", by_the_rules),
}


def few_arrive(lost: int, window: int) -> bool:
    """Whether something is lost and no more than two packets arrive: the outcome of Eq. 1."""
    return lost != 0 and window - lost.bit_count() < DUPLICATES


def tail_lost(lost: int, window: int) -> bool:
    """Whether one of the last three packets is lost: what Weir goes by."""
    return lost >> max(0, window - DUPLICATES) != 0


def few_follow(lost: int, window: int) -> bool:
    """Whether fewer than three packets arrive after the first that is lost: these make no three
    duplicate acknowledgements."""
    if not lost:
        return False
    first = (lost & -lost).bit_length() - 1
    return window - first - lost.bit_count() < DUPLICATES


def _exactly(packets: int, lost: int, loss: float) -> float:
    """The probability that exactly so many of so many packets are lost."""
    return comb(packets, lost) * loss**lost * (1 - loss) ** (packets - lost)
