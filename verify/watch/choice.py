"""Which topics and groups of others a watch looks at, of what a cluster has. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kedge.evidence.watch_options import WatchedCluster, WatchOptions

_INTERNAL: Final = re.compile(r"__.*")
#: Names of what is not watched that are kept; of more their number is.
MOST_NAMED: Final = 50


class Described(NamedTuple):
    """A group as it is: its protocol, the addresses of its members, the topics that it reads."""

    protocol: str
    addresses: frozenset[str]
    topics: frozenset[str]


class Left(NamedTuple):
    """A topic or group that is not watched, and why."""

    kind: str
    name: str
    why: str


@dataclass
class Choice:
    """What is watched of one cluster: partitions by topic; of each group its topics, protocol, services."""

    topics: dict[str, int] = field(default_factory=dict)
    groups: dict[str, tuple[list[str], str, list[str]]] = field(default_factory=dict)
    left: list[Left] = field(default_factory=list)


def choose(
    cluster: WatchedCluster,
    options: WatchOptions,
    members: Mapping[str, Iterable[str]],
    topics: Mapping[str, int],
    groups: Mapping[str, Described],
    refused: Mapping[str, str],
) -> Choice:
    """Return what is watched: what is named first, then what services serve, then what reads their topics.

    Args:
        cluster: of the inventory.
        options: what ``verify.watch`` names, and the bounds.
        members: the addresses of the hosts of each service.
        topics: the partitions of each topic that is there.
        groups: the groups that are there and could be described.
        refused: the groups that could not, and why.
    """
    made = Choice()
    served = _served(cluster, topics)
    by_address = {address: service for service, of in members.items() for address in of}
    named = (*options.groups, *cluster.groups)
    candidates: dict[str, list[str]] = {name: [] for name in named if name in groups}
    for name, group in sorted(groups.items()):
        if services := sorted({by_address[at] for at in group.addresses if at in by_address}):
            known = candidates.setdefault(name, [])
            known.extend(service for service in services if service not in known)
    for name, group in sorted(groups.items()):
        if group.topics & {*served, *options.topics}:
            candidates.setdefault(name, [])
    for name, services in candidates.items():
        if name in cluster.own_groups and name not in options.groups:
            continue
        if len(made.groups) >= options.most_groups:
            made.left.append(
                Left("group", name, f"more than {options.most_groups} (verify.watch.most_groups)")
            )
            continue
        made.groups[name] = (
            sorted(groups[name].topics & topics.keys()),
            groups[name].protocol,
            services,
        )
    made.left += [Left("group", name, why) for name, why in sorted(refused.items())]
    _topics(made, cluster, options, topics, served)
    for name, (of, protocol, services) in list(made.groups.items()):
        if watched := [topic for topic in of if topic in made.topics]:
            made.groups[name] = (watched, protocol, services)
        else:
            # Of a group without a watched topic nothing could be said but its state.
            del made.groups[name]
            why = "none of its topics is watched" if of else "it has no members and no commits"
            made.left.append(Left("group", name, why))
    return made


def _served(cluster: WatchedCluster, topics: Mapping[str, int]) -> list[str]:
    """Return the topics of the inventory's services: declared ones, and those that applications make."""
    made = [
        topic
        for topic in sorted(topics)
        if any(topic.startswith(f"{app}-") for app in cluster.applications)
        and topic.endswith(("-changelog", "-repartition"))
    ]
    return [topic for topic in dict.fromkeys([*cluster.topics, *made]) if topic not in cluster.own_topics]


def _topics(
    made: Choice, cluster: WatchedCluster, options: WatchOptions, topics: Mapping[str, int], served: list[str]
) -> None:
    """Note the watched topics, those of groups first, for as many partitions as are allowed."""
    read = [topic for of, _, _ in made.groups.values() for topic in of]
    partitions = 0
    for topic in dict.fromkeys([*options.topics, *read, *served]):
        hidden = topic in cluster.own_topics or _INTERNAL.fullmatch(topic)
        if hidden and topic not in options.topics:
            continue
        if topic not in topics:
            if topic in served:
                made.left.append(Left("topic", topic, "it is not there"))
            continue
        if partitions + topics[topic] > options.most_partitions:
            bound = f"more than {options.most_partitions} partitions (verify.watch.most_partitions)"
            made.left.append(Left("topic", topic, bound))
            continue
        partitions += topics[topic]
        made.topics[topic] = topics[topic]
