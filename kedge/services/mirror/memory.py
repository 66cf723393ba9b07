"""Memory of a mirror process: its heap, and the limit of its unit."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from kedge.plan import jvm_flags
from kedge.plan.findings import WITH_INVENTORY
from kedge.plan.settings import MIB, Choice, Setting, Sheet
from kedge.services.mirror.flow import ARTICLE, Flow

BASE_MIB: Final = 256  # default heap of Kafka's tools
_UNPACKED: Final = 2  # what was fetched, as it came and unpacked
_BESIDE_HEAP_MIB: Final = 256  # metaspace, code, threads and direct buffers of a client JVM
#: What a compressor keeps beside the heap for an open batch, in MiB: of zstd 2 MiB of window and the tables
#: of its level 3; of gzip what zlib takes with its default window and memory level (zconf.h).
COMPRESSOR_MIB: Final[Mapping[str, float]] = {"zstd": 3.5, "gzip": 0.25}


def heap_of(mib: float) -> int:
    """Return a heap, in MiB, that is a multiple of 64."""
    return math.ceil(mib / 64) * 64


def fetched_mib(flow: Flow, consumers: int) -> tuple[int, str]:
    """Return what a process with that many consumers has fetched at most, and why.

    As if it had all partitions of the source: others may be away. As it came, and unpacked.
    """
    partitions = flow.limits.source_partitions
    mib = math.ceil(_UNPACKED * flow.fetches.held(partitions, consumers) / MIB)
    said = flow.fetches.said(partitions, consumers)
    return mib, f"{mib} MiB fetched, as it came and unpacked: twice {said}"


def put_heap(sheet: Sheet, flow: Flow, file: str, mib: int, because: str, buffer_mib: int) -> int:
    """Plan the heap of a process, ``mib`` unless the inventory sets one; return it in MiB.

    ``buffer_mib`` is what of the heap its producers' buffers take.
    """
    own_mib = flow.flow.heap_mib
    heap = own_mib or mib
    if own_mib:
        planned = f"set in the inventory; the plan would have said {mib} MiB: {because}"
        setting = Setting(
            file, "KAFKA_HEAP_OPTS", jvm_flags.heap(heap), "mirror.heap", planned, "the inventory", "yours"
        )
        sheet.settings.append(setting)
        if heap < buffer_mib + 128:
            sheet.error(
                "mirror.heap",
                f"{sheet.name(f'{flow.variable}.heap_mib')} is {heap}, and the producer's buffer alone takes "
                f"{buffer_mib} MiB",
                f"set heap_mib to {mib}, or leave it out",
                variable=f"{flow.variable}.heap_mib",
            )
    else:
        source = f"{ARTICLE}, Enough buffer memory for all the partitions"
        planned_heap = Choice(jvm_flags.heap(heap), because, source, "estimate")
        flags = sheet.put(file, "KAFKA_HEAP_OPTS", "mirror.heap", planned_heap) or ""
        heap = jvm_flags.maximum_heap_mib(flags) or heap
    return heap


def check_held(sheet: Sheet, flow: Flow, heap: int, buffers: int, fetched: int, who: str) -> None:
    """Find a heap, in MiB, that does not hold the ``buffers`` of producers and what is ``fetched``.

    Files of a person do not say how many workers share the tasks of MirrorMaker 2, nor a review how many
    partitions there are, unless its workload does.
    """
    told = sheet.reader.known(f"{flow.variable}.largest_topic_partitions")
    held = buffers + (fetched if told else 0)
    if held < heap or any(f.rule == "mirror.heap" and f.severity == "error" for f in sheet.findings):
        return
    several = "" if flow.classic else " over all workers"
    report = sheet.warning if flow.classic or sheet.reader is WITH_INVENTORY else sheet.note
    report(
        "mirror.heap",
        f"{who} {held} MiB{several} while the target takes nothing, {buffers} in buffers of producers"
        f"{f' and {fetched} fetched' * told}, and {'its heap' if flow.classic else 'the heap of one'} is "
        f"{heap} MiB",
        sheet.either("set a larger heap_mib", "raise the heap (-Xmx)")
        + ", or set a smaller buffer.memory, where the target may stall",
        variable=f"{flow.variable}.heap_mib",
    )


def put_memory_limit(sheet: Sheet, flow: Flow, unit: str, heap: int, codec: str) -> None:
    """Plan what a process may take in all: its ``heap``, in MiB, and what its producers' ``codec`` takes."""
    compressor = math.ceil(COMPRESSOR_MIB.get(codec, 0) * flow.limits.target_partitions)
    limit = heap + _BESIDE_HEAP_MIB + compressor
    because = (
        f"heap of {heap} MiB and an estimated {_BESIDE_HEAP_MIB} MiB for metaspace, code, threads and direct "
        "buffers"
    )
    if compressor:
        because += (
            f"; an estimated {compressor} MiB for {codec}, which compresses a batch for each of "
            f"{flow.limits.target_partitions} target partitions"
        )
    sheet.put(
        unit,
        "MemoryMax",
        "mirror.memory",
        Choice(f"{limit}M", because, "systemd.resource-control(5)", "estimate"),
    )
