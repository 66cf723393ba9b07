"""From any plan to any other: the steps exist, each state between is served, and nothing runs twice or is left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kedge.deploy.breaking_changes import notices
from kedge.deploy.deploy_steps import Step, step_lines, steps
from kedge.deploy.deployed import reported
from kedge.deploy.rendering import render_instance
from kedge.plan.hosts import Inventory
from kedge.plan.running import Notice
from kedge.services.planning import make_plan
from kedge.services.rest.notices import KEPT_PORT
from plugins.modules.kafka_topics_present import compare
from tests.planned import CLUSTERS, METRICS, mirrors, streams
from tests.rest_inventories import rest

pytestmark = pytest.mark.slow

TLS = {"certificate": "/srv/{{ inventory_hostname }}.pem", "key": "/srv/a.key", "ca": "/srv/ca.pem"}
USERS = {"broker": "secret-9", "kedge": "secret-8", "proxy": "secret-7"}
LOGINS = {"protocol": "SASL_PLAINTEXT", "user": "kedge", "password": "secret-8", "users": USERS}
#: As whom services log in where their cluster asks for it; applications are configured by their own keys.
LOGIN = {"kafka_rest_user": "proxy", "kafka_rest_password": "secret-7"}
FLOW_LOGIN = {"source_user": "proxy", "source_password": "secret-7"}
MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
STREAMS_LOGIN = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.jaas.config": f'{MODULE} required username="proxy" password="secret-7";',
}
SERVICES = ("kafka_broker", "kafka_rest", "rest_balancer", "mirror_maker", "streams_app")


@dataclass(frozen=True)
class Case:
    """An inventory, by what is drawn of it."""

    proxies: tuple[str, ...] = ("rest1", "rest2")
    per_host: int = 2
    first_port: int = 8082
    distribution: str = "confluent"
    logins: bool = False
    topic: str = "kedge-ready"
    linger: int = 5
    balancers: tuple[str, ...] = ("lb1",)
    mirrors: tuple[str, ...] = ("mm1", "mm2")
    partitions: int = 20
    streams: tuple[str, ...] = ("st1",)
    tls: bool = False
    version: str = "8.3.1"
    balancer_port: int = 8080
    brokers: tuple[str, ...] = ("leaf1", "leaf2", "leaf3")
    broker_version: str = "4.3.1"
    broker_threads: int = 8
    one_controller: bool = False
    secured: bool = False
    topic_partitions: int = 12
    retention_ms: int = 86_400_000


def hosts(prefix: str, most: int, least: int = 0) -> st.SearchStrategy[tuple[str, ...]]:
    names = [f"{prefix}{n}" for n in range(1, most + 1)]
    return st.lists(st.sampled_from(names), min_size=least, unique=True).map(lambda s: tuple(sorted(s)))


CASES = st.builds(
    Case,
    proxies=hosts("rest", 3, 1),
    per_host=st.integers(1, 3),
    first_port=st.sampled_from([8082, 8083, 8090]),
    distribution=st.sampled_from(["confluent", "strimzi"]),
    logins=st.booleans(),
    topic=st.sampled_from(["kedge-ready", "other-ready"]),
    linger=st.sampled_from([5, 7]),
    balancers=hosts("lb", 2, 1),
    mirrors=hosts("mm", 3),
    partitions=st.sampled_from([4, 20]),
    streams=hosts("st", 2),
    tls=st.sampled_from([False, False, True]),
    version=st.sampled_from(["8.3.1", "7.9.9"]),
    balancer_port=st.sampled_from([8080, 9000]),
    # Brokers of somebody else's, one, or a quorum.
    brokers=st.sampled_from(
        [(), ("leaf1",), ("leaf1", "leaf2", "leaf3"), ("leaf1", "leaf2", "leaf3", "leaf4")]
    ),
    broker_version=st.sampled_from(["4.2.0", "4.3.1"]),
    broker_threads=st.sampled_from([8, 12]),
    # What a running cluster, its topics and its proxies' ports cannot become is drawn seldom.
    one_controller=st.sampled_from([True, True, True, False]),
    secured=st.sampled_from([False, False, False, True]),
    topic_partitions=st.sampled_from([12, 12, 12, 12, 12, 24]),
    retention_ms=st.sampled_from([86_400_000, 3_600_000]),
)


def asks_for_logins(case: Case) -> bool:
    """Return whether the brokers are Kedge's own, and ask their clients for a login."""
    return case.secured and bool(case.brokers)


def encrypted(case: Case) -> bool:
    """Return whether its proxies speak TLS, which a bridge does not."""
    return case.tls and case.distribution == "confluent"


def inventory(case: Case) -> Inventory:
    version = {"confluent": case.version, "strimzi": "0.33.1"}[case.distribution]
    key = {"confluent": "producer.linger.ms", "strimzi": "kafka.producer.linger.ms"}[case.distribution]
    users = {"anna": "secret-1"} if case.logins and case.distribution == "confluent" else None
    parts = [
        rest(
            list(case.proxies),
            groups={"rest_balancer": case.balancers},
            distribution=case.distribution,
            version=version,
            instances_per_host=case.per_host,
            first_port=case.first_port,
            ready_topic=case.topic,
            settings={key: case.linger},
            users=users,
            tls=TLS if encrypted(case) else None,
            common={"rest_balancer_port": case.balancer_port},
        )
    ]
    # One value for all: hosts that disagree on it are an error of the plan.
    common = {"advice": "measured"}
    if case.mirrors:
        flow = METRICS | {"largest_topic_partitions": case.partitions, "processes": min(4, case.partitions)}
        flow |= FLOW_LOGIN if asks_for_logins(case) else {}
        parts.append(mirrors(list(case.mirrors), flows={"metrics": flow}, common=common))
    if case.streams:
        login = STREAMS_LOGIN if asks_for_logins(case) else None
        parts.append(streams(list(case.streams), common=common, settings=login))
    every = {host: dict(variables) for part in parts for host, variables in part.hosts.items()}
    groups = {name: members for part in parts for name, members in part.groups.items()}
    if case.brokers:
        leaf: dict[str, Any] = {"version": case.broker_version, "brokers": "kafka_leaf"}
        leaf |= {"security": LOGINS} if asks_for_logins(case) else {}
        own = {"host_cores": 8, "host_memory_mib": 32_768, "advice": "measured"}
        own |= {"kafka_broker_settings": {"num.io.threads": case.broker_threads}}
        every |= {host: dict(own) for host in case.brokers}
        for host in case.brokers[1:] if case.one_controller else ():
            every[host]["kafka_broker_controller"] = False
        groups |= {"kafka_leaf": case.brokers, "kafka_broker": case.brokers}
        for variables in every.values():
            variables["kafka_clusters"] = CLUSTERS | {"leaf": leaf}
    for host in case.proxies if asks_for_logins(case) else ():
        every[host].update(LOGIN)
    topic = {"name": "orders", "cluster": "leaf", "partitions": case.topic_partitions, "keyed": False}
    topic |= {"settings": {"retention.ms": case.retention_ms}}
    declared = [topic, {"name": case.topic, "cluster": "leaf", "partitions": 1}]
    for variables in every.values():
        variables["kafka_topics"] = declared
    return Inventory(every, groups)


@dataclass(frozen=True)
class Release:
    """What an instance runs: its files, the port, and of a proxy or a balancer how they speak."""

    files: str
    port: int | None
    asks: str = ""
    logs_in: bool = False
    servers: frozenset[str] = frozenset()
    id: str = ""
    tls: bool = False
    #: What a broker runs, as plan.yml compares it.
    instance: Mapping[str, Any] = field(default_factory=dict, compare=False)


Running = dict[tuple[str, str, str], Release]


class Planned(NamedTuple):
    """What a plan has run, or the rules by which it has errors."""

    runs: Mapping[tuple[str, str, str], Release]
    refused: tuple[str, ...] = ()
    topics: Mapping[str, Mapping[str, str]] = {}


@lru_cache(maxsize=4096)
def planned(case: Case) -> Planned:
    """Plan a case."""
    plan = make_plan(inventory(case))
    if plan.has_errors:
        return Planned({}, tuple(sorted({f.rule for f in plan.findings if f.severity == "error"})))
    found = {}
    as_json = plan.to_json()
    for host, services in as_json["hosts"].items():
        for service, has in services["services"].items():
            for one in has["instances"] if service in SERVICES else ():
                found[host, service, one["name"]] = release(service, one, case)
    leaf = as_json["topics"].get("leaf", {})
    topics = {name: {s["key"]: s["value"] for s in one["settings"]} for name, one in leaf.items()}
    return Planned(found, topics=topics)


def release(service: str, one: Mapping[str, Any], case: Case) -> Release:
    keys = {s["key"]: s["value"] for s in one["settings"]}
    # What is rendered follows from these, reasons among them, and takes ten times as long.
    files = repr([(s["file"], s["key"], s["value"], s["because"]) for s in one["settings"]])
    asks = keys.get("health get", "") if service == "rest_balancer" else ""
    if service == "kafka_rest" and case.distribution == "strimzi":
        asks = "/ready"
    logs_in = "check login" in keys or (
        service == "kafka_rest" and case.logins and case.distribution == "confluent"
    )
    servers = frozenset(key.split()[1] for key in keys if key.startswith("server "))
    tls = "default-server options" in keys or (service == "kafka_rest" and encrypted(case))
    id_ = next((keys[key] for key in ("id", "bridge.id", "node.id") if key in keys), "")
    instance = one if service == "kafka_broker" else {}
    return Release(files, one["port"], asks, logs_in, servers, id_, tls, instance)


@dataclass
class World:
    """What runs while steps are taken."""

    runs: Running
    target: Mapping[tuple[str, str, str], Release]
    both: set[tuple[str, str, str]] = field(default_factory=set)
    drained: set[str] = field(default_factory=set)

    def up(self, balancer: tuple[str, str, str], but: str = "") -> set[str]:
        """Return the servers that a balancer would send a request to."""
        mine = self.runs[balancer]
        found = {f"{h}:{r.port}": r for (h, s, _), r in self.runs.items() if s == "kafka_rest"}
        return {
            name
            for name, proxy in found.items()
            if name in mine.servers - self.drained - {but}
            and (self.passes(mine, proxy) or (balancer in self.both and mine.tls == proxy.tls))
        }

    def passes(self, balancer: Release, proxy: Release) -> bool:
        if balancer.tls != proxy.tls:
            return False
        if balancer.asks:
            return balancer.asks == proxy.asks
        return balancer.logs_in or not proxy.logs_in

    def balancers(self) -> list[tuple[str, str, str]]:
        return [at for at in self.runs if at[1] == "rest_balancer"]

    def take(self, step: Step) -> None:
        at = (step.host, step.service, step.instance)
        if step.do == "start":
            assert at not in self.runs, step
            self.runs[at] = self.target[at]
            if step.service == "rest_balancer" and self.changing():
                self.both.add(at)
        elif step.do == "drain":
            name = f"{step.host}:{self.runs[at].port}"
            stay = {f"{h}:{r.port}" for (h, s, _), r in self.target.items() if s == "kafka_rest"}
            # As haproxy_drain: left in rotation where none of those that stay is up.
            if all((self.up(b) - {name}) & stay for b in self.balancers()):
                self.drained.add(name)
        elif step.do == "stop":
            del self.runs[at]
        else:
            name = f"{step.host}:{self.target[at].port}"
            if step.service == "kafka_rest":
                # Away for a while; the others serve, where there are others.
                for balancer in self.balancers():
                    known = self.runs[balancer].servers & {
                        f"{h}:{r.port}" for (h, s, _), r in self.runs.items() if s == "kafka_rest"
                    }
                    assert self.up(balancer) >= known - self.drained, (step, balancer)
                    assert len(known) < 2 or self.up(balancer, but=name), (step, balancer)
            self.runs[at] = self.target[at]
            (self.both.add if step.do == "serve both" else self.both.discard)(at)
        self.holds(step)

    def changing(self) -> bool:
        """Return whether a proxy that stays runs another release than its planned one."""
        return any(r != self.target.get(at, r) for at, r in self.runs.items() if at[1] == "kafka_rest")

    def holds(self, step: Step) -> None:
        """Assert what has to be true of every state."""
        for balancer in self.balancers():
            assert self.up(balancer), f"{balancer} serves nobody after {step}"
        names = [name for _, service, name in self.runs if service == "mirror_maker"]
        assert len(names) == len(set(names)), f"a mirror runs twice after {step}"
        ids = [one.id for (_, service, _), one in self.runs.items() if service == "kafka_broker"]
        assert len(ids) == len(set(ids)), f"two brokers have one id after {step}"


def states(runs: Running, target: Mapping[tuple[str, str, str], Release]) -> dict[str, Any]:
    """Return what plan.yml would find on the hosts."""
    found: dict[str, Any] = {}
    for host, service, name in {*runs, *target}:
        about = found.setdefault(host, {}).setdefault(service, {"instances": {}, "stale": []})
        if (host, service, name) not in target:
            about["stale"].append(name)
        elif (host, service, name) not in runs:
            about["instances"][name] = {"state": "new"}
        else:
            same = runs[host, service, name] == target[host, service, name]
            about["instances"][name] = {"state": "same" if same else "differs"}
    return found


def record(runs: Mapping[tuple[str, str, str], Any]) -> dict[str, dict[str, Any]]:
    """Return what hosts keep of a deploy."""
    found: dict[str, Any] = {}
    for host, service, _ in runs:
        services = found.setdefault(host, {"address": host, "services": []})["services"]
        services += [service] if service not in services else []
    return found


#: What was asked for by name, or was found by search: each of them is planned, and all of it is taken.
EXAMPLES: tuple[tuple[Case, Case], ...] = (
    (Case(), Case(distribution="strimzi")),
    (Case(logins=True), Case()),
    (Case(logins=True), Case(distribution="strimzi", first_port=8083, per_host=3)),
    (Case(mirrors=("mm1",)), Case(mirrors=("mm1", "mm2", "mm3"))),
    # A balancer that is new while proxies change serves both, and has to follow them.
    (Case(("rest1",)), Case(("rest1",), logins=True, balancers=("lb1", "lb2"))),
    # All ports move: no proxy of the former plan stays.
    (Case(per_host=1), Case(per_host=1, first_port=8090)),
    (Case(("rest1",)), Case(("rest2",))),
    (Case(), Case(tls=True, first_port=8090)),
    (Case(version="7.9.9"), Case(balancer_port=9000)),
    # A cluster that Kedge takes over, and one that changes together with its proxies.
    (Case(brokers=()), Case()),
    (Case(broker_version="4.2.0"), Case(distribution="strimzi", broker_threads=12)),
)


def search(pairs: int, record_property: Callable[[str, object], None]) -> None:
    """Take transitions that are drawn, and say how many were tried, refused and skipped."""
    rules: Counter[str] = Counter()
    tried: Counter[str] = Counter()

    @settings(max_examples=pairs, deadline=None)
    @given(CASES, CASES)
    def take(before: Case, after: Case) -> None:
        tried["all"] += 1
        if before == after:
            tried["skipped"] += 1
        else:
            rules.update(transition(before, after))

    for before, after in EXAMPLES:
        take = example(before, after)(take)
    take()
    by_rule = ", ".join(f"{rule} {times}" for rule, times in rules.most_common())
    record_property(
        "counted",
        f"transitions of plans: {tried['all']} tried, {rules.total()} refused ({by_rule or 'by no rule'}), "
        f"{tried['skipped']} skipped, since nothing changes",
    )
    # Else the search would say little; what is drawn differs from run to run.
    assert rules.total() + tried["skipped"] <= tried["all"] * 2 / 3


@pytest.mark.parametrize("case", dict.fromkeys(case for pair in EXAMPLES for case in pair), ids=repr)
def test_every_example_has_a_plan(case: Case) -> None:
    assert planned(case).refused == ()


def test_a_deploy_serves_in_every_state_between_two_plans(
    record_property: Callable[[str, object], None],
) -> None:
    search(60, record_property)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_thousands_of_deploys_serve_in_every_state(record_property: Callable[[str, object], None]) -> None:
    search(1500, record_property)


def refused(old: Planned, new: Planned) -> tuple[str, ...]:
    """Return by which rule a deploy from one to the other is refused, if it is."""
    kept = [at for at in old.runs.keys() & new.runs.keys() if at[1] == "kafka_rest"]
    if any(old.runs[at].tls != new.runs[at].tls for at in kept):
        return (KEPT_PORT,)
    if old.refused or new.refused:
        return (old.refused or new.refused)[:1]
    brokers = [at for at in old.runs.keys() & new.runs.keys() if at[1] == "kafka_broker"]
    noticed = [notice.name for at in brokers for notice in of_broker(old.runs[at], new.runs[at])]
    return tuple(noticed[:1]) or tuple(["topics"] if topics_refused(old, new) else [])


def of_broker(old: Release, new: Release) -> list[Notice]:
    texts = [render_instance("kafka-broker", dict(one.instance))["server.properties"] for one in (old, new)]
    where = "/etc/kafka-broker/leaf/server.properties"
    diff = {"before": texts[0], "after": texts[1], "before_header": where}
    answer = {"instances": [{"current": "1", "in_force": []}], "diff": [diff]}
    return notices(answer, "kafka-broker", [new.instance])


def topics_refused(old: Planned, new: Planned) -> list[str]:
    """Return what the cluster's topics cannot become; a change that they can is made once."""
    counts = {name: int(values["partitions"]) for name, values in old.topics.items()}
    _, wrong = compare(as_dicts(new), counts, as_dicts(old))
    after = {name: {**values, **new.topics.get(name, {})} for name, values in as_dicts(old).items()}
    counts = {name: int(values["partitions"]) for name, values in (after | as_dicts(new)).items()}
    assert wrong or compare(as_dicts(new), counts, after | as_dicts(new)) == ({}, [])
    return wrong


def as_dicts(planned: Planned) -> dict[str, dict[str, str]]:
    return {name: dict(values) for name, values in planned.topics.items()}


def transition(before: Case, after: Case) -> tuple[str, ...]:
    """Take the steps from one plan to another, and assert what has to be true of each state.

    Return by which rule it is refused, if it is.
    """
    old, new = planned(before), planned(after)
    if rules := refused(old, new):
        return rules
    if not set(before.proxies) & set(after.proxies):
        # Hosts that give way to others: those come first, since the last of them is not removed.
        both = replace(after, proxies=tuple(sorted({*before.proxies, *after.proxies})))
        return transition(before, both) or transition(both, after)
    runs = dict(old.runs)
    # Hosts that left are found first, each of them, and nothing is deployed until they are removed.
    found = (one for host in record(new.runs) for one in reported(host, record(old.runs), record(new.runs)))
    left = {(one["host"], s) for one in found for s in one["services"]}
    gone = {at for at in runs if (at[0], at[1]) not in {(h, s) for h, s, _ in new.runs}}
    assert {(host, service) for host, service, _ in gone} == left
    world = World(runs, new.runs)
    for at in gone:  # remove_host.yml, a host at a time
        if at[1] == "kafka_rest":
            world.drained.add(f"{at[0]}:{runs[at].port}")
        del world.runs[at]
        if at[1] == "kafka_rest":
            assert all(world.up(balancer) for balancer in world.balancers())
    done = steps(states(world.runs, new.runs))
    for step in done:
        world.take(step)
    of_brokers = [step.service == "kafka_broker" for step in done]
    assert of_brokers == sorted(of_brokers, reverse=True), "clients change before what they connect to"
    assert world.runs == dict(new.runs)
    assert not world.both
    assert steps(states(world.runs, new.runs)) == [], "a second deploy does nothing"
    assert len([line for line in step_lines(done) if line[0] != " "]) <= len(done)
    return ()


@settings(max_examples=40, deadline=None)
@given(CASES, CASES, st.integers(0, 40))
@example(Case(), Case(distribution="strimzi"), 3)
@example(Case(logins=True), Case(), 4)
def test_a_deploy_that_was_killed_goes_on_or_back(before: Case, after: Case, taken: int) -> None:
    stay = {name: getattr(before, name) for name in ("proxies", "mirrors", "streams", "brokers")}
    after = replace(after, **stay, balancers=before.balancers)
    old, new = planned(before), planned(after)
    if refused(old, new):
        return
    world = World(dict(old.runs), new.runs)
    for step in steps(states(world.runs, new.runs))[:taken]:
        world.take(step)
    for target in (old.runs, new.runs):
        way = World(dict(world.runs), target, set(world.both))
        for step in steps(between(way)):
            way.take(step)
        assert way.runs == dict(target)
        assert not way.both


def between(world: World) -> dict[str, Any]:
    """Return what hosts answer of a world in which a balancer may run its configuration of a change."""
    found = states(world.runs, world.target)
    for host, service, name in world.both & world.target.keys():
        found[host][service]["instances"][name]["state"] = "differs"
    return found


@settings(max_examples=30, deadline=None)
@given(CASES, hosts("rest", 3, 1), hosts("mm", 3), hosts("leaf", 4, 1))
def test_a_host_in_or_out_changes_no_identity_of_another(
    case: Case, proxies: tuple[str, ...], flows: tuple[str, ...], brokers: tuple[str, ...]
) -> None:
    changed = replace(case, proxies=proxies, mirrors=flows, brokers=brokers)
    old, new = planned(case).runs, planned(changed).runs
    for at in {*old} & {*new}:
        if at[1] in ("kafka_rest", "kafka_broker"):
            assert (old[at].id, old[at].port) == (new[at].id, new[at].port)
