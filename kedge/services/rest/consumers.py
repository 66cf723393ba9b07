"""Rules for consumers of a REST proxy: latency, time-outs, threads, sizes of reads and fetches."""

from __future__ import annotations

from typing import Final

from kedge.plan.settings import MIB, Basis, Choice, Sheet
from kedge.plan.values import int_or_none
from kedge.services.rest.source_names import GUIDE, MEASURED, REAL
from kedge.services.rest.variables import RestWorkload

#: What keys of a proxy's consumers begin with, of kafka-rest and of the bridge.
CONSUMER_PREFIXES: Final = ("consumer.", "client.", "kafka.consumer.", "kafka.")

#: What a read of a backlog may answer. It fills up to that where the kernel sizes the buffers; 1 to 4 MiB
#: read no slower than 64, and a record has to fit (1 MiB by default).
_READ_BYTES: Final = 2 * MIB
DEFAULT_READ_BYTES: Final = 64 * MIB  # consumer.request.max.bytes
#: A read filled to consumer.request.max.bytes took 190 MiB where the limit was 64.
FULL_READ: Final = 3
#: Measurements, Reading, of one broker: 39 MB/s where the default of 50 MiB gave 43.8.
_SMALL_FETCH_BYTES: Final = 4 * MIB

_THREADS: Final = 50  # consumer.threads
_TIMEOUT_MS: Final = 1000  # consumer.request.timeout.ms
_SHORTEST_INSTANCE_MS: Final = 20_000
_INSTANCE_TIMEOUT_MS: Final = 300_000  # consumer.instance.timeout.ms
_PAUSE: Final = "kafka_rest_workload.client_pause_ms"
_MOST_FETCH_MIN_BYTES: Final = 10_000_000
_POLLED: Final = 30  # max.poll.records, KafkaRestConfig
PAUSE_MS: Final = 50  # consumer.iterator.backoff.ms
#: Real proxy measurements, Records of a poll: a shorter pause, what it brings, and what it takes of a core
#: for each consumer. So many take 5 percent of one.
SHORT_PAUSE_MS: Final = 25
_SOONER_MS: Final = 28
_PAUSE_CORE_PERCENT: Final = 0.3
_MOST_SHORT_PAUSES: Final = 16

#: Measurements, Reading, at 100 records/s: what a read adds to its time-out, and the p99 without waiting.
_OVER_TIMEOUT_MS: Final = 31
_FIRST_RECORD_MS: Final = 56
_BUSY_BACKOFF_MS: Final = 9


def plan_reading(sheet: Sheet, file: str, workload: RestWorkload) -> int:
    """Plan when a read is answered; return how long it may wait, in ms."""
    wanted = workload.delivery_latency_ms
    waits = wanted > _FIRST_RECORD_MS * 2 + _OVER_TIMEOUT_MS
    documented = Choice(
        wanted,
        f"a read waits this long for records, which is a lower bound of the latency; {wanted} ms are wanted",
        f"{GUIDE}, consumer.request.timeout.ms",
        "documented",
    )
    measured = None
    if waits and wanted < _TIMEOUT_MS:
        measured = Choice(
            wanted - _OVER_TIMEOUT_MS,
            f"{wanted} ms are wanted, and the slowest percent of reads took {_OVER_TIMEOUT_MS} ms over its "
            "time-out",
            f"{MEASURED}, Reading",
            "measured",
        )
    elif not waits:
        measured = Choice(
            _TIMEOUT_MS,
            "with fetch.min.bytes=1 a read is answered as soon as there is a record, so the time-out is no "
            "lower bound of the latency, and a longer one saves empty reads",
            f"{MEASURED}, Reading",
            "measured",
        )
    timeout = sheet.put(file, "consumer.request.timeout.ms", "rest.consumer.latency", documented, measured)
    fetch = sheet.put(
        file,
        "fetch.min.bytes",
        "rest.consumer.fetch_min",
        Choice(
            -1,
            "off: a read is answered when its time-out passes, or with consumer.request.max.bytes",
            f"{GUIDE}, fetch.min.bytes",
            "documented",
        ),
        None
        if waits
        else Choice(
            1,
            f"{wanted} ms are wanted: a read that is answered with the first record took 30 ms, 56 in the "
            "slowest percent, for 23 instead of 7 percent of a core at 100 records/s",
            f"{MEASURED}, Reading",
            "measured",
        ),
    )
    if (bytes_ := int_or_none(fetch)) is not None and bytes_ > _MOST_FETCH_MIN_BYTES:
        sheet.error(
            "rest.consumer.fetch_min",
            f"fetch.min.bytes is {bytes_}, and the proxy takes {_MOST_FETCH_MIN_BYTES} at most",
            f"set fetch.min.bytes to {_MOST_FETCH_MIN_BYTES} or less",
            "fetch.min.bytes",
        )
    if wanted < _FIRST_RECORD_MS and workload.consumers:
        reach = (
            "no measured setting reaches that"
            if wanted < _BUSY_BACKOFF_MS
            else f"consumer.iterator.backoff.ms=5 took {_BUSY_BACKOFF_MS} ms for 44 percent of a core"
        )
        sheet.warning(
            "rest.consumer.latency",
            f"records are wanted within {wanted} ms, and the slowest percent of reads took "
            f"{_FIRST_RECORD_MS} ms with fetch.min.bytes=1; {reach}",
            "let those consumers speak Kafka's own protocol, or raise delivery_latency_ms",
            variable="kafka_rest_workload.delivery_latency_ms",
        )
    return int_or_none(timeout) or _TIMEOUT_MS


def plan_consumers(
    sheet: Sheet,
    file: str,
    workload: RestWorkload,
    stall_s: float | None,
    *,
    threads_deadlock: bool,
    subject: str,
) -> int:
    """Plan threads and the time-out of an instance that nobody asks any more; return the threads.

    ``stall_s`` is how long a group may get nothing.
    """
    group = workload.largest_group
    above = max(_THREADS, group + 1)
    documented = Choice(
        above,
        f"above the {group} members of the largest group, {_THREADS} at least",
        f"{GUIDE}, consumer.threads",
        "documented",
    )
    measured = Choice(
        above,
        f"above the {group} members of the largest group, {_THREADS} at least: where clients of a "
        "classic group vanish while it rebalances, each close holds a thread for up to 30 s, and without a "
        "free one all groups wait",
        f"{MEASURED}, A group that rebalances",
        "measured",
    )
    threads = sheet.put(
        file,
        "consumer.threads",
        "rest.consumer.threads",
        documented,
        None if threads_deadlock else measured,
    )
    count = int_or_none(threads)
    if count is not None and 0 <= count <= group:
        message = f"consumer.threads is {count}, and the largest group has {group} members"
        fix = f"set consumer.threads to {group + 1} or more"
        if threads_deadlock or sheet.advice == "documented":
            sheet.error(
                "rest.consumer.threads",
                f"{message}: its rebalances deadlock on {subject}",
                fix,
                "consumer.threads",
            )
        elif any(s.key == "consumer.threads" and s.by == "person" for s in sheet.settings):
            what = (
                f"{message}: where clients of a classic group vanish while it rebalances, reads and commits "
                "of all groups wait"
            )
            sheet.warning("rest.consumer.threads", what, fix, "consumer.threads")
    _plan_instance_timeout(sheet, file, workload.client_pause_ms, stall_s)
    return count if count and count > 0 else _THREADS


def _plan_instance_timeout(sheet: Sheet, file: str, pause_ms: int, stall_s: float | None) -> None:
    """Plan for how long a client that vanished holds its partitions: no longer than a stall may be."""
    because = (
        f"five times the longest pause of a client ({pause_ms} ms), and at least 20 s: a client that "
        "vanishes keeps its partitions this long; at the default it kept them for 304 s (measured)"
    )
    chosen = max(_SHORTEST_INSTANCE_MS, 5 * pause_ms)
    least = pause_ms * 3 // 2
    if stall_s is not None and (allowed := int(stall_s * 1000 * 2 / 3)) < chosen:
        chosen = max(allowed, least)
        because = (
            f"two thirds of the {stall_s:g} s for which service_levels.rebalance.consume_stall_s lets a "
            "group get nothing: a client that vanishes keeps its partitions this long; at the default it "
            "kept them for 304 s (measured)"
        )
        if allowed < least:
            because = (
                f"half as much again as the {pause_ms} ms of a client's longest pause; the "
                f"{stall_s:g} s of consume_stall_s would need less"
            )
            sheet.warning(
                "rest.consumer.instance_timeout",
                f"a client that vanishes stops its partitions for {chosen / 1000:g} s, and "
                f"service_levels.rebalance.consume_stall_s allows {stall_s:g} s",
                f"have clients ask more often and say so ({sheet.name(_PAUSE)}, {pause_ms}), "
                "or allow a longer delivery gap",
                variable=_PAUSE,
            )
    instance = sheet.put(
        file,
        "consumer.instance.timeout.ms",
        "rest.consumer.instance_timeout",
        Choice(
            _INSTANCE_TIMEOUT_MS,
            "the default, 5 minutes; may be worth lowering",
            f"{GUIDE}, High Availability",
            "documented",
        ),
        Choice(chosen, because, f"{MEASURED}, Groups and restarts", "estimate"),
    )
    if (ms := int_or_none(instance)) is not None and 0 <= ms <= pause_ms:
        sheet.error(
            "rest.consumer.instance_timeout",
            f"consumer.instance.timeout.ms is {ms}, and a living client may ask for nothing for {pause_ms} "
            "ms",
            f"set it to {5 * pause_ms}, or {sheet.name(_PAUSE)} to what is true",
            "consumer.instance.timeout.ms",
        )


def plan_client_keys(sheet: Sheet, file: str) -> None:
    """Plan the keys of the consumers inside that a read depends on."""
    sheet.put(
        file,
        "consumer.receive.buffer.bytes",
        "rest.consumer.buffer",
        _unnamed("consumer.receive.buffer.bytes"),
        Choice(
            -1,
            "the kernel sizes the buffer: 43.8 MB/s were read, and 2.3 MB/s with the default of 64 KiB: "
            "each poll takes one buffer and then waits",
            f"{MEASURED}, Reading",
            "measured",
        ),
    )


def plan_poll(sheet: Sheet, file: str, workload: RestWorkload) -> None:
    """Plan how many records a poll of the consumer protocol takes: those of a produce request.

    A read of kafka-rest polls without waiting, and in that protocol such a poll may find nothing though
    records have come.
    """
    key = "consumer.max.poll.records"
    request = workload.records_per_request
    polled = min(request, read_bytes(workload.record_bytes) // workload.record_bytes)
    if polled <= _POLLED:
        value = None
        because = f"the proxy's own, {_POLLED}, which {polled} records of a produce request do not exceed"
    else:
        value = polled
        because = (
            f"the {request} records of a produce request in {-(-request // polled)} polls, where the proxy's "
            f"own {_POLLED} make {-(-request // _POLLED)}: each may find nothing though records have come, "
            "and then the read pauses (consumer.iterator.backoff.ms). The price: a commit without offsets "
            "takes all that was polled for read"
        )
    measured = Choice(value, because, f"{REAL}, Records of a poll", "estimate")
    sheet.put(file, key, "rest.consumer.poll_records", _unnamed(key), measured)


def plan_pause(sheet: Sheet, file: str, consumers: int) -> None:
    """Plan how long a read of the consumer protocol pauses after a poll that found nothing.

    ``consumers`` are those of the process. More of them keep the default, since each polls whether there are
    records or not.
    """
    if consumers > _MOST_SHORT_PAUSES:
        return
    key = "consumer.iterator.backoff.ms"
    because = (
        f"half of the default: with 4 consumers records came {_SOONER_MS} ms sooner, at the median and in "
        "the slowest percent, and no difference in processor time was found. The price: more polls, which "
        f"took {_PAUSE_CORE_PERCENT} percent of a core for each of 80 consumers; those of this process "
        f"({consumers}) take {consumers * _PAUSE_CORE_PERCENT:.1f} percent by that"
    )
    documented = Choice(
        None, f"the guide asks to leave {key} alone", f"{GUIDE}, Don't Touch These Settings", "documented"
    )
    measured = Choice(SHORT_PAUSE_MS, because, f"{REAL}, Records of a poll", "estimate")
    sheet.put(file, key, "rest.consumer.pause", documented, measured)


def plan_fetch(sheet: Sheet, file: str, prefix: str, brokers: int, *, small_fetch: bool) -> None:
    """Plan the bound of a fetch, where that keeps the heap in its limit; ``prefix`` is that of the key."""
    if not small_fetch:
        return
    key = f"{prefix}fetch.max.bytes"
    sheet.put(
        file,
        key,
        "rest.consumer.fetch_max",
        _unnamed(key),
        Choice(
            small_fetch_bytes(brokers),
            f"{_SMALL_FETCH_BYTES // MIB} MiB instead of 50, over {brokers} brokers, keep the heap within 8 "
            "GiB; of one broker they read 39.0 MB/s instead of 43.8",
            f"{MEASURED}, Reading",
            "measured" if brokers == 1 else "estimate",
        ),
    )


def small_fetch_bytes(brokers: int) -> int:
    """Return the fetch.max.bytes with which a reader holds little: 4 MiB of all brokers together."""
    return max(MIB, _SMALL_FETCH_BYTES // brokers)


def _unnamed(key: str) -> Choice:
    """Return the documented form of a key that the documents do not name: it is left out."""
    return Choice(None, f"the guide does not name {key}", GUIDE, "documented")


def read_bytes(record_bytes: int) -> int:
    """Return how much one read may answer, in bytes of keys and values: two records at least."""
    return max(_READ_BYTES, 2 * record_bytes)


def plan_request_bytes(
    sheet: Sheet, file: str, heap_mib: int, counted: int, *, answers: int, readers: int, fetched_mib: float
) -> int:
    """Plan how much one read may answer, in bytes; report the worst case beside the average.

    The heap is counted for ``counted`` bytes in each of ``answers`` filled reads, and for ``readers`` which
    have fetched ``fetched_mib`` each.
    """
    documented = Choice(
        DEFAULT_READ_BYTES, "the default, 64 MiB", f"{GUIDE}, consumer.request.max.bytes", "documented"
    )
    measured = _filled(counted, answers) if answers else None
    chosen = sheet.put(
        file, "consumer.request.max.bytes", "rest.consumer.request_bytes", documented, measured
    )
    limit = int_or_none(chosen) or DEFAULT_READ_BYTES
    if readers:
        worst = readers * limit // MIB
        sheet.note(
            "rest.memory.worst_case",
            f"the heap of {heap_mib} MiB is for {readers} readers with {fetched_mib:g} MiB each on "
            f"average; if all reach consumer.request.max.bytes ({limit / MIB:g} MiB), they have {worst} MiB "
            f"of records, which take {FULL_READ * worst} MiB as measured",
            "if reads are long, lower consumer.request.max.bytes, or the number of readers",
            "consumer.request.max.bytes",
        )
    return limit


def _filled(counted: int, answers: int) -> Choice:
    mib = f"{counted / MIB:g} MiB"
    because = (
        f"a read of a backlog fills up to it, and is sent as 1.4 to 1.8 times as much; {answers} reads "
        f"take {FULL_READ} x {mib} of heap each. With 2 MiB, records of 1 kB were read at 22 MB/s and then "
        f"17, with the default of 64 MiB at 24 and then 16. A record of {mib} would never be read"
    )
    basis: Basis = "measured" if counted == _READ_BYTES else "estimate"
    return Choice(counted, because, f"{REAL}, How large an answer is", basis)
