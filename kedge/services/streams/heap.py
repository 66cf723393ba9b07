"""The heap of a Streams instance: producers' buffers, what is fetched, and what each thread works on."""

from __future__ import annotations

import math
from typing import Final

from kedge.plan import jvm_flags
from kedge.plan.settings import MIB, Choice, Setting, Sheet
from kedge.services.streams.properties import MEASURED, App, threads_of
from kedge.services.streams.stores import changelogs_of, partitions_read

_BASE_HEAP_MIB: Final = 256
_THREAD_HEAP_MIB: Final = 32  # a thread's share of the record cache, and what it works on


def put_heap(sheet: Sheet, app: App, file: str, buffers: int) -> int:
    """Plan the heap of an instance whose producers' buffers take so many bytes; return it in MiB."""
    threads = threads_of(app.variables, app.facts)
    buffered = math.ceil(buffers / MIB)
    stores = app.variables.stores
    # A thread that restores reads its changelogs, and nothing else.
    partitions = max(
        partitions_read(stores, app.carriers, threads),
        changelogs_of(stores, app.carriers, threads),
    )
    fetched = math.ceil(threads * app.fetches.held(partitions) / MIB)
    planned = math.ceil((_BASE_HEAP_MIB + buffered + fetched + threads * _THREAD_HEAP_MIB) / 64) * 64
    because = (
        f"an estimated {_BASE_HEAP_MIB} MiB, producer buffers of {buffered} MiB, {fetched} MiB fetched "
        f"({threads} threads x {app.fetches.said(partitions)}) and an estimated {_THREAD_HEAP_MIB} MiB for "
        "each thread"
    )
    own = app.variables.heap_mib
    if own is None:
        flags = sheet.own("KAFKA_HEAP_OPTS")
        planned = (flags and jvm_flags.maximum_heap_mib(flags, app.facts.memory_mib)) or planned
        sheet.put(
            file,
            "KAFKA_HEAP_OPTS",
            "streams.heap",
            Choice(jvm_flags.heap(planned), because, MEASURED, "estimate"),
        )
        return planned
    because = f"set in the inventory; the plan would have said {planned} MiB: {because}"
    sheet.settings.append(
        Setting(
            file, "KAFKA_HEAP_OPTS", jvm_flags.heap(own), "streams.heap", because, "the inventory", "yours"
        )
    )
    variable = "streams_app_heap_mib"
    if own < buffered + 128:
        sheet.error(
            "streams.heap",
            f"{sheet.name(variable)} is {own}, and the producers' buffers alone take {buffered} MiB",
            f"set it to {planned}, or leave it out",
            variable=variable,
        )
    elif own < buffered + fetched:
        sheet.warning(
            "streams.heap",
            f"{sheet.name(variable)} is {own}, and a backlog fills it: producer buffers of {buffered} MiB "
            f"and {fetched} MiB fetched ({threads} threads x {app.fetches.said(partitions)})",
            f"set it to {planned}, or leave it out",
            variable=variable,
        )
    return own
