"""The keys of a person's own for a flow: whether its version reads them, and where they have to stand."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kedge.keys.catalogue import known_keys
from kedge.keys.unread import check_keys
from kedge.plan.findings import Finding, Subject
from kedge.services.mirror.flow import Flow
from kedge.services.mirror.variables import BESIDE, MirrorFlow, MirrorMaker, bare_keys

#: Families of keys that MirrorMakerConfig reads for all clusters: of its REST server and of logins.
_FOR_ALL: Final = (
    "access.control.",
    "admin.listeners",
    "bootstrap.servers",
    "config.providers",
    "config.storage.",
    "header.converter",
    "key.converter",
    "listeners",
    "offset.storage.",
    "plugin.path",
    "response.http.",
    "rest.",
    "sasl.",
    "security.",
    "ssl.",
    "status.storage.",
    "value.converter",
)
#: Families of keys that MirrorMakerConfig hands on whole: to plugins, converters and workers.
_PASSED_ON: Final = (
    "config.providers.",
    "header.converter.",
    "key.converter.",
    "replication.policy.",
    "task.",
    "value.converter.",
    "worker.",
)


def check_flow_keys(flow: Flow, role: MirrorMaker) -> list[Finding]:
    """Return a warning for each key of a person's own that this version does not read."""
    spec, where = flow.flow, f"mirror_maker_flows.{flow.name}"
    findings = []
    for client in ("consumer", "producer"):
        variable, own = f"{where}.{client}_settings", getattr(spec, f"{client}_settings")
        findings += check_keys(client, role.version, own, variable)
    if role.kind == "mirror_maker_2":
        others = frozenset[str]().union(*(known_keys(c, role.version) for c in BESIDE))
        of_client = tuple(f"{client}." for client in ("consumer", "producer", "admin"))
        own = {
            key: bare
            for key, bare in bare_keys(spec).items()
            if bare not in others and not bare.startswith((*_PASSED_ON, *of_client))
        }
        findings += check_keys("mm2", role.version, own, f"{where}.settings", bare=own.__getitem__)
        findings += _misplaced(spec, role, f"{where}.settings")
    return findings


def _misplaced(spec: MirrorFlow, role: MirrorMaker, where: str) -> Iterable[Finding]:
    """Find keys of workers and clients that stand for all clusters, and are read of one alone."""
    read = known_keys("mm2", role.version)
    beside = frozenset[str]().union(*(known_keys(component, role.version) for component in BESIDE))
    for key, bare in bare_keys(spec).items():
        client, _, rest = key.partition(".")
        of_client = client in ("consumer", "producer", "admin") and rest in beside
        if key != bare or key in read or key.startswith((*_PASSED_ON, *_FOR_ALL)):
            continue
        if of_client or key in beside:
            alone = [c for c in BESIDE if key in known_keys(c, role.version)]
            under = f"{alone[0]}.{key}" if alone in (["consumer"], ["producer"]) else key
            place = f"{spec.source if under.startswith('consumer.') else spec.target}.{under}"
            yield Finding(
                "warning",
                "keys.unknown",
                where,
                f"MirrorMaker 2 reads {key} of a cluster alone, and passes over it here: {place}",
                f"write {place}",
                Subject(where, (key,)),
            )
