"""What windowed changelogs keep, and for how long; checks of all of them, by what their cluster says."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from kedge.plan.findings import Finding
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
from kedge.services.topics.cluster_limits import HANDLES_SEEN

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


@dataclass(frozen=True, slots=True)
class Needs:
    """What an application's changelogs have to keep.

    Attributes:
        windowed_ms: the longest that a windowed changelog has to keep a record; 0 without windows.
        window_ms: the shortest window, without what is added against clocks that differ.
        keyed: whether a store keeps keys without a window.
        segment_ms, segment_bytes: after so long, or with so much, the plan has a segment closed.
    """

    windowed_ms: int
    window_ms: int
    keyed: bool
    segment_ms: int = SEGMENT_MS
    segment_bytes: int = SEGMENT_BYTES


@dataclass(frozen=True, slots=True)
class Changelog:
    """A changelog topic as the cluster has it; ``retention_ms`` is -1 without an end.

    A segment is closed after ``segment_ms`` or with ``segment_bytes``; None where the cluster does not say.
    """

    topic: str
    cleanup_policy: str
    retention_ms: int
    segment_ms: int | None = None
    segment_bytes: int | None = None


def needs(spec: StreamsApp) -> Needs:
    """Return what the stores of an application ask of their changelogs."""
    logged = [store for store in spec.stores if store.changelog]
    keyed = any(store.kind == "key_value" for store in logged)
    if not (windows := windows_of(spec.stores)):
        return Needs(0, 0, keyed)
    kept = kept_of(spec)
    longest = windows[-1] + kept.additional_ms
    return Needs(longest, windows[0], keyed, kept.segment_ms, kept.segment_bytes)


def is_changelog(topic: str, app: str, apps: Iterable[str]) -> bool:
    """Tell whether a topic is a changelog of that application, and of none whose name only begins alike."""
    longer = [other for other in apps if other.startswith(f"{app}-")]
    return (
        topic.startswith(f"{app}-")
        and topic.endswith("-changelog")
        and not any(topic.startswith(f"{other}-") for other in longer)
    )


def check_changelogs(app: str, needed: Needs, found: Iterable[Changelog]) -> list[Finding]:
    """Return what is wrong with the changelogs that the cluster has."""
    sheet = Sheet(f"application {app}", "measured", {})
    for each in found:
        policies = {part.strip() for part in each.cleanup_policy.split(",")}
        kept = "ever" if each.retention_ms < 0 else f"{each.retention_ms} ms"
        if "compact" not in policies and needed.keyed and not needed.windowed_ms:
            sheet.error(
                "streams.changelog",
                f"{each.topic} has cleanup.policy={each.cleanup_policy}, and is all that is left of its keys",
                "set cleanup.policy=compact on it before retention takes them",
            )
        if not needed.windowed_ms or "delete" not in policies:
            if needed.windowed_ms and not needed.keyed:
                sheet.warning(
                    "streams.changelog",
                    f"{each.topic} has cleanup.policy={each.cleanup_policy}: with a new key for each window "
                    "it grows without end, and so does a restore",
                    "set cleanup.policy=compact,delete on it, as Kafka Streams does",
                )
            continue
        if 0 <= each.retention_ms < needed.window_ms:
            sheet.error(
                "streams.changelog",
                f"{each.topic} keeps records for {kept}, less than the window of {needed.window_ms} ms: a "
                "restore would lose a part of it",
                f"set retention.ms={needed.windowed_ms} on it",
            )
        elif each.retention_ms < 0 or each.retention_ms > needed.windowed_ms:
            more = (
                "ever more"
                if each.retention_ms < 0
                else f"{each.retention_ms / needed.windowed_ms:.0f} times as much"
            )
            sheet.warning(
                "streams.changelog",
                f"{each.topic} keeps records for {kept}, and its windows need {needed.windowed_ms} ms: a "
                f"restore reads and takes {more}",
                f"set retention.ms={needed.windowed_ms} on it, as Kafka Streams would",
            )
        _check_segments(sheet, needed, each)
    return sheet.findings


def _check_segments(sheet: Sheet, needed: Needs, found: Changelog) -> None:
    """Find segments that stay open for longer than planned: retention waits for a segment's newest record.

    Kafka Streams sets them when it makes a topic, and leaves those that are there as they are.
    """
    if found.segment_ms is None or found.segment_bytes is None:
        return
    # What closes them in the plan is enough: the other one is the default there.
    by_time = needed.segment_ms < SEGMENT_MS and found.segment_ms > needed.segment_ms
    by_size = needed.segment_bytes < SEGMENT_BYTES and found.segment_bytes > needed.segment_bytes
    wanted = [f"segment.ms={needed.segment_ms}"] if by_time else []
    wanted += [f"segment.bytes={needed.segment_bytes}"] if by_size else []
    if wanted:
        sheet.warning(
            "streams.changelog.segment",
            f"{found.topic} closes a segment after {found.segment_ms} ms or with {found.segment_bytes} bytes"
            f", where the plan has {' and '.join(wanted)}: a broker deletes a segment only when its newest "
            "record has expired, so a restore reads more than planned",
            f"set {' and '.join(wanted)} on it with kafka-configs: Kafka Streams leaves a topic as it is",
        )


def from_configs(configs: Mapping[str, Mapping[str, Any]]) -> list[Changelog]:
    """Return the changelogs of topic -> key -> value."""
    return [
        Changelog(
            topic,
            str(values["cleanup.policy"]),
            int(values["retention.ms"]),
            *(int(values[key]) if key in values else None for key in ("segment.ms", "segment.bytes")),
        )
        for topic, values in sorted(configs.items())
    ]


def check_own_settings(sheet: Sheet, spec: StreamsApp) -> None:
    """Hold own settings of the internal topics against what their stores need."""
    policy = str(spec.settings.get("topic.cleanup.policy", ""))
    kept = [s.name for s in spec.stores if s.changelog and s.kind == "key_value"]
    windowed = [s.name for s in spec.stores if s.changelog and s.retention_ms]
    if kept and "delete" in policy:
        sheet.error(
            "streams.changelog",
            f"topic.cleanup.policy is {policy}, and the changelog of {kept[0]} is all that is left of its "
            "keys: they would be lost after the retention",
            f"take topic.cleanup.policy{sheet.out}: Kafka Streams sets it by store",
            "topic.cleanup.policy",
        )
    if windowed and policy == "compact":
        sheet.warning(
            "streams.changelog",
            f"topic.cleanup.policy is compact, and the changelog of {windowed[0]} has a new key for each "
            "window: it grows without end, and so does a restore",
            f"take topic.cleanup.policy{sheet.out}: Kafka Streams sets compact,delete",
            "topic.cleanup.policy",
        )


def check_files(sheet: Sheet, spec: StreamsApp, brokers: int | None) -> None:
    """Find changelogs of one copy, and those cut into more files than brokers were seen to keep open."""
    if str(spec.settings.get("replication.factor")) == "1" and brokers != 1:
        sheet.warning(
            "streams.changelog",
            f"replication.factor{sheet.of(sheet.where)} is 1, one copy of each internal topic: losing a "
            "broker loses state and records",
            f"take replication.factor{sheet.out}, for that of the brokers, or set it to "
            f"{min(3, brokers or 3)}",
            "replication.factor",
        )
    of = brokers or 1
    kept = kept_of(spec)
    files = math.ceil(changelog_files(spec.stores, kept) * min(3, of) / of)
    if files > HANDLES_SEEN:
        sheet.warning(
            "streams.changelog.files",
            f"the changelogs of {spec.name} are about {files} files on each of {of} brokers, in {min(3, of)} "
            f"copies with segments of {kept.segment_ms} ms or {kept.segment_bytes} bytes, above the "
            f"{HANDLES_SEEN} seen in production",
            f"use more brokers, larger segments (topic.segment.ms and topic.segment.bytes{sheet.inside}), or "
            "fewer partitions",
            "topic.segment.ms",
            "topic.segment.bytes",
        )
