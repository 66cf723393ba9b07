"""What a plan is made of: settings with their reasons, findings, and the inventory they come from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from sizing.places import compact, natural

Severity = Literal["error", "warning", "note"]
Advice = Literal["measured", "documented"]

KIB = 1024
MIB = 1024 * KIB


_SECRET: Final = re.compile(
    r"(?i)password|secret|jaas|credential|token(?!izer)|basic\.auth\.user|\.key\.pem|keystore\.key"
)


def looks_secret(key: str) -> bool:
    """Return whether a key is made for a secret, by its name."""
    return _SECRET.search(key) is not None


@dataclass(frozen=True, slots=True)
class Setting:
    """One key of one file, with the sum that led to its value.

    Attributes:
        file: absolute path on the node.
        key: the component's own key (a property, an environment variable, a sysctl, a unit directive).
        value: as it is rendered.
        rule: stable name of the rule, such as ``rest.heap.consumers``.
        because: the reason with its numbers filled in.
        source: document and section, or the measurement.
        by: ``plan``, or ``person`` when the inventory names the value itself.
        secret: the value is a secret, or a reference to one.
        copied: the value is a file of the control machine; ``file`` holds what such files hold, in order.
    """

    file: str
    key: str
    value: str
    rule: str
    because: str
    source: str
    by: Literal["plan", "person"] = "plan"
    secret: bool = False
    copied: bool = False

    @property
    def hidden(self) -> bool:
        """Whether the value is never printed: a secret, or set under a key that is made for one."""
        return self.secret or looks_secret(self.key)


@dataclass(frozen=True, slots=True)
class Finding:
    """Something a person should know before a host is touched; an error stops every playbook."""

    severity: Severity
    rule: str
    where: str
    message: str
    fix: str


@dataclass(frozen=True, slots=True)
class Instance:
    """One process of a service on one host. ``name`` is the instance part of its unit, ``service@name``."""

    name: str
    settings: tuple[Setting, ...]
    port: int | None = None

    def value(self, key: str, default: str = "") -> str:
        """Return the planned value of a key, or ``default``."""
        return next((s.value for s in self.settings if s.key == key), default)


@dataclass(frozen=True, slots=True)
class Part:
    """What one subject adds to the plan.

    Attributes:
        services: host -> service -> instances.
        topics: cluster -> topic -> settings (``partitions``, ``replication.factor`` and topic keys).
        clients: client -> settings, files relative to where the person puts them.
        rollouts: host -> service -> what a deploy and a restart wait for.
        findings: in the order in which they were found.
    """

    services: Mapping[str, Mapping[str, tuple[Instance, ...]]] = field(default_factory=dict)
    topics: Mapping[str, Mapping[str, tuple[Setting, ...]]] = field(default_factory=dict)
    clients: Mapping[str, tuple[Setting, ...]] = field(default_factory=dict)
    rollouts: Mapping[str, Mapping[str, tuple[Setting, ...]]] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan(Part):
    """The plan of a whole inventory."""

    @property
    def has_errors(self) -> bool:
        """Whether a finding forbids to touch any host."""
        return any(f.severity == "error" for f in self.findings)

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON form (DESIGN: hosts, topics, clients, rollouts, findings)."""
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
            "findings": [
                {
                    "severity": f.severity,
                    "rule": f.rule,
                    "where": f.where,
                    "message": f.message,
                    "fix": f.fix,
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
        "by": s.by,
    }
    marks = {"secret": s.hidden, "copied": s.copied}
    return row | {name: True for name, holds in marks.items() if holds}


def merge(parts: Iterable[Part]) -> Plan:
    """Put the parts of all subjects together; hosts come by the numbers in their names."""
    services: dict[str, dict[str, tuple[Instance, ...]]] = {}
    topics: dict[str, dict[str, tuple[Setting, ...]]] = {}
    clients: dict[str, tuple[Setting, ...]] = {}
    rollouts: dict[str, dict[str, tuple[Setting, ...]]] = {}
    findings: list[Finding] = []
    for part in parts:
        for host, of_host in part.services.items():
            services.setdefault(host, {}).update(of_host)
        for cluster, of_cluster in part.topics.items():
            topics.setdefault(cluster, {}).update(of_cluster)
        clients.update(part.clients)
        rollouts.update({host: dict(sorted(of.items())) for host, of in part.rollouts.items()})
        findings += part.findings
    order = {"error": 0, "warning": 1, "note": 2}
    return Plan(
        services={host: services[host] for host in sorted(services, key=natural)},
        topics={c: dict(sorted(t.items())) for c, t in sorted(topics.items())},
        clients=dict(sorted(clients.items())),
        rollouts=rollouts,
        findings=tuple(sorted(_together(findings), key=lambda f: order[f.severity])),
    )


def _together(findings: Iterable[Finding]) -> list[Finding]:
    """Say once what holds in many places, and name the places."""
    places: dict[tuple[Severity, str, str, str], list[str]] = {}
    for f in findings:
        places.setdefault((f.severity, f.rule, f.message, f.fix), []).append(f.where)
    return [
        Finding(
            severity,
            rule,
            compact(sorted(where, key=natural)) if len(set(where)) > 1 else where[0],
            message,
            fix,
        )
        for (severity, rule, message, fix), where in places.items()
    ]


@dataclass(frozen=True, slots=True)
class Inventory:
    """Hosts with their variables, and groups with their hosts, as Ansible resolved them.

    Attributes:
        hosts: host -> variables.
        groups: group -> hosts, in inventory order, children included.
        noticed: what the plan says of how its variables were written, which their values no longer tell.
    """

    hosts: Mapping[str, Mapping[str, Any]]
    groups: Mapping[str, tuple[str, ...]]
    noticed: tuple[Finding, ...] = ()

    def group(self, name: str) -> tuple[str, ...]:
        """Return the hosts of a group; none when the inventory has no such group."""
        return self.groups.get(name, ())

    def address(self, host: str) -> str:
        """Return the address by which other machines reach a host."""
        return str(self.hosts[host].get("ansible_host", host))

    def common(self, variable: str, default: Any = None) -> Any:
        """Return a variable that is the same for the whole inventory (set for the group ``all``)."""
        for variables in self.hosts.values():
            if variable in variables:
                return variables[variable]
        return default

    @classmethod
    def from_ansible(cls, listing: Mapping[str, Any]) -> Inventory:
        """Build from what ``ansible-inventory --list`` prints."""
        hostvars = listing.get("_meta", {}).get("hostvars", {})

        def members(group: str) -> list[str]:
            entry = listing.get(group, {})
            found = list(entry.get("hosts", []))
            for child in entry.get("children", []):
                found += members(child)
            return list(dict.fromkeys(found))

        groups = {name: tuple(members(name)) for name in listing if name != "_meta"}
        every = dict.fromkeys(h for hosts in groups.values() for h in hosts)
        return cls(hosts={h: hostvars.get(h, {}) for h in every}, groups=groups)


@dataclass(frozen=True, slots=True)
class Choice:
    """One form of an advice: the value it comes to here, why, and where it is written.

    ``value`` None means that this form leaves the key out.
    """

    value: str | int | float | None
    because: str
    source: str


class Sheet:
    """Collects the settings of one instance, and the findings that choosing them raises.

    A person's own value wins over both forms of the advice and is marked; ``measured`` wins over
    ``documented`` unless the inventory asks for the documents to the letter, and the deviation is a note.
    """

    def __init__(self, where: str, advice: Advice, own: Mapping[str, Any]) -> None:
        self.where = where
        self.advice = advice
        self._own = {k: _text(v) for k, v in own.items()}
        self.settings: list[Setting] = []
        self.findings: list[Finding] = []

    def put(
        self, file: str, key: str, rule: str, documented: Choice | None, measured: Choice | None = None
    ) -> str | None:
        """Choose the value of a key, record it and return it; None when the key is left out."""
        chosen = (
            measured
            if measured is not None and (self.advice == "measured" or documented is None)
            else documented
        )
        if key in self._own:
            own = self._own.pop(key)
            planned = (
                f"; the plan would have said {_text(chosen.value)}: {chosen.because}"
                if chosen and chosen.value is not None
                else ""
            )
            self.settings.append(
                Setting(file, key, own, rule, f"set in the inventory{planned}", "the inventory", by="person")
            )
            return own
        if chosen is None:
            return None
        if chosen is measured and documented is not None and documented.value != measured.value:
            here, there = apart(_shown(measured), _shown(documented))
            self.note(
                rule,
                f"{key} {here} {_since(measured)} ({measured.because}; {measured.source}), where "
                f"{documented.source} {there}",
                f"set advice: documented to follow the document, or {key} to a value of your own",
            )
        if chosen.value is None:
            return None
        text = _text(chosen.value)
        self.settings.append(Setting(file, key, text, rule, chosen.because, chosen.source))
        return text

    def rest_of_own(self, file: str, rule: str, *, variables: bool = False) -> list[str]:
        """Take over the person's values that no rule has named; return their keys, for the key check.

        With ``variables`` only names of environment variables (JAVA_HOME) are taken; the others wait.
        """
        keys = [key for key in self._own if key.isupper() or not variables]
        for key in keys:
            self.settings.append(
                Setting(
                    file, key, self._own.pop(key), rule, "set in the inventory", "the inventory", by="person"
                )
            )
        return keys

    def by_file(self) -> tuple[Setting, ...]:
        """Return the settings, those of one file together, files in the order in which they were begun."""
        files: dict[str, list[Setting]] = {}
        for setting in self.settings:
            files.setdefault(setting.file, []).append(setting)
        return tuple(setting for of_file in files.values() for setting in of_file)

    def own(self, key: str) -> str | None:
        """Return the person's value of a key that no rule has named yet; None where there is none."""
        return self._own.get(key)

    def error(self, rule: str, message: str, fix: str) -> None:
        """Add a finding that stops every playbook."""
        self.findings.append(Finding("error", rule, self.where, message, fix))

    def warning(self, rule: str, message: str, fix: str) -> None:
        """Add a finding that a person should look at before deploying."""
        self.findings.append(Finding("warning", rule, self.where, message, fix))

    def note(self, rule: str, message: str, fix: str) -> None:
        """Add a finding that is good to know."""
        self.findings.append(Finding("note", rule, self.where, message, fix))


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _shown(choice: Choice) -> str | None:
    return None if choice.value is None else _text(choice.value)


def _since(choice: Choice) -> str:
    return "by measurement" if "measure" in choice.source.lower() else "by what is known since"


def apart(measured: str | None, documented: str | None) -> tuple[str, str]:
    """Say in what two forms of a value differ; of lists of flags, only the flags that are not in both."""
    if measured is None or documented is None:
        return (
            "is left out" if measured is None else f"is {measured}",
            "leaves it out" if documented is None else f"says {documented}",
        )
    here, there = measured.split(), documented.split()
    if len(here) < 3:
        return f"is {measured}", f"says {documented}"
    more = " ".join(word for word in here if word not in there)
    less = " ".join(word for word in there if word not in here)
    return (f"has {more}" if more else f"is without {less}", f"has {less}" if less else f"is without {more}")
