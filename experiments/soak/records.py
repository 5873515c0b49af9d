"""Random QoS records of type ``weir``, mostly sensible, some absurd, all of what it knows."""

from random import Random

ABSURD = (
    "", "-1", "0", "1", "99", "abc", "%", "0%", "30%", "101%", "-5%", "0p", "5p", "999999999999p",
    "1e9", "0x10", "1.5", "2147483648", "4294967296", "9223372036854775808",
    "18446744073709551615", "99999999999999999999999", "weir", "ü",
)  # fmt: skip

SENSIBLE = {
    "max-rate": ("1000000", "3000000", "10000000", "100000000", "1000000000"),
    "limit-bytes": ("10000", "65536", "131072", "4000000"),
    "limit-packets": ("1", "50", "1000"),
    "cr-hold-ms": ("0", "1", "50", "1000"),
    "overhead": ("0", "4", "24"),
    "scheduler": ("fifo", "drr"),
    "release": ("kernel", "thread", "device"),
    "quantum": ("64", "1514", "9000"),
    "flow-queues": ("1", "16", "1024"),
    "queue-limit-bytes": ("3028", "20000", "65536"),
    "reserved": ("2%", "25%", "98%"),
    "reserved-dscp": ("8", "11", "46"),
    "ecn-threshold": ("3000", "20%", "10p"),
    "delay-us": ("0", "100", "5000"),
    "renotify-ms": ("0", "1", "10", "200"),
    "notify": ("message", "packet-in"),
}

_THRESHOLDS = (("30%", "60%", "80%"), ("2000", "4000", "6000"), ("2p", "5p", "20p"))
# In this order: what needs DRR needs the thread by way of it.
_NEEDS = {
    ("reserved-dscp",): ("reserved", "25%"),
    ("quantum", "flow-queues", "queue-limit-bytes", "reserved"): ("scheduler", "drr"),
    ("scheduler", "delay-us"): ("release", "thread"),
}
_HOW_MANY = (0, 0, 0, 1, 2, 4, 8)
_SHARE_OF_ABSURD = 0.08


def value(key: str, rng: Random) -> str:
    """A value for a key, rarely one that no operator would write."""
    if rng.random() < _SHARE_OF_ABSURD:
        return rng.choice(ABSURD)
    return rng.choice(SENSIBLE[key])


def record(rng: Random) -> dict[str, str]:
    """A whole other_config. A key nearly always comes with the keys that it needs."""
    keys = ["max-rate", "limit-bytes"] if rng.random() < 0.95 else []
    others = [key for key in SENSIBLE if key not in ("max-rate", "limit-bytes")]
    keys += rng.sample(others, rng.choice(_HOW_MANY))
    chosen = {key: value(key, rng) for key in keys}
    if rng.random() < 0.5:
        chosen |= zip(("low", "mid", "high"), rng.choice(_THRESHOLDS), strict=True)
    if rng.random() < _SHARE_OF_ABSURD:
        chosen[rng.choice(("low", "mid", "high"))] = rng.choice(ABSURD)
    for keys_that_need, (needed, present) in _NEEDS.items():
        needs = any(chosen.get(key) not in (None, "fifo") for key in keys_that_need)
        if needs and rng.random() < 0.95:
            chosen[needed] = present
    return chosen


def columns(other_config: dict[str, str]) -> list[str]:
    """The record as arguments of ovs-vsctl."""
    return [f'other_config:{key}="{text}"' for key, text in other_config.items()]
