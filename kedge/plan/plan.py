"""What a plan is made of: the instances of each host, topics, clients, rollouts, findings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from kedge.plan.compact_names import natural
from kedge.plan.findings import Finding, together
from kedge.plan.settings import Setting
from kedge.plan.sources import cited, keys


@dataclass(frozen=True, slots=True)
class PlannedInstance:
    """One process of a service on one host. ``name`` is the instance part of its unit, ``service@name``.

    ``software`` is how it is installed and started, in plain values, where that differs between the
    instances of a service.
    """

    name: str
    settings: tuple[Setting, ...]
    port: int | None = None
    software: Mapping[str, object] = field(default_factory=dict, hash=False)

    def value(self, key: str, default: str = "") -> str:
        """Return the planned value of a key, or ``default``."""
        return next((s.value for s in self.settings if s.key == key), default)


@dataclass(frozen=True, slots=True)
class RestartBatches:
    """Which hosts of a service a rollout takes together, an instance each at a time, one batch after another.

    Attributes:
        settings: how many are away at once and why (``at_once``), how many go first and what they have to
            hold before others follow.
        ahead: host -> how many of its instances go first, one at a time.
        batches: the hosts of the others.
        racks: host -> what it shares with others: two of one are never away together.
    """

    settings: tuple[Setting, ...]
    ahead: Mapping[str, int] = field(hash=False)
    batches: tuple[tuple[str, ...], ...]
    racks: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Part:
    """What one subject adds to the plan.

    Attributes:
        services: host -> service -> instances.
        topics: cluster -> topic -> settings (``partitions``, ``replication.factor`` and topic keys).
        clients: client -> settings, files relative to where the person puts them.
        rollouts: host -> service -> what a deploy and a restart wait for.
        restart_batches: service -> which of its hosts a rollout takes together.
        findings: in the order in which they were found.
    """

    services: Mapping[str, Mapping[str, tuple[PlannedInstance, ...]]] = field(default_factory=dict)
    topics: Mapping[str, Mapping[str, tuple[Setting, ...]]] = field(default_factory=dict)
    clients: Mapping[str, tuple[Setting, ...]] = field(default_factory=dict)
    rollouts: Mapping[str, Mapping[str, tuple[Setting, ...]]] = field(default_factory=dict)
    restart_batches: Mapping[str, RestartBatches] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan(Part):
    """The plan of a whole inventory."""

    @property
    def has_errors(self) -> bool:
        """Whether a finding forbids to touch any host."""
        return any(f.severity == "error" for f in self.findings)

    def settings(self) -> Iterator[tuple[str, Setting]]:
        """Yield every setting after the place that has it, such as ``rest1 kafka_rest@8082``."""
        for host, services in self.services.items():
            for service, instances in services.items():
                for instance in instances:
                    yield from ((f"{host} {service}@{instance.name}", s) for s in instance.settings)
        for cluster, topics in self.topics.items():
            for topic, settings in topics.items():
                yield from ((f"topic {topic} on {cluster}", s) for s in settings)
        for client, settings in self.clients.items():
            yield from ((f"client {client}", s) for s in settings)
        for host, of_host in self.rollouts.items():
            for service, settings in of_host.items():
                yield from ((f"{host} a rollout of {service}", s) for s in settings)
        for service, found in self.restart_batches.items():
            yield from ((f"batches of {service}", s) for s in found.settings)

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON form: hosts, topics, clients, rollouts, waves, sources, findings."""
        return {
            "hosts": {
                host: {
                    "services": {
                        service: {
                            "instances": [
                                {
                                    "name": i.name,
                                    "port": i.port,
                                    "settings": [_setting_json(s) for s in i.settings],
                                }
                                | ({"software": dict(i.software)} if i.software else {})
                                for i in instances
                            ]
                        }
                        for service, instances in services.items()
                    }
                }
                for host, services in self.services.items()
            },
            "topics": {
                cluster: {
                    topic: {"settings": [_setting_json(s) for s in settings]}
                    for topic, settings in topics.items()
                }
                for cluster, topics in self.topics.items()
            },
            "clients": {
                client: {"settings": [_setting_json(s) for s in settings]}
                for client, settings in self.clients.items()
            },
            "rollouts": {
                host: {
                    service: {"settings": [_setting_json(s) for s in settings]}
                    for service, settings in of_host.items()
                }
                for host, of_host in self.rollouts.items()
            },
            "sources": {
                key: {"title": s.title, "by": s.by, "address": s.address, "version": s.version}
                for key, s in cited(s.source for _, s in self.settings()).items()
            },
            # Batches, by the name that version 1 of the schema has for them.
            "waves": {
                service: {
                    "settings": [_setting_json(s) for s in found.settings],
                    "ahead": dict(found.ahead),
                    "batches": [list(batch) for batch in found.batches],
                    "racks": dict(found.racks),
                }
                for service, found in self.restart_batches.items()
            },
            "findings": [
                {
                    "severity": f.severity,
                    "rule": f.rule,
                    "where": f.where,
                    "message": f.message,
                    "fix": f.fix,
                    "subject": asdict(f.subject) if f.subject else None,
                }
                for f in self.findings
            ],
        }


def _setting_json(s: Setting) -> dict[str, Any]:
    row: dict[str, Any] = {
        "file": s.file,
        "key": s.key,
        "value": s.value,
        "rule": s.rule,
        "because": s.because,
        "source": s.source,
        "sources": list(keys(s.source)),
        "basis": s.basis,
        "by": s.by,
    }
    marks = {"secret": s.hidden, "copied": s.copied}
    return row | {name: True for name, holds in marks.items() if holds}


def merge(parts: Iterable[Part]) -> Plan:
    """Put the parts of all subjects together; hosts come by the numbers in their names."""
    services: dict[str, dict[str, tuple[PlannedInstance, ...]]] = {}
    topics: dict[str, dict[str, tuple[Setting, ...]]] = {}
    clients: dict[str, tuple[Setting, ...]] = {}
    rollouts: dict[str, dict[str, tuple[Setting, ...]]] = {}
    restart_batches: dict[str, RestartBatches] = {}
    findings: list[Finding] = []
    for part in parts:
        for host, of_host in part.services.items():
            services.setdefault(host, {}).update(of_host)
        for cluster, of_cluster in part.topics.items():
            topics.setdefault(cluster, {}).update(of_cluster)
        clients.update(part.clients)
        rollouts.update({host: dict(sorted(of.items())) for host, of in part.rollouts.items()})
        restart_batches.update(part.restart_batches)
        findings += part.findings
    order = {"error": 0, "warning": 1, "note": 2}
    return Plan(
        services={host: services[host] for host in sorted(services, key=natural)},
        topics={c: dict(sorted(t.items())) for c, t in sorted(topics.items())},
        clients=dict(sorted(clients.items())),
        rollouts=rollouts,
        restart_batches=restart_batches,
        findings=tuple(sorted(together(findings), key=lambda f: order[f.severity])),
    )
