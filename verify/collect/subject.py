"""What a run tested, for the head of its report: taken from its plan, its load and its hosts. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from kedge.evidence.border.host_output import machine as told
from kedge.evidence.release import VERSION
from kedge.services.registry import SERVICES

#: What of plan.json says how things are to be. The rest are remarks, and where this machine has its files.
_PLANNED: Final = ("hosts", "topics", "clients", "rollouts", "clusters", "versions", "flows", "applications")
_PACKAGES: Final = {service.name: service.package for service in SERVICES if service.package}
#: What a reader of a report does not take for a service.
_NO_SERVICES: Final = frozenset({"host_tuning", "java"})
_DIGITS: Final = 16
_SIZES: Final = ("records_per_s", "record_bytes", "records_per_request", "producers", "consumers")

#: What a machine is asked, by name.
_ASKED: Final = {
    "boot_id": "cat /proc/sys/kernel/random/boot_id",
    "cores": "nproc",
    "memory_kib": "awk '/^MemTotal/ {print $2}' /proc/meminfo",
    "system": ". /etc/os-release; echo $PRETTY_NAME",
    "haproxy": "haproxy -v 2>/dev/null | awk 'NR == 1 {print $3}'",
}
#: Tells of the machine on which it runs: a line ``name=answer`` each.
MACHINE: Final = "; ".join(f'echo "{name}=$({command})"' for name, command in _ASKED.items())


def fingerprint(plan: Mapping[str, Any]) -> str:
    """Return what two runs of the same plan share, whatever machine it was made on: 16 hexadecimal digits.

    The SHA-256 of what plan.json says of hosts, topics, clients, rollouts, clusters, versions, flows and
    applications, as JSON with sorted keys and without blanks.
    """
    planned = {key: plan[key] for key in _PLANNED if key in plan}
    text = json.dumps(planned, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def machine(lines: Iterable[str]) -> dict[str, Any]:
    """Return what :data:`MACHINE` printed: boot_id, cores, memory_mib, system and haproxy, those it has."""
    said = told(list(lines))
    found: dict[str, Any] = {name: said[name] for name in ("boot_id", "system", "haproxy") if said.get(name)}
    for name, key, unit in (("cores", "cores", 1), ("memory_mib", "memory_kib", 1024)):
        if key in said:
            found[name] = int(said[key]) // unit
    return found


def subject(
    plan: Mapping[str, Any],
    load: Mapping[str, Any],
    machines: Mapping[str, Mapping[str, Any]],
    here: Mapping[str, Any],
) -> dict[str, Any]:
    """Return ``subject`` of run.json.

    Args:
        plan: plan.json.
        load: load.json.
        machines: host -> :func:`machine`, of those that could be read.
        here: the same of this machine, which loads and audits.
    """
    return {
        "kit": VERSION,
        "plan": fingerprint(plan),
        "services": _services(plan, machines),
        "topics": _topics(plan, load),
        "load": _load(load),
        "machines": _machines(machines, here),
    }


def _services(plan: Mapping[str, Any], machines: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a row for each service, distribution and version, with its hosts and instances."""
    known = plan.get("versions", {})
    rows: dict[tuple[str, str, str], dict[str, Any]] = {}
    for host, part in plan["hosts"].items():
        for service, of_service in part["services"].items():
            if service in _NO_SERVICES:
                continue
            said = known.get(host, {}).get(service, {})
            version, distribution = said.get("version", ""), said.get("distribution", "")
            if package := _PACKAGES.get(service):
                # No variable says which version its host has.
                version, distribution = machines.get(host, {}).get(package.lower(), ""), package
            row = rows.setdefault(
                (service, distribution, version),
                {
                    "service": service,
                    "distribution": distribution,
                    "version": version,
                    "hosts": [],
                    "instances": 0,
                },
            )
            row["hosts"].append(host)
            row["instances"] += len(of_service["instances"])
    return list(rows.values())


def _topics(plan: Mapping[str, Any], load: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the topics of the load and of what was made of it, as planned."""
    ends = [part[side] for part in load.get("mirrors", ()) for side in ("source", "target")]
    ends += [
        part[side] for part in load.get("applications", ()) for side in ("input", "output") if part.get(side)
    ]
    wanted = [(load.get("cluster", ""), load[via]["topic"]) for via in ("kafka", "rest") if load.get(via)]
    wanted += [(end["cluster"], end["topic"]) for end in ends]
    found = []
    for cluster, topic in dict.fromkeys(wanted):
        settings = plan.get("topics", {}).get(cluster, {}).get(topic, {}).get("settings", ())
        values = {setting["key"]: setting["value"] for setting in settings}
        row: dict[str, Any] = {"cluster": cluster, "topic": topic}
        for name, key in (("partitions", "partitions"), ("replication", "replication.factor")):
            if key in values:
                row[name] = int(values[key])
        found.append(row)
    return found


def _load(load: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what each interface was to be given; an address and a login are no part of it."""
    return [
        {"via": via, "topic": load[via]["topic"]}
        | {key: load[via][key] for key in _SIZES if key in load[via]}
        for via in ("kafka", "rest")
        if load.get(via)
    ]


def _machines(machines: Mapping[str, Mapping[str, Any]], here: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a row a machine; hosts that booted as one are containers of one, and share what it has."""
    rows: dict[str, dict[str, Any]] = {}
    for host, about in (*sorted(machines.items()), ("", here)):
        row = rows.setdefault(
            about.get("boot_id", host),
            {"hosts": [], "load": False}
            | {k: about[k] for k in ("cores", "memory_mib", "system") if k in about},
        )
        if host:
            row["hosts"].append(host)
        else:
            row["load"] = True
    return list(rows.values())
