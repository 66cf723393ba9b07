"""Checks of the changelog topics of a Streams application: of own settings, and of what its cluster says."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kedge.plan.findings import Finding
from kedge.plan.settings import Sheet
from kedge.services.streams.changelog_retention import changelog_files, kept_of
from kedge.services.streams.stores import SEGMENT_BYTES, SEGMENT_MS, windows_of
from kedge.services.streams.variables import StreamsApp
from kedge.services.topics.cluster_limits import HANDLES_SEEN


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
