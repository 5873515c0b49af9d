"""The rows of LT blocks, written a second time from their definition: the wire format's witness.

Prints the golden file: python3 rows.py > rows.txt. Per block: the first rows, the last one, and a
checksum (FNV-1a, 64 bits) over all of them, each row as its length and its columns in two bytes,
little-endian.
"""

import math

MASK = (1 << 64) - 1
GAMMA = 0x9E3779B97F4A7C15


def mix(z):
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


class Random:
    """SplitMix64, of which the upper 32 bits are used."""

    def __init__(self, seed, index):
        self.state = mix(seed) ^ mix((index + 1) * GAMMA & MASK)

    def bits(self):
        self.state = (self.state + GAMMA) & MASK
        return mix(self.state) >> 32

    def below(self, bound):
        return self.bits() * bound >> 32


def thresholds(k, c=0.2, delta=0.7):
    """For each degree the last of 2^32 draws that gives at most this degree (LTTP, Eq. 1-3)."""
    r = c * math.log(k / delta) * math.sqrt(k)
    spike = min(max(math.floor(k / r + 0.5), 1), k)
    weights = []
    for i in range(1, k + 1):
        rho = 1 / k if i == 1 else 1 / (i * (i - 1))
        if i < spike:
            tau = r / (i * k)
        elif i == spike and r > delta:
            tau = r * math.log(r / delta) / k
        else:
            tau = 0
        weights.append(rho + tau)
    beta = sum(weights)
    total, limits = 0.0, []
    for weight in weights:
        total += weight / beta
        limits.append(min(max(math.ceil(total * 2**32), 1), 2**32) - 1)
    limits[-1] = 2**32 - 1
    return limits


def degree(limits, bits):
    return next(d for d, limit in enumerate(limits, 1) if bits <= limit)


def independent(k, seed, count):
    limits = thresholds(k)
    for index in range(count):
        random = Random(seed, index)
        deck = list(range(k))
        row = []
        for dealt in range(degree(limits, random.bits())):
            card = dealt + random.below(k - dealt)
            deck[dealt], deck[card] = deck[card], deck[dealt]
            row.append(deck[dealt])
        yield row


def dealt(k, seed, count):
    limits = thresholds(k)
    random = Random(seed, 2**32 - 1)
    deck, place = list(range(k)), 0
    for _ in range(count):
        row, held = [], 0
        for in_hand in range(degree(limits, random.bits())):
            if place == k:
                place, held = 0, in_hand
            card = place + random.below(k - held - place)
            deck[place], deck[card] = deck[card], deck[place]
            row.append(deck[place])
            place += 1
        yield row


def checksum(rows):
    value = 0xCBF29CE484222325
    for row in rows:
        for number in [len(row), *row]:
            for byte in number.to_bytes(2, "little"):
                value = (value ^ byte) * 0x100000001B3 & MASK
    return value


def main():
    for name, draw in (("independent", independent), ("dealt", dealt)):
        for k, seed in (
            (1, 0),
            (2, 1),
            (3, 0xFFFFFFFFFFFFFFFF),
            (64, 1),
            (128, 2),
            (256, 0x123456789ABCDEF),
            (1024, 7),
            (8192, 42),
        ):
            rows = list(draw(k, seed, 4 * k + 64))
            print(f"block {name} {k} {seed:#x} {checksum(rows):#018x}")
            for index in (0, 1, 2, 3, 4, len(rows) - 1):
                print(f"row {index}:", *rows[index])


if __name__ == "__main__":
    main()
