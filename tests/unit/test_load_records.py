"""Schedule, values and identities: the arrays say what kedge.evidence.record says one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kedge.evidence.record import decode, encode, identities, run_tag
from kedge.evidence.record_layout import PREFIX_BYTES
from verify.load.records import KEYS, Encoder, keys
from verify.load.schedule import SLICE_S, count_due, due_us, rest_s

TAG = run_tag("a run")


def test_encoder_makes_the_values_and_checksums_of_the_contract() -> None:
    seq = np.array([0, 1, 255, 256, 70_000, 2**40 + 3])
    intended = np.array([1, 1_795_000_000_000_000, 2, 3, 4, 1_795_000_000_123_456])
    values, crcs = Encoder(TAG, 7, 100).encode(seq, intended)
    for row in range(len(seq)):
        value = values[row * 100 : (row + 1) * 100]
        payload = value[PREFIX_BYTES:]
        assert (value, crcs[row]) == encode(TAG, 7, int(seq[row]), int(intended[row]), payload)
        assert decode(TAG, value) == (7, seq[row], intended[row], crcs[row], True)


def test_encoder_repeats_itself_so_that_a_checksum_can_be_computed_again() -> None:
    seq, intended = np.arange(500), np.arange(500)
    assert Encoder(TAG, 1, 80).encode(seq, intended)[0] == Encoder(TAG, 1, 80).encode(seq, intended)[0]
    assert Encoder(TAG, 1, 80).encode(seq, intended)[0] != Encoder(TAG, 2, 80).encode(seq, intended)[0]


def test_record_that_is_all_identity_can_be_encoded() -> None:
    values, crcs = Encoder(TAG, 0, PREFIX_BYTES).encode(np.array([5]), np.array([6]))
    assert decode(TAG, values) == (0, 5, 6, crcs[0], True)


def test_record_smaller_than_its_identity_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 36"):
        Encoder(TAG, 0, 35)


@given(st.integers(0, 2**51), st.floats(0.5, 1e6), st.integers(0, 5_000_000), st.sampled_from([1, 7, 100]))
def test_count_due_agrees_with_the_schedule(start: int, rate: float, after: int, per_request: int) -> None:
    count = count_due(start, rate, start + after, per_request)
    assert count % per_request == 0
    around = np.array([max(count - 1, 0), count])
    due = due_us(start, rate, around, per_request)
    assert due[0] <= start + after
    # What is due in the very microsecond may wait for the next look.
    assert due[1] >= start + after


def test_nothing_is_due_before_the_start() -> None:
    assert count_due(1000, 10.0, 999) == 0
    assert count_due(1000, 10.0, 1000) == 1


def test_a_producer_of_few_records_rests_until_the_next_is_due() -> None:
    assert rest_s(0, rate=20.0, sent=3, now_us=110_000) == pytest.approx(0.04)
    # Nobody is kept waiting for its end.
    assert rest_s(0, rate=0.1, sent=1, now_us=0) == pytest.approx(0.1)
    # By REST, requests count.
    assert rest_s(0, rate=1_000.0, sent=100, now_us=90_000, per_request=100) == pytest.approx(0.01)


@pytest.mark.parametrize(("rate", "sent"), [(200.0, 1), (float("inf"), 1), (20.0, 2)])
def test_many_records_and_late_ones_go_by_slices(rate: float, sent: int) -> None:
    assert rest_s(0, rate, sent, now_us=100_000) == SLICE_S


def test_records_of_one_request_are_due_together() -> None:
    assert due_us(0, 1000.0, np.arange(6), per_request=3).tolist() == [0, 0, 0, 3000, 3000, 3000]


def test_key_follows_from_producer_and_seq() -> None:
    assert keys(3)[4001 % KEYS] == b"3-1"


def test_identities_mask_what_is_no_record_of_the_run() -> None:
    mine, _ = encode(TAG, 2, 9, 1, b"x" * 20)
    foreign, _ = encode(run_tag("another run"), 2, 9, 1, b"x" * 20)
    for values in ([mine, foreign], [mine, foreign, None, b"short", mine + b"longer"]):
        producer, seq, intended, crc = identities(TAG, values)
        assert producer.tolist() == [2, None, None, None, 2][: len(values)]
        assert crc[0] == decode(TAG, mine).crc  # type: ignore[union-attr]  # it is one of the run
        assert seq.tolist() == [9, None, None, None, 9][: len(values)]
        assert intended.tolist() == [1, None, None, None, 1][: len(values)]
