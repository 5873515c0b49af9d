"""Quantities as written: `100 Mbit/s`, `64 KiB`, `500 us`; plain numbers are in base units."""

import re
from fractions import Fraction

_SI = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_IEC = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30}

RATES_BPS = {f"{prefix}bit/s": Fraction(factor) for prefix, factor in _SI.items()}
SIZES_BYTES = {f"{prefix}B": Fraction(factor) for prefix, factor in (_SI | _IEC).items()}
TIMES_S = {
    "s": Fraction(1),
    "ms": Fraction(1, 10**3),
    "us": Fraction(1, 10**6),
    "µs": Fraction(1, 10**6),
    "ns": Fraction(1, 10**9),
    "min": Fraction(60),
    "h": Fraction(3600),
}

_WRITTEN = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,2})?)\s*(\S*)\s*")


def parse(written: object, units: dict[str, Fraction], base_unit: str, example: str) -> Fraction:
    """The quantity in base units. Raises ValueError with what would be right."""
    right = f"write a number with a unit like {example}, or a plain number in {base_unit}"
    if isinstance(written, bool) or not isinstance(written, int | float | str):
        raise ValueError(f"{written!r} is not a quantity; {right}")
    found = _WRITTEN.fullmatch(str(written))
    if found is None:
        raise ValueError(f"{written!r} is not a quantity; {right}")
    number, unit = Fraction(found[1]), found[2]
    if not unit:
        return number
    if unit not in units:
        raise ValueError(
            f"{written!r} has the unit {unit!r}, known are {', '.join(units)}; {right}"
        )
    return number * units[unit]


def write(number: int | Fraction, units: dict[str, Fraction]) -> str:
    """The quantity, in base units, with the largest unit of which it is a whole number; the least
    unit, if there is none."""
    whole = [unit for unit in units if Fraction(number) % units[unit] == 0]
    # Of units of one size, the one that is listed first: `us`, which every keyboard has.
    unit = max(whole, key=units.__getitem__) if number and whole else _least(units)
    return f"{Fraction(number) / units[unit]} {unit}"


def _least(units: dict[str, Fraction]) -> str:
    return min(units, key=units.__getitem__)
