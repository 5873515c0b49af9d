"""The rows of blocks, written a second time from their definition: the wire format's witness.

Prints the golden file: python3 rows.py > rows.txt. Per block: the first rows, the last one, and a
checksum (FNV-1a, 64 bits) over the constraints of the pre-code and all rows, each as its length and
its columns in two bytes, little-endian.
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


def soliton(k):
    """The degree of a random number of 32 bits."""
    limits = thresholds(k)
    return lambda bits: degree(limits, bits)


def r10(columns):
    """The degrees of RFC 5053, section 5.4.4.2."""
    table = {10241: 1, 491582: 2, 712794: 3, 831695: 4, 948446: 10, 1032189: 11, 1048576: 40}
    return lambda bits: min(columns, next(d for end, d in table.items() if bits >> 12 < end))


def precode(k):
    """The LDPC and half symbols of RFC 5053, section 5.4.2.3: the columns whose sum is zero."""
    x = next(x for x in range(1, k + 3) if x * (x - 1) >= 2 * k)
    least = math.ceil(k / 100) + x
    s = next(n for n in range(least, 2 * least + 2) if n > 1 and all(n % d for d in range(2, n)))
    h = next(h for h in range(1, 64) if math.comb(h, (h + 1) // 2) >= k + s)
    rows = [[] for _ in range(s + h)]
    for i in range(k):
        a = 1 + i // s % max(s - 1, 1)
        for b in (i % s, (i % s + a) % s, (i % s + 2 * a) % s):
            rows[b].append(i)
    gray = (n ^ n >> 1 for n in range(1 << 30))
    words = (word for word in gray if word.bit_count() == (h + 1) // 2)
    for j, word in zip(range(k + s), words, strict=False):
        for bit in range(h):
            if word >> bit & 1:
                rows[s + bit].append(j)
    return [[*row, k + i] for i, row in enumerate(rows)]


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


def dealt(k, seed, count, degree_of=None):
    degree_of = degree_of or soliton(k)
    random = Random(seed, 2**32 - 1)
    deck, place = list(range(k)), 0
    for _ in range(count):
        row, held = [], 0
        for in_hand in range(degree_of(random.bits())):
            if place == k:
                place, held = 0, in_hand
            card = place + random.below(k - held - place)
            deck[place], deck[card] = deck[card], deck[place]
            row.append(deck[place])
            place += 1
        yield row


def raptor(k, seed, count):
    columns = k + len(precode(k))
    return dealt(columns, seed, count, r10(columns))


def checksum(rows):
    value = 0xCBF29CE484222325
    for row in rows:
        for number in [len(row), *row]:
            for byte in number.to_bytes(2, "little"):
                value = (value ^ byte) * 0x100000001B3 & MASK
    return value


def main():
    for draw in (independent, dealt, raptor):
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
            constraints = precode(k) if draw is raptor else []
            print(f"block {draw.__name__} {k} {seed:#x} {checksum(constraints + rows):#018x}")
            for index in (0, 1, 2, 3, 4, len(rows) - 1):
                print(f"row {index}:", *rows[index])


if __name__ == "__main__":
    main()
