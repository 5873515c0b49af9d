"""What passes a token bucket, taken one by one or paid for in batches."""

from hypothesis import given
from hypothesis import strategies as st

from controller.model.token_bucket import TokenBucket

S = 10**9
RATES = st.integers(1, 10**6)


@given(RATES, st.lists(st.tuples(st.integers(0, 2 * S), st.integers(1, 3000)), max_size=50))
def test_its_rate_passes_and_a_second_more_and_the_last_batch(
    per_s: int, batches: list[tuple[int, int]]
) -> None:
    bucket, now_ns, passed, largest = TokenBucket(per_s), 0, 0, 0
    for pause_ns, n in batches:
        now_ns += pause_ns
        if bucket.has_any(now_ns):
            bucket.pay(n)
            passed += n
            largest = max(largest, n)
    assert passed <= per_s * (now_ns / S + 1) + largest + 1


@given(st.integers(1, 1000), st.lists(st.integers(0, S // 50), max_size=50))
def test_one_by_one_never_more_than_its_rate_and_a_second_more(
    per_s: int, pauses_ns: list[int]
) -> None:
    bucket, now_ns, passed = TokenBucket(per_s), 0, 0
    for pause_ns in pauses_ns:
        now_ns += pause_ns
        while bucket.take(now_ns):
            passed += 1
    assert passed <= per_s + per_s * now_ns // S


def test_who_is_quiet_for_long_enough_is_let_in_again() -> None:
    bucket = TokenBucket(100)
    bucket.pay(150)
    assert not bucket.has_any(S // 2)
    assert bucket.has_any(S)


def test_a_clock_that_goes_back_gives_nothing_away() -> None:
    bucket = TokenBucket(10, S)
    bucket.pay(10)
    assert not bucket.has_any(0)
    assert bucket.has_any(3 * S)


def test_it_is_full_again_after_a_second_at_most() -> None:
    bucket = TokenBucket(100)
    assert bucket.is_full(0)
    while bucket.take(0):
        pass
    assert not bucket.is_full(S - 1)
    assert bucket.is_full(S)
    assert bucket.is_full(100 * S)
