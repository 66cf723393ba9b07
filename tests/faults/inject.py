"""The faults: each changes a case in one place and says what the audit must report because of it."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from tests.faults.made import (
    MEMBERS,
    PARTITIONS,
    RECORDS,
    SAMPLING_US,
    SECOND_US,
    SECONDS,
    STARTED_US,
    Case,
    Finding,
    Record,
    Slot,
    key_of,
    value_of,
)

SHIFT_US: Final = 2 * SECOND_US
_STRANGER: Final = 100_000  # a sequence number that no generator came to
Place = tuple[list[Slot], int]


class NoRoomError(Exception):
    """The other faults of a mixture left no place for this one."""


def _is_free(log: list[Slot], at: int, length: int = 1) -> bool:
    """Return whether slots of a partition, and one on either side of them, are as they were."""
    around = log[at - 1 : at + length + 1]
    return len(around) == length + 2 and not any(slot.touched or slot.acked_seq is None for slot in around)


def _claim(log: list[Slot], at: int, length: int = 1) -> Place:
    for slot in log[at - 1 : at + length + 1]:
        slot.touched = True
    return log, at


def _free(case: Case, rng: random.Random, length: int = 1) -> Place:
    """Claim ``length`` slots of a partition that no other fault has used."""
    starts = ((log, at) for log in case.logs for at in range(1, len(log) - length))
    places = [(log, at) for log, at in starts if _is_free(log, at, length)]
    if not places:
        raise NoRoomError
    return _claim(*rng.choice(places), length)


def _expect(case: Case, kind: str, seq: int, slot: Slot) -> None:
    """Expect a finding about a record of the case, at a place that is numbered later."""

    def finding() -> Finding:
        where = (("topic", case.topic), ("partition", slot.partition), ("offset", slot.offset))
        return kind, (("producer", case.number), ("seq", seq), *where)

    case.expected.append(finding)


def record_dropped(case: Case, rng: random.Random) -> None:
    """An acknowledged record is not in the topic; its consumer may have got it before."""
    log, at = _free(case, rng)
    _drop(case, log[at], rng.random() < 0.5)


def range_dropped(case: Case, rng: random.Random) -> None:
    """Consecutive acknowledged records of a partition are not in the topic."""
    length = rng.randrange(2, 9)
    log, at = _free(case, rng, length)
    delivered = rng.random() < 0.5
    for slot in log[at : at + length]:
        _drop(case, slot, delivered)


def _drop(case: Case, slot: Slot, delivered: bool) -> None:
    slot.gone, slot.delivered = True, delivered
    _expect(case, "lost", slot.record.seq, slot)


def duplicate(case: Case, rng: random.Random) -> None:
    """A record lies in the topic twice, the second time later in its partition or in another one."""
    (log, at), (target, after) = _free(case, rng), _free(case, rng)
    if target is log and after < at:
        at, after = after, at
    original = log[at]
    near = target[after]
    copy = replace(original.record, appended_us=near.record.appended_us)
    target.insert(after + 1, Slot(near.partition, copy, None, near.passed_us, touched=True))
    _expect(case, "duplicated", copy.seq, original)


def swapped_in_partition(case: Case, rng: random.Random) -> None:
    """Two neighbours of a partition lie in each other's place."""
    log, at = _free(case, rng, 2)
    first, second = log[at], log[at + 1]
    low, high = first.record.seq, second.record.seq
    first.record, second.record = second.record, first.record
    _expect(case, "misplaced", low, first)
    _expect(case, "misplaced", high, second)
    same_request = case.rows[low].sent_us == case.rows[high].sent_us
    # By REST, records of two requests: the one sent after the other's answer lies before it.
    if case.via == "rest" and not same_request:
        _expect(case, "reordered", high, first)
    else:
        _expect(case, "reordered", low, second)


def written_out_of_order(case: Case, rng: random.Random) -> None:
    """Two neighbours were appended, and acknowledged, in the wrong order."""
    log, at = _free(case, rng, 2)
    first, second = log[at], log[at + 1]
    low, high = first.record.seq, second.record.seq
    first.record, second.record = second.record, first.record
    first.acked_seq, second.acked_seq = high, low
    case.rows[low].slot, case.rows[high].slot = second, first
    if case.via == "rest" and case.rows[low].sent_us != case.rows[high].sent_us:
        _expect(case, "reordered", high, first)
    else:
        _expect(case, "reordered", low, second)


def swapped_between_partitions(case: Case, rng: random.Random) -> None:
    """Two records lie in each other's place, in two partitions."""
    log, at = _free(case, rng)
    near = [
        (other, n)
        for other in case.logs
        for n in range(1, len(other) - 1)
        if other is not log
        and _is_free(other, n)
        and _keeps_order(log, at, other[n].record)
        and _keeps_order(other, n, log[at].record)
    ]
    if not near:
        raise NoRoomError
    other, n = _claim(*rng.choice(near))
    one, two = log[at], other[n]
    for slot in (one, two):
        _expect(case, "misplaced", slot.record.seq, slot)
    one.record, two.record = two.record, one.record


def _keeps_order(log: list[Slot], at: int, record: Record) -> bool:
    """Return whether a record may stand at a place without being out of order there."""
    before, after = log[at - 1].acked_seq, log[at + 1].acked_seq
    return before is not None and after is not None and before < record.seq < after


def byte_flipped(case: Case, rng: random.Random) -> None:
    """A bit of a record's value, of its identity or its payload, is not as it was sent."""
    log, at = _free(case, rng)
    slot = log[at]
    value = bytearray(slot.record.value)
    value[rng.randrange(len(value))] ^= 1 << rng.randrange(8)
    slot.record = replace(slot.record, value=bytes(value))
    _expect(case, "corrupted", slot.record.seq, slot)


def wrong_key(case: Case, rng: random.Random) -> None:
    """A record has another key than its generator gave it, or none."""
    log, at = _free(case, rng)
    slot = log[at]
    seq = slot.record.seq
    other = rng.choice([None, key_of(case.number, seq + 1), b"another"])
    slot.record = replace(slot.record, key=other)
    _expect(case, "wrong_key", seq, slot)


def nobody_sent(case: Case, rng: random.Random) -> None:
    """A record bears the run's identity, and no generator sent it."""
    log, at = _free(case, rng)
    seq = _STRANGER + rng.randrange(1_000_000)
    near = log[at]
    value, _ = value_of(case.number, seq, near.record.appended_us - 4_000, rng)
    stranger = Record(seq, key_of(case.number, seq), value, near.record.appended_us)
    slot = Slot(near.partition, stranger, None, near.passed_us, touched=True)
    log.insert(at + 1, slot)
    _expect(case, "unexpected", seq, slot)


def ack_without_record(case: Case, rng: random.Random) -> None:
    """A send was acknowledged at the place of another record, and is in no topic."""
    log, at = _free(case, rng)
    last = case.rows[max(case.rows)]
    seq = case.records
    case.records += 1
    _, crc = value_of(case.number, seq, last.intended_us, rng)
    case.rows[seq] = replace(last, seq=seq, crc=crc, slot=log[at], outcome="acked")
    _expect(case, "lost", seq, log[at])


def ack_lost(case: Case, rng: random.Random) -> None:
    """A record is in the topic, and its generator was never told: no anomaly, but counted."""
    log, at = _free(case, rng)
    row = case.rows[log[at].record.seq]
    row.outcome, row.slot = rng.choice(["unknown", "failed"]), None
    case.unacked += 1


def ledger_truncated(case: Case, rng: random.Random) -> None:
    """The ledger lacks its last rows; what they told is unknown."""
    seqs = range(RECORDS - rng.randrange(1, 20), RECORDS)
    slots = [slot for log in case.logs for slot in log if slot.acked_seq in seqs]
    if case.lacking or any(slot.touched for slot in slots):
        raise NoRoomError
    for slot in slots:
        slot.touched = True
    case.lacking = seqs
    where = (("producer", case.number), ("seq", seqs[0]), ("until_seq", seqs[-1]))
    case.expected.append(lambda: ("unledgered", where))


def clock_shifted(case: Case, rng: random.Random) -> None:
    """The clock of the broker that leads a partition is 2 s ahead or behind."""
    partition, shift = rng.randrange(PARTITIONS), rng.choice([-SHIFT_US, SHIFT_US])
    if partition in case.shifts:
        raise NoRoomError
    case.shifts[partition] = shift
    where = (("topic", case.topic), ("partition", partition), ("shift_s", shift // SECOND_US))
    case.expected.append(lambda: ("clock_shifted", where))


def sampler_slept(case: Case, rng: random.Random) -> None:
    """The group was not looked at for a while."""
    length = rng.randrange(5, 25) * SAMPLING_US
    begin = STARTED_US + rng.randrange(15, SECONDS * 10 - 35) * SAMPLING_US
    _refuse_near(case, begin, begin + length)
    case.slept.append((begin, begin + length))
    where = (("group", case.group), ("from_us", begin), ("until_us", begin + length))
    case.expected.append(lambda: ("sampler_slept", where))


def restarted_by_hand(case: Case, rng: random.Random) -> None:
    """The group rebalanced, and no action tells why."""
    begin = STARTED_US + rng.randrange(20, 40) * SAMPLING_US
    until = begin + rng.randrange(1, 10) * SAMPLING_US
    _refuse_near(case, begin, until)
    case.unstable.append((begin, until))
    where = (("group", case.group), ("from_us", begin), ("until_us", until))
    case.expected.append(lambda: ("unexplained_rebalance", where))


def _refuse_near(case: Case, begin: int, end: int) -> None:
    for since, until in (*case.slept, *case.unstable):
        if begin - SECOND_US < until and since < end + SECOND_US:
            raise NoRoomError


def member_idle(case: Case, _: random.Random) -> None:
    """A member of the group owned no partition, all the time."""
    if case.members > MEMBERS:
        raise NoRoomError
    case.members += 1
    case.expected.append(lambda: ("idle_member", (("group", case.group), ("idle", 1))))


def clients_piled_up(case: Case, _: random.Random) -> None:
    """After the restart, all consumers of the group were on one instance."""
    if case.piled_up:
        raise NoRoomError
    case.piled_up = True
    case.expected += [partial(_piled_up, case.group, home) for home in case.homes]


def _piled_up(group: str, home: str) -> Finding:
    return "piled_up", (("group", group), ("instance", home))


Fault = Callable[[Case, random.Random], None]

FAULTS: Final[dict[str, Fault]] = {
    "record_dropped": record_dropped,
    "range_dropped": range_dropped,
    "duplicate": duplicate,
    "swapped_in_partition": swapped_in_partition,
    "written_out_of_order": written_out_of_order,
    "swapped_between_partitions": swapped_between_partitions,
    "byte_flipped": byte_flipped,
    "wrong_key": wrong_key,
    "nobody_sent": nobody_sent,
    "ack_without_record": ack_without_record,
    "ack_lost": ack_lost,
    "ledger_truncated": ledger_truncated,
    "clock_shifted": clock_shifted,
    "sampler_slept": sampler_slept,
    "restarted_by_hand": restarted_by_hand,
    "member_idle": member_idle,
    "clients_piled_up": clients_piled_up,
}


def inject(case: Case, names: Sequence[str], rng: random.Random) -> None:
    """Put faults into a case, leaving out those for which it has no room left; then it is settled."""
    for name in names:
        try:
            FAULTS[name](case, rng)
        except NoRoomError:
            continue
        case.injected.append(name)
    case.settle()


def expected(case: Case) -> list[Finding]:
    """Return all that must be reported of a case that is settled."""
    return sorted(finding() for finding in case.expected)
