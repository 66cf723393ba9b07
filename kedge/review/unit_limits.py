"""Holds the limits of a unit or a container, which no inventory sets, against the process and its plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from kedge.plan.findings import Finding, Subject
from kedge.plan.settings import Setting
from kedge.plan.values import int_or_none, int_or_zero
from kedge.review.as_inventory import heap_of, memory_limit, size_mib, started_with
from kedge.review.processes import RunningProcess

#: Jars, logs and connections of a JVM of Kafka's take hundreds; what the plan gives beyond is to spare.
_FILES: Final = 4096


def check_limits(
    process: RunningProcess, planned: Mapping[str, Setting], *, least_heap: int = 0
) -> Iterator[Finding]:
    """Yield the limits that would end the process, or starve it; a heap below ``least_heap`` is to grow."""
    yield from _memory(process, planned, least_heap)
    yield from _files(process, planned)
    yield from _tasks(process, planned)


def _memory(process: RunningProcess, planned: Mapping[str, Setting], least_heap: int) -> Iterator[Finding]:
    limit = memory_limit(process)
    # A misspelt variable is read by no start script.
    read = {key: value.text for key, value in process.environment.items() if key in planned}
    unset = started_with(process)
    heap = heap_of(unset | read, limit)
    if limit is None or heap is None:
        return
    of_plan = {key: setting.value for key, setting in planned.items()}
    planned_heap = heap_of(of_plan) or 0
    beside = max(0, (size_mib(of_plan.get("MemoryMax", "")) or 0) - planned_heap)
    # What both are to be is one answer.
    wanted = max(heap, least_heap)
    name = limit_name(process, "MemoryMax")

    def size(heap: int) -> str:
        return limit_size(process, f"{heap + beside}M")

    said = f"{name} is {limit} MiB, and the heap is {heap} MiB"
    for variable, flags in unset.items():
        said += f" ({dict(process.words).get(variable, variable)} is not set, which comes to {flags})"
    # Under an operator an unset heap grows with its limit.
    both = f" and the heap to {wanted}m" if unset and process.operated else ""
    fix = f"set {name} to {size(wanted)}{both}, or the heap to {max(1, limit - beside)}m"
    if wanted > heap:
        fix = f"set {name} to {size(wanted)}, and the heap to {wanted}m"
    elif process.kind == "streams":
        said += ". RocksDB lies outside the heap, and needs memory for stores whose sizes were not given"
        fix = f"set {name} to {size(wanted)} and what RocksDB may take, or the heap to less"
    elif least_heap and least_heap > limit - beside:
        less = f", or to {size(least_heap)} with a heap of {least_heap}m" if least_heap < heap else ""
        fix = f"set {name} to {size(wanted)}{less}"
    elif beside >= limit:
        fix = f"set {name} to {size(wanted)}"
    if limit <= heap:
        yield Finding(
            "error",
            "review.memory",
            process.where,
            f"{said}: the kernel ends the process before its heap is full",
            fix,
            Subject(keys=("MemoryMax",)),
        )
    elif limit < wanted + beside:
        yield Finding(
            "warning",
            "review.memory",
            process.where,
            f"{said}: {limit - heap} MiB are left, and the plan counts {beside} MiB beside a heap"
            if limit < heap + beside
            else f"{name} is {limit} MiB: the heap needs {wanted} MiB, and what is beside it {beside} MiB",
            fix,
            Subject(keys=("MemoryMax",)),
        )


def _files(process: RunningProcess, planned: Mapping[str, Setting]) -> Iterator[Finding]:
    if "LimitNOFILE" not in process.unit or "LimitNOFILE" not in planned:
        return
    # Soft and hard: a JVM raises the soft one by itself.
    limit = int_or_none(process.unit["LimitNOFILE"].text.rpartition(":")[2].strip())
    wanted = int_or_zero(planned["LimitNOFILE"].value)
    least = wanted if process.kind == "streams" else min(_FILES, wanted)
    name = limit_name(process, "LimitNOFILE")
    if limit is not None and limit < least:
        yield Finding(
            "warning",
            "review.files",
            process.where,
            f"{name} is {limit}: connections and files beyond it fail with too many open files",
            f"set {name} to {wanted}, or take it out",
            Subject(keys=("LimitNOFILE",)),
        )


def _tasks(process: RunningProcess, planned: Mapping[str, Setting]) -> Iterator[Finding]:
    if "TasksMax" not in process.unit or "TasksMax" not in planned:
        return
    limit = int_or_none(process.unit["TasksMax"].text.strip())
    wanted = int_or_zero(planned["TasksMax"].value)
    name = limit_name(process, "TasksMax")
    # The plan gives twice what it counts.
    if limit is not None and limit < wanted // 2:
        yield Finding(
            "warning",
            "review.tasks",
            process.where,
            f"{name} is {limit}, and the plan counts up to {wanted // 2} threads: it would start no more",
            f"set {name} to {wanted}, or take it out",
            Subject(keys=("TasksMax",)),
        )


def limit_name(process: RunningProcess, directive: str) -> str:
    """Return what the file of a process calls a directive of a unit."""
    return (process.limits and process.limits.of(directive)) or directive


def limit_size(process: RunningProcess, of_unit: str) -> str:
    """Return a size as the file of a process writes it."""
    return process.limits.size(of_unit) if process.limits else of_unit
