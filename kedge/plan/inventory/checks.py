"""Checks over the whole inventory: clusters nobody can reach, addresses that are none, values at odds."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, get_args

from kedge.evidence.nearest import nearest
from kedge.plan.findings import Finding, Subject, together
from kedge.plan.hosts import Inventory
from kedge.plan.inventory.clusters import KafkaCluster, clusters
from kedge.plan.inventory.groups import check_groups
from kedge.plan.inventory.misspelt_names import check_names
from kedge.plan.inventory.variables import Shared
from kedge.plan.service import Service, group_names
from kedge.plan.settings import Advice
from kedge.plan.values import LONG
from kedge.plan.variable_messages import wrong_variable
from kedge.plan.version_numbers import NEWER_KAFKA, numbers

#: Variables that a plan reads once for all hosts.
_SAME: Final = tuple(Shared.model_fields)
#: A name of hosts; underscores are no part of one, and resolvers take them.
_HOST: Final = re.compile(r"(?=.{1,253}\Z)\w[\w-]*(\.[\w-]+)*\.?", re.ASCII)
#: A host of a domain that is kept for examples; a URL, a list or a path may stand around it.
_EXAMPLE: Final = re.compile(
    r"(?<![\w.@-])(?:[\w-]+\.)+(?:example(?:\.(?:com|net|org))?|invalid)(?![\w.-])", re.IGNORECASE
)
#: Digits of a number in a text with which rules could not compute; a key's letters that are looked at.
_DIGITS: Final = re.compile(r"\d{101}")
_SHOWN: Final = 150
#: What clients of today reach.
_OLDEST_KAFKA: Final = (2, 1)
_SERVER: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:,/]+):\d{1,5}")


def check_inventory(inventory: Inventory, services: Sequence[Service]) -> list[Finding]:
    """Return what is wrong with the inventory as a whole; the planners of the services say the rest."""
    return [
        *inventory.source_findings,
        *check_groups(inventory, group_names(services)),
        *_advice(inventory),
        *_empty(inventory),
        *_differing(inventory),
        *check_names(inventory, services),
        *_clusters(inventory),
        *_addresses(inventory),
        *(finding for service in services for finding in service.check(inventory)),
    ]


def check_example_names(inventory: Inventory) -> Iterator[Finding]:
    """Warn of variables that name hosts of the domains which are kept for examples (RFC 2606)."""
    for host, variables in inventory.hosts.items():
        for key, name in dict.fromkeys(
            (key, named[0])
            for variable, value in variables.items()
            for key, one in _texts(variable, value)
            if (named := _EXAMPLE.search(one))
        ):
            yield Finding(
                "warning",
                "inventory.example",
                f"{'all' if key.split('.')[0] in _SAME else host}: {key}",
                f"{key} names {name}: that name is reserved for examples, so no host has it",
                "write the name of your own, or take the variable out",
                Subject(key, host=host),
            )


def _texts(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield the texts that a variable holds, each under its full name; without recursion."""
    left = [(name, value)]
    while left:
        key, one = left.pop()
        if isinstance(one, Mapping):
            left += [(f"{key}.{name}", below) for name, below in one.items()]
        elif isinstance(one, list | tuple):
            left += [(f"{key}[{at}]", below) for at, below in enumerate(one)]
        elif isinstance(one, str):
            yield key, one


def _addresses(inventory: Inventory) -> Iterator[Finding]:
    """Find addresses of hosts that are none: Ansible, and all that is told of the host, would fail there."""
    for host, variables in inventory.hosts.items():
        for name in ("ansible_ssh_host", "ansible_host"):
            value = variables.get(name)
            if value is None or _is_address(str(value)):
                continue
            yield wrong_variable(
                name,
                host,
                f"is {value!r}, which is no address",
                "write a host's name or its IP address alone; a port belongs into ansible_port",
            )


def _is_address(text: str) -> bool:
    """Return whether a text is an IP address, or may be a host's name."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        # What ends with a number is read as an IP address.
        return bool(_HOST.fullmatch(text)) and not text.rstrip(".").rpartition(".")[2].isdecimal()
    return True


def check_numbers(inventory: Inventory) -> list[Finding]:
    """Return a finding for each variable with a number so large that no rule can compute with it."""
    found = []
    for host, variables in inventory.hosts.items():
        for name, value in variables.items():
            for key in dict.fromkeys(key for key, one in _leaves(name, value) if _too_large(one)):
                at = f" at {key}" if key != name else ""
                what = f"has a number larger than {LONG:,}{at}"
                found.append(wrong_variable(name, host, what, "write the number that is meant"))
    return together(found)


def _leaves(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield what a variable holds, each with the key below which it stands; without recursion."""
    left = [(name, value)]
    while left:
        key, one = left.pop()
        if isinstance(one, Mapping):
            left += [(name, str(each)[:_SHOWN]) for each in one] + [
                (str(each)[:_SHOWN], below) for each, below in one.items()
            ]
        elif isinstance(one, list | tuple):
            left += [(key, each) for each in one]
        else:
            yield key, one


def _too_large(value: Any) -> bool:
    if isinstance(value, str):
        return _DIGITS.search(value) is not None
    return isinstance(value, int) and abs(value) > LONG


def _advice(inventory: Inventory) -> Iterator[Finding]:
    advice = inventory.common("advice", "measured")
    if advice is not None and advice not in get_args(Advice):
        yield wrong_variable("advice", "all", f"is {advice!r}", "write measured, documented or stock")


def _empty(inventory: Inventory) -> Iterator[Finding]:
    for name in _SAME:
        if any(name in of and of[name] is None for of in inventory.hosts.values()):
            yield wrong_variable(name, "all", "is empty", "give it a value, or take it out")


def _differing(inventory: Inventory) -> Iterator[Finding]:
    for name in _SAME:
        values = [(host, v[name]) for host, v in inventory.hosts.items() if name in v]
        other = next((host for host, value in values if value != values[0][1]), None)
        if other is not None:
            yield wrong_variable(
                name, other, f"is not what it is on {values[0][0]}", "set it once, in group_vars/all"
            )


def _clusters(inventory: Inventory) -> Iterator[Finding]:
    found, wrong = clusters(inventory)
    yield from wrong
    for name, cluster in found.items():
        yield from _cluster(inventory, f"kafka_clusters.{name}", cluster)


def _cluster(inventory: Inventory, name: str, cluster: KafkaCluster) -> Iterator[Finding]:
    if not _OLDEST_KAFKA <= numbers(cluster.version) < NEWER_KAFKA:
        yield wrong_variable(
            f"{name}.version",
            "all",
            f"is {cluster.version}, which is no version of Apache Kafka that today's clients talk to",
            "write Kafka's own version, 2.1 or later (Confluent Platform 7.9 has Kafka 3.9, 8.0 has 4.0)",
        )
    if cluster.brokers is None and cluster.bootstrap_servers is None:
        yield wrong_variable(
            name, "all", "names no brokers", "add brokers, the group of its hosts, or bootstrap_servers"
        )
    if cluster.brokers is not None and cluster.bootstrap_servers is not None:
        yield wrong_variable(
            f"{name}.bootstrap_servers",
            "all",
            f"contradicts {name}.brokers: a cluster is Kedge's own or somebody else's",
            "keep one of the two",
        )
    if cluster.brokers is not None and not inventory.group(cluster.brokers):
        there = cluster.brokers in inventory.groups
        near = None if there else nearest(cluster.brokers, inventory.groups)
        lacks = "that group has no hosts" if there else "the inventory has no such group"
        yield wrong_variable(
            f"{name}.brokers",
            "all",
            f"is {cluster.brokers}, and {lacks}",
            f"did you mean {near}?"
            if near
            else f"put hosts into the group {cluster.brokers}, or give bootstrap_servers",
        )
    for server in (cluster.bootstrap_servers or "").split(",") if cluster.bootstrap_servers else ():
        if not _SERVER.fullmatch(server.strip()) or not 0 < int(server.rpartition(":")[2]) < 65536:
            yield wrong_variable(
                f"{name}.bootstrap_servers",
                "all",
                f"has {server.strip()!r}, which is no host:port",
                "write host1:9092,host2:9092",
            )
