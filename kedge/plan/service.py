"""What a service is: one record, from which all that Kedge does for every service follows.

A service lives in a folder of its own, whose ``service.py`` holds the record; ``kedge/services/registry.py``
lists them all. Java, ports, rollouts, groups, checks of variables and archives are read from there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from pydantic import BaseModel

from kedge.evidence.levels import Levels
from kedge.plan.findings import Finding
from kedge.plan.hosts import Inventory
from kedge.plan.plan import Part, PlannedInstance
from kedge.plan.restart_waits import Wait
from kedge.plan.running import Running
from kedge.plan.settings import Advice, Basis, Choice, Setting, Sheet

#: What a deploy does to an instance.
Do = Literal["start", "drain", "stop", "adopt", "restart", "reload", "serve both", "serve planned"]
#: The instances of a plan: host -> service -> instances.
PlannedInstances = Mapping[str, Mapping[str, tuple[PlannedInstance, ...]]]
#: Those of one service: host -> instances.
OfHosts = Mapping[str, tuple[PlannedInstance, ...]]
#: How much more than its planned share an instance carries while others restart; an estimate.
ROOM_PERCENT: Final = 25


@dataclass(frozen=True, slots=True)
class Given:
    """What a service is planned from.

    Attributes:
        topics: the planned topics.
        parts: service -> its part of the plan, of those that were planned before.
        clusters: those that something uses.
        services: all records, the service's own among them.
    """

    inventory: Inventory
    advice: Advice
    topics: Part
    parts: Mapping[str, Part]
    clusters: frozenset[str]
    services: Sequence[Service]


class JavaNeed(NamedTuple):
    """The least release of Java that something starts on, what that is, and where it is known from."""

    release: int
    what: str
    source: str


@dataclass(frozen=True, slots=True)
class Ports:
    """On which ports a service listens.

    Attributes:
        variable: the one that moves them.
        root: whether it begins as root, and so may take a port below 1024.
        others: those of an instance beside ``Instance.port``.
    """

    variable: str
    root: bool = False
    others: Callable[[PlannedInstance], Iterable[int]] = lambda _: ()


class FastLink(NamedTuple):
    """A long fast link of a host: the bytes that it keeps on their way, and why so many."""

    host: str
    bytes: int
    because: str


class Kernel(NamedTuple):
    """A kernel setting that every host of a service needs; with ``limit``, one of its logins' limits."""

    key: str
    rule: str
    choice: Choice
    limit: bool = False


class Away(NamedTuple):
    """How many instances may be away at once, why no more, and where that is known.

    ``always`` says that it follows from what the service is, whatever is planned.
    """

    most: int
    because: str
    source: str
    basis: Basis
    always: bool = False


def room_of(instances: int, percent: int) -> Away:
    """Return how many instances may be away while each of the others carries so many percent more."""
    needed = math.ceil(100 * instances / (100 + percent))
    why = f"{needed} of {instances} instances then get at most {percent} percent more than planned each"
    if percent != ROOM_PERCENT:
        return Away(instances - needed, f"{why}, as the inventory has it", "the inventory", "yours")
    return Away(
        instances - needed,
        f"{why}: an estimate, because heaps hold twice the live data, and rates are planned for a JVM that "
        "has just started",
        "REST proxy measurements, Producing",
        "estimate",
    )


def _with_room(_: Inventory, of_hosts: OfHosts, percent: int) -> Away:
    return room_of(sum(map(len, of_hosts.values())), percent)


class Archive(NamedTuple):
    """An archive or jar of a host: the variables that name it and its checksum, and what they say."""

    variable: str
    checksum: str
    path: object
    wanted: object


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadTest:
    """What a load through a service is held to, and what a measurement of it is of.

    Attributes:
        ways: the parts of a load that may go through it, the first one that there is.
        level: a service level that bounds how long a record may take; ``bounded`` tells whether any does.
        figure: the figure that is drawn of a load test; ``axis`` says what it is.
        one: what a measurement is of alone, such as one flow; nothing where it is of all instances.
        through: names of those in load.json; ``takes`` says whether an instance of a host takes part.
        measured: what a measurement is of, in the words of the variable SERVICE_measured_capacity: from
            load.json, the name of the one, the service's rows of run.json's ``subject``, and the instances
            that took the load by host. Raises LookupError with why it says nothing that the plan could use.
    """

    ways: tuple[Literal["kafka", "rest"], ...] = ("kafka", "rest")
    level: str
    bounded: Callable[[Levels], bool]
    figure: str
    axis: str
    one: str = ""
    through: Callable[[Mapping[str, Any]], set[str]] = lambda _: set()
    takes: Callable[[Mapping[str, Any], str, str], bool] = lambda *_: True
    measured: Callable[
        [Mapping[str, Any], str, Sequence[Mapping[str, Any]], Mapping[str, Sequence[str]]], dict[str, Any]
    ]

    @property
    def reads_topics(self) -> bool:
        """Whether a load waits for it in topics: what it takes may come from a producer of Kafka as well."""
        return "kafka" in self.ways


def instances_of_each(hosts: Mapping[str, Sequence[str]]) -> int:
    """Return how many instances each host runs; raises LookupError where they differ."""
    numbers = set(map(len, hosts.values()))
    if len(numbers) != 1:
        message = "the hosts run different numbers of instances"
        raise LookupError(message)
    return numbers.pop()


def _none(_: Any) -> tuple[()]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """One service.

    Attributes:
        name: of the service, of the group of hosts that make it, of its role; its variables begin with it.
        variables: the model of its variables; None where it has none.
        of_role: full names of variables that only its role reads.
        everywhere: it belongs to every host, and has no group of its own.
        plan: returns its part of the plan; None where only the machine is prepared for it.
        after: the service whose part its own is made from; it is planned right after that one.
        clusters: names of the clusters that it uses.
        check: what is wrong with its hosts beyond its variables.
        java: the release that the instances of a host need, from the inventory, that host's variables and
            the instances; None where they bring their own Java. Without it the service runs in no JVM.
        ports: None where it listens on none that the inventory says.
        memory: the variable that says how much memory it takes; None where that follows from the workload.
        many_connections: its hosts take or make many.
        links: the long fast links that it uses.
        kernel: what its hosts need of the kernel.
        kernel_of: the same of single hosts, where it follows from what they carry.
        waits: what a deploy or a restart of an instance waits for.
        away: how many of its instances a rollout may take at once, from what the others then carry, which may
            be so many percent more than planned.
        drain: more of that, from the plan.
        archives: what it is installed from, by the variables of a host.
        restarted: its role restarts an instance, so verify.yml may do it under load.
        changes_with: services and tags of deploy.yml by which it may be changed: a run of one holds it too.
        alone: of an instance that moves, no second one may run: it stops before it starts elsewhere.
        last: other services need it, so that of a host it leaves last, and a deploy begins with it and
            stops none for good.
        kinds: the kinds of files and processes that a review plans as instances or hosts of it.
        mains: the main classes of its processes, whoever starts them.
        adopts: the processes of a host that it takes over from, from the plan's document.
        taking_over: how it does that, where not behind the gates of a restart.
        noticed: what clients notice of a step, whatever changes.
        missed: what clients miss while a host with an instance is away, from the plan's document; nothing
            where others stand in.
        notices: what clients notice once an instance that runs has what is planned: by which name it is
            allowed or refused, and in words.
        allowed: what of that may be allowed by name -> what clients have to do first.
        instead: what no order of steps brings to instances that run -> what to do in its place.
        tuning: how the names of its rules begin that only tune it, which ``advice: stock`` leaves out.
        load: what load.json says of it, from the plan's document and what load.json has so far; raises
            ValueError with what keeps a load from it.
        load_test: what a load test of it is; None where there is none.
        version: its version on a host, where SERVICE_version does not say it.
        package: the package of its host, as a report names it; machines have its version under the name in
            lower case.
        idle: why a restart of it says nothing about a load on these topics of a cluster, and how to mend
            that; None where it does.
    """

    name: str
    variables: type[BaseModel] | None = None
    of_role: tuple[str, ...] = ()
    everywhere: bool = False
    plan: Callable[[Given], Part] | None = None
    after: str | None = None
    clusters: Callable[[Inventory], Iterable[str]] = _none
    check: Callable[[Inventory], Iterable[Finding]] = _none
    java: Callable[[Inventory, Mapping[str, Any], tuple[PlannedInstance, ...]], JavaNeed | None] | None = None
    ports: Ports | None = None
    memory: str | None = None
    many_connections: bool = False
    links: Callable[[Inventory], Iterable[FastLink]] = _none
    kernel: tuple[Kernel, ...] = ()
    kernel_of: Callable[[Inventory], Mapping[str, tuple[Kernel, ...]]] = lambda _: {}
    waits: tuple[Wait, ...] = ()
    away: Callable[[Inventory, OfHosts, int], Away] = _with_room
    drain: Callable[[PlannedInstances], tuple[Setting, ...]] | None = None
    archives: Callable[[Mapping[str, Any]], Iterable[Archive]] = _none
    restarted: bool = True
    changes_with: tuple[str, ...] = ()
    alone: bool = False
    last: bool = False
    kinds: tuple[str, ...] = ()
    mains: frozenset[str] = frozenset()
    adopts: Callable[[Mapping[str, Any], str], Sequence[Mapping[str, Any]]] = lambda *_: ()
    taking_over: str = ""
    noticed: Mapping[Do, str] = field(default_factory=dict)
    missed: Callable[[Mapping[str, Any], str], str] = lambda *_: ""
    notices: Callable[[Running], Iterable[tuple[str, str]]] = _none
    allowed: Mapping[str, str] = field(default_factory=dict)
    instead: Mapping[str, str] = field(default_factory=dict)
    tuning: tuple[str, ...] = ()
    load: Callable[[Mapping[str, Any], Mapping[str, Any]], Mapping[str, Any]] = lambda *_: {}
    load_test: LoadTest | None = None
    version: Callable[[Inventory, str], str | None] = lambda *_: None
    package: str = ""
    idle: Callable[[Inventory, str, Sequence[str]], tuple[str, str] | None] = lambda *_: None

    @property
    def unit(self) -> str:
        """Return the name of its systemd units, its user and its folders."""
        return self.name.replace("_", "-")

    def hosts(self, inventory: Inventory) -> Iterable[str]:
        """Return the hosts that make the service."""
        return inventory.hosts if self.everywhere else inventory.group(self.name)

    def fields(self) -> Iterator[str]:
        """Yield the full names of the variables of its model."""
        for name in self.variables.model_fields if self.variables else ():
            yield f"{self.name}_{name}"


def models(services: Iterable[Service]) -> dict[str, type[BaseModel]]:
    """Return the model of each service that has variables."""
    return {service.name: service.variables for service in services if service.variables}


def group_names(services: Iterable[Service]) -> tuple[str, ...]:
    """Return the groups whose hosts Kedge deploys to, or prepares."""
    return tuple(service.name for service in services if not service.everywhere)


def own_clusters(service: str) -> Callable[[Inventory], frozenset[str]]:
    """Return the function that finds the cluster which each host of a service names, ``SERVICE_cluster``."""

    def named(inventory: Inventory) -> frozenset[str]:
        return frozenset(str(inventory.hosts[h].get(f"{service}_cluster")) for h in inventory.group(service))

    return named


def put_stop(
    sheet: Sheet, dropin: str, service: str, seconds: int, because: str, source: str, basis: Basis
) -> None:
    """Plan how long systemd lets an instance stop before it kills it."""
    why = f"{service}_stop_seconds is {seconds}: {because}"
    sheet.put(dropin, "TimeoutStopSec", "rollout.stop", Choice(seconds, why, source, basis))
