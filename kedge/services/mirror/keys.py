"""The keys of a person's own for a flow: whether its version reads them, and where they have to stand."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from kedge.keys.catalogue import Component, defaults, every_key, known_keys
from kedge.keys.unread import SILENT, KnownKeys, check_keys, unread
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


#: What a plan has for all flows, and a file for one alone.
_OF_ALL: Final = re.compile(r"tasks\.max|replication\.policy\.class|(?!.*\.storage\.).*replication\.factor")
_OF_WORKERS: Final = re.compile(r"(config|offset|status)\.storage\.")


def plan_key(key: str, source: str, target: str) -> str:
    """Return the key of a plan that says what this one of a person's file says of the flow's copies."""
    flow = f"{source}->{target}."
    rest = key.removeprefix(flow)
    if rest == key:
        rest = key.removeprefix(f"{target}.")
        return rest if _OF_WORKERS.match(rest) else key
    if rest.startswith("producer.override."):
        return f"{target}.producer.{rest.removeprefix('producer.override.')}"
    if (of_consumer := rest.removeprefix("source.")).startswith("consumer."):
        return f"{source}.{of_consumer}"
    return rest if _OF_ALL.fullmatch(rest) else key


def holding(key: str, there: Collection[str], source: str, target: str) -> str:
    """Return the key of a person's file that holds where a plan has ``key``; that itself where none does.

    As MirrorMakerConfig and the configuration of a source connector put keys over one another.
    """
    flow = f"{source}->{target}."
    begins = {
        f"{target}.producer.": (f"{flow}producer.override.", f"{target}.producer."),
        f"{source}.consumer.": (f"{flow}source.consumer.", f"{source}.consumer.", f"{flow}consumer."),
    }
    for begin, over in begins.items():
        if key.startswith(begin):
            names = [f"{one}{key.removeprefix(begin)}" for one in over]
            return next((name for name in names if name in there), key)
    if _OF_WORKERS.match(key) and key not in there and f"{target}.{key}" in there:
        return f"{target}.{key}"
    return f"{flow}{key}" if _OF_ALL.fullmatch(key) and f"{flow}{key}" in there else key


#: What both MirrorMakers, the classic one and the workers of the second, give their producers by themselves.
GIVEN: Final = {
    "acks": "all",
    "delivery.timeout.ms": str(2**31 - 1),
    "max.block.ms": str(2**63 - 1),
    "max.in.flight.requests.per.connection": "1",
}


#: What workers of the second give beside it.
GIVEN_BY_WORKERS: Final = {**GIVEN, "enable.idempotence": "false"}


def unset_values(version: str, source: str, target: str, *, classic: bool) -> dict[str, str]:
    """Return what holds of the keys of a flow that are not set."""
    producer = {**defaults("producer", version), **GIVEN}
    consumer = {**defaults("consumer", version), "enable.auto.commit": "false"}
    if classic:
        return consumer | producer
    producer |= GIVEN_BY_WORKERS
    consumer["auto.offset.reset"] = "earliest"
    found: dict[str, str] = {**defaults("mm2", version)}
    found |= {f"{target}.{key}": value for key, value in defaults("connect", version).items()}
    found |= {f"{target}.producer.{key}": value for key, value in producer.items()}
    found |= {f"{source}.consumer.{key}": value for key, value in consumer.items()}
    return found


#: The clients that copy records, each by the end of the flow that it is of.
_CLIENT_OF_END: Final[Mapping[str, Component]] = {"source": "consumer", "target": "producer"}


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
            if bare not in others and not bare.startswith((*_PASSED_ON, *of_client, "override."))
        }
        for key, bare in own.items():
            findings += _unknown(key, bare, role, f"{where}.settings")
        findings += _misplaced(spec, role, f"{where}.settings")
    return findings


def _unknown(key: str, bare: str, role: MirrorMaker, where: str) -> list[Finding]:
    """Find a key of MirrorMaker 2 that nothing reads, by those of the client that it is for."""
    begin = key.removesuffix(bare).removesuffix("override.")
    client = next((one for one in BESIDE if begin.endswith(f"{one}.")), None)
    # Without a client, also those of workers, and what clients have in common.
    of: tuple[Component, ...] = (client,) if client else ("mm2", "connect", "admin")
    known = frozenset[str]().union(*(known_keys(one, role.version) for one in of))
    read = KnownKeys(f"MirrorMaker 2 {role.version}", known, every_key(of[0]))
    return unread(read, {key: bare}, where, "keys.unknown", "warning", SILENT, variable=where)


def _misplaced(spec: MirrorFlow, role: MirrorMaker, where: str) -> Iterable[Finding]:
    """Find keys of workers and clients that stand for all clusters, and are read of one alone."""
    read = known_keys("mm2", role.version)
    beside = frozenset[str]().union(*(known_keys(component, role.version) for component in BESIDE))
    of_all = read.union(*(known_keys(c, role.version) for c in BESIDE if c not in _CLIENT_OF_END.values()))
    offsets = f"{spec.source}->{spec.target}.producer."

    def moved(what: str, key: str, place: str) -> Finding:
        fix = f"take {key} out: {place} is there" if place in spec.settings else f"write {place}"
        return Finding("warning", "keys.unknown", where, what, fix, Subject(where, (key,), meant=place))

    for key, bare in bare_keys(spec).items():
        if key.startswith(offsets) and key.removeprefix(offsets) in known_keys("producer", role.version):
            place = f"{spec.target}.producer.{key.removeprefix(offsets)}"
            what = (
                f"MirrorMaker 2 reads {key} for the producer of its offset syncs alone, and copies records "
                f"by {place}"
            )
            yield moved(what, key, place)
        client, override, rest = bare.partition(".override.") if key == bare else key.partition(".override.")
        if override and client.rpartition(".")[2] == "producer" and not key.startswith(f"{offsets}override."):
            place = f"{offsets}override.{rest}"
            yield moved(
                f"MirrorMaker 2 reads producer.override. only for a flow, and ignores {key}", key, place
            )
            continue
        if bare == "task.max":
            what = f"MirrorMaker 2 does not know {key} and ignores it"
            yield moved(what, key, f"{key.removesuffix(bare)}tasks.max")
        for end, reader in _CLIENT_OF_END.items():
            begin = f"{spec.source if end == 'source' else spec.target}."
            place = f"{begin}{reader}.{bare}"
            if key == f"{begin}{bare}" and bare in known_keys(reader, role.version) - of_all:
                yield moved(f"no client of MirrorMaker 2 reads {key}: its {reader} reads {place}", key, place)
        newer = bare.replace("blacklist", "exclude")
        if newer != bare and bare in read and newer in read:
            what = f"{key} is read up to 3.9 alone: 4.0 ignores it, and excludes nothing by it"
            yield moved(what, key, f"{key.removesuffix(bare)}{newer}")
        client, _, rest = key.partition(".")
        of_client = client in ("consumer", "producer", "admin") and rest in beside
        if key != bare or key in read or key.startswith((*_PASSED_ON, *_FOR_ALL)):
            continue
        if of_client or key in beside:
            alone = [c for c in BESIDE if key in known_keys(c, role.version)]
            under = f"{alone[0]}.{key}" if alone in (["consumer"], ["producer"]) else key
            place = f"{spec.source if under.startswith('consumer.') else spec.target}.{under}"
            what = f"MirrorMaker 2 reads {key} only for a cluster, and ignores it here: {place}"
            yield moved(what, key, place)
