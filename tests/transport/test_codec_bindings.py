"""The Python bindings of the codec: the same blocks, the same refusals."""

import random

import pytest
import weir_transport
from weir_transport import Decoder, Encoder, Rows


@pytest.mark.parametrize("draw", ["dealt", "independent", "raptor"])
@pytest.mark.parametrize(
    ("k", "symbol_bytes", "length"), [(1, 1, 1), (64, 100, 6_400), (50, 33, 1_000)]
)
def test_a_block_comes_back_from_coded_symbols_in_any_order(draw, k, symbol_bytes, length):
    source = random.Random(k).randbytes(length)
    rows = Rows(k, draw=draw, seed=7)
    symbols = list(enumerate(Encoder(source, symbol_bytes, rows).encode_many(0, rows.max_symbols)))
    random.Random(1).shuffle(symbols)
    decoder = Decoder(symbol_bytes, rows)
    assert (decoder.needs, decoder.complete, decoder.source()) == (k, False, None)
    for index, payload in symbols:
        if decoder.push(index, payload) == 0:
            break
    assert decoder.complete
    assert decoder.source() == source.ljust(k * symbol_bytes, b"\0")
    decoder.reset(Rows(k + 1))
    assert (decoder.needs, decoder.complete) == (k + 1, False)


def test_a_coded_symbol_is_the_xor_of_its_row():
    source = bytes(range(10))
    rows = Rows(10, seed=3)
    encoder = Encoder(source, 1, rows)
    for index in range(rows.max_symbols):
        expected = 0
        for column in rows.row(index):
            expected ^= source[column]
        assert encoder.encode(index) == bytes([expected])


def test_a_repeated_symbol_counts_once():
    rows = Rows(5)
    decoder = Decoder(1, rows)
    assert [decoder.push(0, b"a"), decoder.push(0, b"a")] == [4, 4]


@pytest.mark.parametrize(
    "call",
    [
        lambda: Rows(0),
        lambda: Rows(8193),
        lambda: Rows(5, draw="fair"),  # type: ignore[arg-type]
        lambda: Rows(5).row(84),
        lambda: Encoder(b"123", 1, Rows(2)),
        lambda: Encoder(b"", 0, Rows(2)),
        lambda: Encoder(b"", 1, Rows(2)).encode(72),
        lambda: Encoder(b"", 1, Rows(2)).encode_many(2**32 - 1, 2**32 - 1),
        lambda: Decoder(65_536, Rows(2)),
        lambda: Decoder(2, Rows(2)).push(0, b"123"),
        lambda: weir_transport.soliton(8, -1.0),
        lambda: weir_transport.overhead(8, 1, loss=1.0),
        lambda: weir_transport.overhead(8, 1, strategy="guess"),  # type: ignore[arg-type]
    ],
)
def test_what_is_outside_the_limits_is_refused(call):
    with pytest.raises(weir_transport.CodecError):
        call()


def test_dealt_neighbours_need_fewer_symbols_than_independent_ones():
    def mean(**how):
        return sum(weir_transport.overhead(64, 500, **how)) / 500

    assert mean() < 0.06 * 64
    assert mean() < mean(draw="independent") < mean(draw="independent", strategy="improved")
    assert mean(loss=0.2) < 0.06 * 64


def test_a_chosen_seed_needs_no_symbol_more_without_loss():
    rows = Rows(64, seed=weir_transport.choose_seed(64, start=5))
    encoder, decoder = Encoder(bytes(64), 1, rows), Decoder(1, rows)
    assert [decoder.push(index, encoder.encode(index)) for index in range(64)][-1] == 0


def test_the_distribution_sums_to_one():
    assert sum(weir_transport.soliton(128)) == pytest.approx(1)
