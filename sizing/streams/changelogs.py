"""Rules for the changelog topics of a Streams application, held against what its cluster says of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sizing.core.findings import Finding
from sizing.core.settings import Sheet
from sizing.streams.properties import additional_retention_ms
from sizing.streams.variables import StreamsApp


@dataclass(frozen=True, slots=True)
class Needs:
    """What an application's changelogs have to keep.

    Attributes:
        windowed_ms: the longest that a windowed changelog has to keep a record; 0 without windows.
        window_ms: of it, the window itself, without what is added against clocks that differ.
        keyed: whether a store keeps keys without a window.
    """

    windowed_ms: int
    window_ms: int
    keyed: bool


@dataclass(frozen=True, slots=True)
class Changelog:
    """A changelog topic as the cluster has it; ``retention_ms`` is -1 without an end."""

    topic: str
    cleanup_policy: str
    retention_ms: int


def needs(spec: StreamsApp) -> Needs:
    """Return what the stores of an application ask of their changelogs."""
    logged = [store for store in spec.stores if store.changelog]
    window = max((store.retention_ms for store in logged), default=0)
    keyed = any(store.kind == "key_value" for store in logged)
    return Needs(window + additional_retention_ms(spec) if window else 0, window, keyed)


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
    return sheet.findings


def from_configs(configs: Mapping[str, Mapping[str, Any]]) -> list[Changelog]:
    """Return the changelogs of topic -> key -> value."""
    return [
        Changelog(topic, str(values["cleanup.policy"]), int(values["retention.ms"]))
        for topic, values in sorted(configs.items())
    ]
