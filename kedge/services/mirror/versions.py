"""Which versions of each kind of MirrorMaker there are, and which can be installed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kedge.plan.findings import WITH_INVENTORY, Finding, Reader
from kedge.plan.settings import Sheet
from kedge.plan.version_numbers import LOCKED_KAFKA, NEWER_KAFKA, OF_KAFKA, numbers
from kedge.services.mirror.variables import MirrorFlow, MirrorMaker


def check_version(
    role: MirrorMaker, flows: Mapping[str, MirrorFlow], reader: Reader = WITH_INVENTORY
) -> list[Finding]:
    """Find a version that there is none of in the wanted kind, and what a flow asks that it cannot do."""
    sheet = Sheet("mirror_maker", "measured", {})
    version = numbers(role.version)
    if role.kind == "classic" and version >= (4,):
        sheet.error(
            "mirror.version",
            f"mirror_maker_version is {role.version}, and classic MirrorMaker was removed in 4.0",
            "set mirror_maker_version to 3.9.2, which runs against 4.x clusters, or mirror_maker_kind to "
            "mirror_maker_2",
            variable="mirror_maker_version",
        )
    elif role.kind == "classic":
        sheet.note(
            "mirror.version",
            "classic MirrorMaker is deprecated since 3.0 and ends with 3.9",
            f"plan the move to {reader.either('mirror_maker_kind: mirror_maker_2', 'MirrorMaker 2')}",
            variable="mirror_maker_kind",
        )
    elif version >= NEWER_KAFKA:
        sheet.error(
            "mirror.version",
            f"mirror_maker_version is {role.version}, which is no version of Apache Kafka",
            OF_KAFKA,
            variable="mirror_maker_version",
        )
    elif version < (2, 4):
        sheet.error(
            "mirror.version",
            f"mirror_maker_version is {role.version}, and MirrorMaker 2 came with 2.4",
            f"set mirror_maker_version to {LOCKED_KAFKA[-1]}, or mirror_maker_kind to classic",
            variable="mirror_maker_version",
        )
    for name, flow in flows.items():
        if flow.exactly_once and role.kind == "classic":
            sheet.error(
                "mirror.exactly_once",
                f"mirror_maker_flows.{name}.exactly_once is true, and classic MirrorMaker delivers at least "
                "once",
                "set it to false, or mirror_maker_kind to mirror_maker_2",
                variable=f"mirror_maker_flows.{name}.exactly_once",
            )
    return sheet.findings


def check_lock(role: MirrorMaker, hosts: Iterable[Mapping[str, object]]) -> list[Finding]:
    """Find a version whose jars nothing names, before a deploy has changed proxies and comes to mirrors."""
    sheet = Sheet("mirror_maker", "measured", {})
    last = "3.9.2" if role.kind == "classic" else LOCKED_KAFKA[-1]
    least, beyond = ((0,), (4,)) if role.kind == "classic" else ((2, 4), NEWER_KAFKA)
    has_it = least <= numbers(role.version) < beyond
    if has_it and role.version not in LOCKED_KAFKA and not all("kafka_lock" in own for own in hosts):
        sheet.error(
            "mirror.lock",
            f"mirror_maker_version is {role.version}, and nothing names its jars and their checksums; there "
            f"are locks of {' and '.join(LOCKED_KAFKA)}",
            f"set mirror_maker_version to {last}, or kafka_lock to a lock of {role.version}",
            variable="mirror_maker_version",
        )
    return sheet.findings
