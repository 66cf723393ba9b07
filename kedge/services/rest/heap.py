"""The heap of a REST proxy, by guide or measurement, how many processes keep it small; other JVM flags."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from kedge.plan import jvm_flags
from kedge.plan.settings import MIB, Advice, Choice, Sheet
from kedge.services.clients import fetches
from kedge.services.clients.fetches import Fetches
from kedge.services.rest.consumers import DEFAULT_READ_BYTES, FULL_READ
from kedge.services.rest.distribution import RestProcess
from kedge.services.rest.memory import HEAP_LIMIT_MIB, Connection, ProcessWorkload, cached_buffers, load_of
from kedge.services.rest.source_names import GUIDE, MEASURED, REAL
from kedge.services.rest.traffic import BASE64
from kedge.services.rest.variables import KafkaRest

MOST_INSTANCES: Final = 64
_GUIDE_HEAP_MIB: Final = 1024
_GUIDE_CONSUMER_MIB: Final = 16
#: Of a heap that grows; at full speed it is as quick as one of 1 GiB (real proxy measurements).
_LEAST_GROWING_MIB: Final = 512

#: Live heap of a proxy without consumer instances, and of each idle one (measurements, "Memory per consumer
#: instance").
_LIVE_MIB: Final = 23
_IDLE_LIVE_MIB: Final = 0.3
#: A reading instance holds up to twice its fetches.
_READ_LIVE: Final = 2.0
#: G1 starts its concurrent cycle at 35 percent: live data stays below half of the heap.
_HEAP_TO_LIVE: Final = 2
_STEP_MIB: Final = 256
_REQUEST_MAX: Final = "consumer.request.max.bytes"
#: Requests in flight that hold less are within what the least heap leaves for producing.
_SMALL_BODIES_MIB: Final = 64


def heap_of(load: ProcessWorkload, advice: Advice, *, grows: bool = False) -> Choice:
    """Return the heap in MiB that a process needs for its load, by the guide or by measurements.

    ``grows`` says whether one of 1 GiB or less begins small: then less of it is enough.
    """
    return _documented(load.consumers) if advice == "documented" else _measured(load, grows=grows)


def planned_heap(sheet: Sheet, key: str, process: RestProcess, *, grows: bool) -> int:
    """Return the heap in MiB: that of a person's flags, else ``kafka_rest_heap_mib``, else what is advised.

    Flags that set no heap are an error, and come to what is measured.
    """
    given = process.variables.heap_mib
    flags = sheet.own(key) or sheet.reader.unset(key)
    if flags is None:
        return given or _mib(heap_of(process.load, sheet.advice, grows=grows))
    mib = jvm_flags.maximum_heap_mib(flags, process.facts.memory_mib)
    if mib is not None:
        return mib
    advised = _mib(_measured(process.load, grows=False))
    sheet.error(
        "rest.heap.consumers",
        f"{key} is {flags!r} and sets no -Xmx: the process would take a quarter of the host's memory",
        f"write both -Xms and -Xmx, such as {jvm_flags.heap(advised)}",
        key,
    )
    return advised


def as_flags(heap: Choice, load: ProcessWorkload, *, grows: bool) -> Choice:
    """Return an advised heap (MiB) as flags; one of 1 GiB or less may begin small and grow.

    Where each connection has a producer of its own, live data grows with the load, and the heap follows it.
    """
    mib = _mib(heap)
    if not grows or mib > _GUIDE_HEAP_MIB:
        return replace(heap, value=jvm_flags.heap(mib))
    follows = load.connection.producer
    marked = (
        "; it grows by G1's own ratio: with GCTimeRatio=2 the producers of 100 connections kept G1 marking"
    )
    return Choice(
        jvm_flags.growing_heap(mib, slowly=not follows),
        f"{heap.because}; it begins with {jvm_flags.GROWS_FROM_MIB} MiB and grows as load asks for it: under "
        "a small load kafka-rest and the bridge had 0.2 to 0.3 GiB resident, in place of 0.7 and 0.8 with 1 "
        f"GiB from the start{marked if follows else ''}",
        f"{REAL}, A heap that grows; {heap.source}",
        "measured",
    )


def put_heap(sheet: Sheet, file: str, key: str, process: RestProcess, *, grows: bool) -> int:
    """Plan the heap under a variable of its own; return it in MiB. ``grows`` as of :func:`as_flags`."""
    heap_mib = planned_heap(sheet, key, process, grows=grows)
    if given := process.variables.heap_mib:
        sheet.give(key, jvm_flags.heap(given))
        sheet.held[key] = "kafka_rest_heap_mib"
    documented = as_flags(_documented(process.load.consumers), process.load, grows=False)
    measured = as_flags(_measured(process.load, grows=grows), process.load, grows=grows)
    sheet.put(file, key, "rest.heap.consumers", documented, measured)
    return heap_mib


def instances_for_heap(
    variables: KafkaRest, at_least: int, connection: Connection, fetched: Fetches, advice: Advice
) -> tuple[int, bool]:
    """Return how many processes keep every heap within 8 GiB, and whether fetches are bounded for it.

    More than ``MOST_INSTANCES`` where none of them are enough.

    By measurement fetches are bounded before a process is split: 4 MiB of them read at nine tenths of the
    speed of 50 MiB, for a sixth of the memory on twelve partitions.
    """

    def too_large(count: int, *, small_fetch: bool) -> bool:
        each = heap_each(variables, count, connection, fetched, advice, small_fetch=small_fetch)
        return each > HEAP_LIMIT_MIB

    if not too_large(at_least, small_fetch=False):
        return at_least, False
    count, small_fetch = at_least, advice == "measured"
    while count <= MOST_INSTANCES and too_large(count, small_fetch=small_fetch):
        count += 1
    return count, small_fetch


def heap_each(
    variables: KafkaRest,
    instances: int,
    connection: Connection,
    fetched: Fetches,
    advice: Advice,
    *,
    small_fetch: bool,
) -> int:
    """Return the heap in MiB of one of ``instances`` processes that share the workload of a host."""
    return _mib(heap_of(load_of(variables, instances, connection, fetched, small_fetch=small_fetch), advice))


def check_heap(
    sheet: Sheet,
    key: str,
    heap_mib: int,
    load: ProcessWorkload,
    buffer_bytes: int,
    *,
    grows: bool,
    collector: str = "",
) -> None:
    """Find a heap, that of ``key``, that is too large to pause shortly, or too small for what it holds.

    ``collector`` is the variable of own flags with which no heap was measured.
    """
    by_flags = any(s.key == key and s.by == "person" for s in sheet.settings) and key not in sheet.held
    unset = None if by_flags else sheet.reader.unset(key)
    if heap_mib > HEAP_LIMIT_MIB:
        sheet.warning(
            "rest.heap.limit",
            f"a heap of {heap_mib} MiB is above {HEAP_LIMIT_MIB}: its pauses cause time-outs of requests and "
            f"disconnected consumers ({GUIDE}, JVM)",
            sheet.either(
                "leave the heap to the plan, or raise kafka_rest_instances_per_host",
                "spread the load over more processes with less heap each",
            ),
            key,
        )
    needed = heap_of(load, sheet.advice, grows=grows)
    needed_mib = _mib(needed)
    assumed = _assumed(sheet, load)
    if heap_mib < needed_mib:
        idle = "consumers and connections, which were not given, take more"
        measured = "the least that was measured"
        if collector and needed_mib == _GUIDE_HEAP_MIB:
            measured += f" with other flags in {collector} than the start script's own ({_LEAST_GROWING_MIB})"
        unsaid = sheet.either("", "" if load.consumers or load.connections else f"{measured}; {idle}")
        taken = f"{key} is not set, which comes to {unset}: " if unset else ""
        sheet.warning(
            "rest.heap.consumers",
            f"{taken}a heap of {heap_mib} MiB is below "
            + (
                f"{needed_mib} MiB, {unsaid}"
                if unsaid
                else f"the {needed_mib} MiB that the workload asks for: {needed.because}"
            )
            + (f". {_REQUEST_MAX} is not set: {assumed}" if assumed else ""),
            _larger(sheet, key if by_flags or unset else "", needed_mib)
            + (f", and set {_REQUEST_MAX} to {load.request_max_bytes}" if assumed else ""),
            key,
            value=jvm_flags.heap(needed_mib),
            named=[_REQUEST_MAX] if assumed else [],
        )
    elif assumed and heap_mib < (most := _mib(heap_of(_by_default(load), sheet.advice, grows=grows))):
        sheet.warning(
            "rest.heap.consumers",
            f"{_REQUEST_MAX} is not set: {load.answers} reads that find a backlog ask for a heap of "
            f"{most} MiB with its default of {DEFAULT_READ_BYTES // MIB} MiB, and the heap is {heap_mib} MiB",
            f"set {_REQUEST_MAX} to {load.request_max_bytes}",
            _REQUEST_MAX,
            key,
        )
    bodies = load.requests.body_bytes / MIB
    if bodies > heap_mib >= needed_mib:
        sheet.error(
            "rest.heap.bodies",
            f"{load.requests.concurrent} requests of {load.requests.bytes_each} bytes are in flight "
            f"together, "
            f"{bodies:.0f} MiB as text and records, and the heap of {heap_mib} MiB by {GUIDE} has no "
            "part for them",
            f"send fewer records in a request, spread the load over {math.ceil(bodies / heap_mib) + 1} times "
            "as many processes, or leave advice at measured, which counts them",
        )
    if buffer_bytes >= heap_mib * MIB:
        sheet.error(
            "rest.producer.buffer",
            f"producer.buffer.memory is {buffer_bytes} bytes, and the whole heap has {heap_mib * MIB}",
            f"set producer.buffer.memory to {heap_mib * MIB // 4} or less, or give the process more heap",
            "producer.buffer.memory",
        )
    elif buffer_bytes > heap_mib * MIB // 2:
        sheet.warning(
            "rest.producer.buffer",
            f"producer.buffer.memory is {buffer_bytes} bytes, more than half of the heap of {heap_mib} MiB: "
            "nothing is left for consumers and requests",
            f"set producer.buffer.memory to {heap_mib * MIB // 4} or less",
            "producer.buffer.memory",
        )


def _assumed(sheet: Sheet, load: ProcessWorkload) -> str:
    """Say how large reads are taken to be where nothing bounds them as the plan would; empty elsewhere."""
    if not load.answers or sheet.reader.unset(_REQUEST_MAX) is None:
        return ""
    if any(s.key == _REQUEST_MAX for s in sheet.settings) or load.request_max_bytes >= DEFAULT_READ_BYTES:
        return ""
    counted, default = load.request_max_bytes / MIB, DEFAULT_READ_BYTES // MIB
    return f"{counted:g} MiB are counted, and its default is {default}"


def _by_default(load: ProcessWorkload) -> ProcessWorkload:
    return replace(load, request_max_bytes=DEFAULT_READ_BYTES)


def _larger(sheet: Sheet, flags: str, needed_mib: int) -> str:
    """Return how a person gets the heap that is needed, whose ``flags`` set another one, or a variable."""
    if needed_mib > HEAP_LIMIT_MIB:
        split = f"a process that needs more than {HEAP_LIMIT_MIB} MiB"
        own = flags or "kafka_rest_heap_mib"
        return sheet.either(f"take {own} out: the plan splits {split}", f"split {split}")
    if flags:
        # What the start script takes by itself is smaller.
        return f"write {jvm_flags.heap(needed_mib)} in {flags}" + sheet.either(", or take it out", "")
    return f"set kafka_rest_heap_mib to {needed_mib}, or take it out"


def _documented(consumers: int) -> Choice:
    """Return the heap of the guide: 1 GiB, and 16 MiB for each consumer instance on the process."""
    mib = _GUIDE_HEAP_MIB + _GUIDE_CONSUMER_MIB * consumers
    because = f"1 GiB for producing and administration, and 16 MiB for each of {consumers} consumer instances"
    return Choice(mib, because, f"{GUIDE}, Memory", "documented")


def _measured(load: ProcessWorkload, *, grows: bool) -> Choice:
    """Return the heap that measurements ask for: 1 GiB at least, or 512 MiB where it grows.

    Twice what stays live, and once what requests and the answers to reads take, which nothing keeps.
    """
    live, answers, bodies = _live_mib(load), _answers_mib(load), load.requests.body_bytes / MIB
    if bodies < _SMALL_BODIES_MIB:
        bodies = 0
    needed = live * _HEAP_TO_LIVE + answers + bodies
    least = _LEAST_GROWING_MIB if grows else _GUIDE_HEAP_MIB
    mib = max(least, math.ceil(needed / _STEP_MIB) * _STEP_MIB)
    parts = [
        f"{_LIVE_MIB} MiB for the proxy itself",
        *(
            [f"{load.connections} connections x {load.connection.live_mib:g} MiB of a producer"]
            if load.connection.producer
            else []
        ),
        f"{load.buffer_bytes / MIB:.0f} MiB producer buffer",
        f"{load.consumers} consumer instances x {_IDLE_LIVE_MIB} MiB",
        f"{load.readers} readers x {_READ_LIVE:.0f} x {load.fetched_mib:g} MiB fetched"
        + (f" ({load.fetches.said(load.partitions)})" if load.readers else ""),
    ]
    because = (
        f"live heap: {' + '.join(parts)} = {live:.0f} MiB; the heap is twice that, so that the collector "
        "keeps up and the consumers of an instance that restarts fit as well"
    )
    if answers:
        because += (
            f", plus {answers:.0f} MiB of answers, {load.answers} reads x {FULL_READ} x "
            f"{load.request_max_bytes / MIB:g} MiB"
        )
    if bodies:
        because += (
            f", plus {bodies:.0f} MiB of {load.requests.concurrent} requests in flight x "
            f"{load.requests.bytes_each / MIB:.1f} MiB x {1 + BASE64:.2f}, their text as base64 and "
            "their records"
        )
    source = f"{MEASURED}, Memory per consumer instance; {fetches.SOURCE}"
    if mib == least and grows:
        return Choice(mib, f"{because}; at least {least} MiB", source, "measured")
    if mib == least:
        return Choice(mib, f"{because}; at least 1 GiB", f"{source}; {GUIDE}, Memory", "documented")
    return Choice(mib, because, source, "estimate")


def _live_mib(load: ProcessWorkload) -> float:
    return (
        _LIVE_MIB
        + load.buffer_bytes / MIB
        + load.connections * load.connection.live_mib
        + load.consumers * _IDLE_LIVE_MIB
        + load.readers * _READ_LIVE * load.fetched_mib
    )


def _answers_mib(load: ProcessWorkload) -> float:
    return load.answers * FULL_READ * load.request_max_bytes / MIB


def _mib(choice: Choice) -> int:
    return int(choice.value or 0)


_REGIONS: Final = 2048  # G1 aims at about this many regions; OpenJDK, G1 ergonomics
_GUIDE_REGION_MIB: Final = 16


def collectors(heap_mib: int, logs: str, load: ProcessWorkload, release: int | None) -> tuple[Choice, Choice]:
    """Return the flags of the collector, of buffers and of its log, the guide's and the measured ones."""
    flags, source = (
        f"{jvm_flags.REST_G1} {jvm_flags.gc_log(logs, release)}",
        f"{MEASURED}, Garbage collectors",
    )
    documented = Choice(flags, "the G1 flags of the guide", f"{GUIDE}, JVM", "documented")
    measured = documented
    if heap_mib < _REGIONS * _GUIDE_REGION_MIB:
        regions = heap_mib // _GUIDE_REGION_MIB
        measured = Choice(
            flags.replace(f"-XX:G1HeapRegionSize={_GUIDE_REGION_MIB}M ", ""),
            f"the guide's G1 flags without the region size: regions of {_GUIDE_REGION_MIB} MiB would leave "
            f"{regions} of the {_REGIONS} that G1 aims at, for 65 to 80 percent more pauses; without it, "
            "records/s were 1.1 times as many, within the spread",
            f"{source}; {REAL}, The advice on a fleet",
            "measured",
        )
    buffers = cached_buffers(load)
    if buffers is not None:
        because = f"{measured.because}; {buffers.because}"
        measured = Choice(
            f"{measured.value} {buffers.value}", because, f"{source}; {buffers.source}", "measured"
        )
    return documented, measured


def put_options(sheet: Sheet, file: str, key: str, flags: Sequence[tuple[str, str]]) -> None:
    """Plan a variable of further JVM flags, each with its reason; a person's own value needs them too."""
    if not flags:
        return
    check_options(sheet, key, flags)
    because = "; ".join(because for _, because in flags)
    value = " ".join(flag for flag, _ in flags)
    sheet.put(file, key, "rest.options", Choice(value, because, "kafka-rest-run-class", "derived"))


def check_options(sheet: Sheet, key: str, flags: Sequence[tuple[str, str]]) -> None:
    """Find JVM flags that a person's own value of their variable leaves out."""
    own = sheet.own(key)
    for flag, because in flags:
        if own is not None and flag not in own:
            sheet.error(
                "rest.options",
                f"{key} is set{sheet.inside}, and leaves out {flag.partition('=')[0]}: {because}",
                f"add {flag} to it, or take {key} out",
                key,
            )
