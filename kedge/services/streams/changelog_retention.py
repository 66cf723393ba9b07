"""What windowed changelogs keep: how long beyond their windows, and when a segment is closed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from kedge.plan.settings import Basis, Choice, Sheet
from kedge.plan.values import int_or_zero
from kedge.services.streams.stores import (
    CHECK_MS,
    SEGMENT_BYTES,
    SEGMENT_MS,
    Kept,
    restore_bytes,
    stores_of,
    windows_of,
)
from kedge.services.streams.variables import ARTICLE, StateStore, StreamsApp

_DAY_MS: Final = 86_400_000  # default of windowstore.changelog.additional.retention.ms
_ADDITIONAL_MIN_MS: Final = 600_000
_SEGMENT: Final = "topic.segment.ms"
_SEGMENT_SIZE: Final = "topic.segment.bytes"
#: No batch is larger: the default of max.message.bytes is half of it.
_LEAST_SEGMENT_BYTES: Final = 2 * 2**20


def windowed(spec: StreamsApp) -> bool:
    """Return whether an application has changelogs with windows."""
    return any(s.retention_ms and s.changelog for s in spec.stores)


def put_changelogs(sheet: Sheet, file: str, spec: StreamsApp, carriers: int, kept: Kept) -> None:
    """Plan what windowed changelogs keep: by retention, and by segments that close so that it can act."""

    def read(of: Kept) -> str:
        return f"{restore_bytes(spec.stores, carriers, of) / 1e6:.0f} MB"

    day, week = (read(replace(kept, additional_ms=days * _DAY_MS)) for days in (1, 7))
    because = (
        "as long as the shortest window is kept, 10 minutes at least, against clocks that differ; a restore "
        f"reads {read(kept)} at most, with the default of a day {day}, with the brokers' 7 days {week}"
    )
    section = f"{ARTICLE}, Stateful Operation and Change log restore process"
    basis: Basis = "documented" if kept.additional_ms == _DAY_MS else "estimate"
    key = "windowstore.changelog.additional.retention.ms"
    sheet.put(file, key, "streams.changelog", Choice(kept.additional_ms, because, section, basis))
    stock = replace(kept, segment_ms=SEGMENT_MS, segment_bytes=SEGMENT_BYTES)
    because = (
        "a broker deletes a segment only when its newest record has expired, and by default closes one at "
        f"1 GiB or after 7 days, so that a restore would read up to {read(stock)} instead of {read(kept)}; "
        "topics that are there already keep what they have: set it on them"
    )
    source, rule = f"{section}; Kafka documentation, Topic configurations", "streams.changelog.segment"
    windows = windows_of(spec.stores)
    if size := planned_segment_bytes(spec.stores, kept.additional_ms):
        what = (
            "half of what a partition of its changelogs keeps on average, since one value reaches all of them"
        )
        sheet.put(file, _SEGMENT_SIZE, rule, Choice(size, f"{what}: {because}", source, "estimate"))
    else:
        planned = planned_segment_ms(windows[-1], kept.additional_ms)
        what = "half of what its changelogs keep"
        sheet.put(file, _SEGMENT, rule, Choice(planned, f"{what}: {because}", source, "estimate"))
    if size is None and len(windows) > 1:
        sheet.note(
            rule,
            f"windows that are kept for {windows[0]} to {windows[-1]} ms share one {_SEGMENT}, "
            f"{kept.segment_ms} ms: a changelog of the shortest keeps up to so much more for a restore",
            "say records_per_s and record_bytes of the stores in streams_app_stores, for a size instead, or "
            "give the store segment.ms of its own in the application (Materialized.withLoggingEnabled)",
        )


def kept_of(spec: StreamsApp) -> Kept:
    """Return what the windowed changelogs of an application keep, a person's own values first."""
    additional = additional_retention_ms(spec)
    size = planned_segment_bytes(spec.stores, additional)
    windows = windows_of(spec.stores)
    planned = planned_segment_ms(windows[-1], additional) if windows and size is None else SEGMENT_MS
    return Kept(
        additional,
        int_or_zero(spec.settings.get(_SEGMENT)) or planned,
        int_or_zero(spec.settings.get(_SEGMENT_SIZE)) or size or SEGMENT_BYTES,
    )


def additional_retention_ms(spec: StreamsApp) -> int:
    """Return what a windowed changelog keeps beyond its window, a person's own value first."""
    own = spec.settings.get("windowstore.changelog.additional.retention.ms")
    if own is not None:
        return int_or_zero(own)
    shortest = min(windows_of(spec.stores), default=0)
    return min(_DAY_MS, max(_ADDITIONAL_MIN_MS, shortest))


def planned_segment_ms(longest_ms: int, additional_ms: int) -> int:
    """Return after how long a segment of a changelog is closed: half of what it keeps.

    Not sooner than retention looks for closed ones; a week, Kafka's default, at most.
    """
    return min(SEGMENT_MS, max(CHECK_MS, (longest_ms + additional_ms) // 2))


def planned_segment_bytes(stores: Sequence[StateStore], additional_ms: int) -> int | None:
    """Return with how much a segment of every changelog is closed; None where time alone closes them well.

    A segment's time and size reach all changelogs of an application. A time for the longest window lets a
    shorter one keep too much, and a time for the shortest cuts the others, and those of keys, into thousands
    of files. Of a size this is half of what a partition keeps on average: that adds half to a restore at
    most, and makes three segments of a partition on average, whatever its rate.
    """
    logged = [s for s in stores if s.changelog]
    mixed = len(windows_of(stores)) + any(s.kind == "key_value" for s in logged) > 1
    if not mixed or not windows_of(stores) or any(_rate(s) is None for s in logged if s.retention_ms):
        return None
    partitions = kept = 0.0
    for store in logged:
        number = stores_of(store, measured=True)
        partitions += number * store.partitions
        kept += number * (
            (_rate(store) or 0) * (store.retention_ms + additional_ms) / 1000
            if store.retention_ms
            else (store.keys or 0) * (store.record_bytes or 0)
        )
    return min(SEGMENT_BYTES, max(_LEAST_SEGMENT_BYTES, int(kept / partitions / 2)))


def changelog_files(stores: Sequence[StateStore], kept: Kept) -> int:
    """Return the files of one copy of all changelogs: two of each segment.

    The cleaner merges the segments of keys when half of them are old: until then there are twice as many.
    """
    segments = 0.0
    for store in stores:
        if not store.changelog:
            continue
        of_all = stores_of(store, measured=True) * store.partitions
        if store.kind == "key_value":
            size = (store.keys or 0) * (store.record_bytes or 0) / store.partitions
            segments += of_all * (2 * math.ceil(size / kept.segment_bytes) + 1)
            continue
        span = store.retention_ms + kept.additional_ms + CHECK_MS
        rate = (_rate(store) or 0) / store.partitions / 1000
        by_bytes = kept.segment_bytes / rate if rate else math.inf
        segments += of_all * (math.ceil(span / min(kept.segment_ms, by_bytes)) + 1)
    return math.ceil(2 * segments)


def _rate(store: StateStore) -> float | None:
    """Return the bytes a second that a store takes; None where nobody says."""
    if store.records_per_s is None or store.record_bytes is None:
        return None
    return store.records_per_s * store.record_bytes
