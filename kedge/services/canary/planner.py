"""Rules for canaries: their topics, what they cost, and what their windows can be judged by."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

from kedge.evidence.levels import Levels
from kedge.evidence.load_options import TO_INSTANCE_PER_S
from kedge.evidence.secrets import merged
from kedge.plan.hosts import Inventory
from kedge.plan.inventory.clusters import KafkaCluster, broker_count, cluster_names, clusters
from kedge.plan.inventory.logins import login_of
from kedge.plan.inventory.security import Login, put_file
from kedge.plan.inventory.service_levels import check_model, service_levels
from kedge.plan.plan import Part, PlannedInstance
from kedge.plan.service import put_stop
from kedge.plan.settings import Choice, Setting, Sheet
from kedge.plan.values import int_or_zero
from kedge.plan.variable_messages import declare
from kedge.services.canary.loads import (
    BALANCER,
    SERVICE,
    by_rest,
    canaries,
    direct,
    folder,
    instances_ca_path,
    instances_ca_source,
    judged,
    loads_of,
    secrets,
    why_not_direct,
)
from kedge.services.canary.variables import Canary
from kedge.services.mirror.topics_and_groups import flow_facts
from kedge.services.rest.distribution import SERVICE as REST
from kedge.services.topics.partition_count import plan_replication
from kedge.services.topics.variables import DeclaredTopic, topics

#: Records beyond a percentile, below which one late record decides the verdict: an estimate.
_BEYOND: Final = 10
_RANKS: Final = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p999": 0.999}
#: What a canary may cost of the workload.
_SHARE: Final = 0.01
#: An audit may be so late before the records of its window are gone.
_RETENTION_MS: Final = 6 * 3600 * 1000
#: Threads of two windows, and how many more an instance takes that is tested directly, and hangs: three open
#: requests in each window (verify/load/rest_producers.py).
_TASKS: Final = 512
_TASKS_OF_INSTANCE: Final = 6
_OURS: Final = "the inventory"

Topics = dict[str, dict[str, tuple[Setting, ...]]]


def plan_canaries(inventory: Inventory, rest: Part) -> Part:
    """Plan the canaries of the group ``canary``, one instance a host, and their topics.

    ``rest`` has the REST instances that are planned.
    """
    found, findings = canaries(inventory)
    known, names = clusters(inventory)[0], cluster_names(inventory)
    services: dict[str, dict[str, tuple[PlannedInstance, ...]]] = {}
    planned_topics: Topics = {}
    hosts: dict[str, str] = {}
    for host, canary in found.items():
        sheet = Sheet(f"{host} {SERVICE}@{canary.cluster}", "measured", {}, reader=inventory.reader)
        if canary.cluster not in known:
            if canary.cluster not in names:
                what = f"canary_cluster is {canary.cluster}, which is not declared"
                sheet.error("canary.cluster", what, declare(names), variable="canary_cluster")
            findings += sheet.findings
            continue
        if (other := hosts.setdefault(canary.cluster, host)) != host:
            what = f"{other} is a canary of {canary.cluster} as well; alerts tell canaries by their cluster"
            sheet.error("canary.cluster", what, "leave one of them", variable="canary_cluster")
        cluster, loads = known[canary.cluster], loads_of(inventory, host, canary)
        by = {"rest": by_rest(inventory, canary), "mirrored": _mirrors(sheet, inventory, canary, loads)}
        levels = judged(service_levels(inventory), **by)
        findings += (wrong := check_model(Levels, "canary_steady_levels", canary.steady_levels))
        steady = judged(canary.steady_levels, **by) if canary.steady_levels and not wrong else {}
        to_each = direct(inventory, canary, rest)
        instances = len(to_each.get("rest_instances", ()))
        _settings(sheet, canary, instances)
        _login(sheet, cluster, canary, by["rest"], instances_ca_source(inventory) if to_each else None)
        _own_login(sheet, inventory, canary)
        _rest(sheet, inventory, canary, by["rest"])
        _judgeable(sheet, canary, merged(levels, steady))
        _share(sheet, inventory, canary, instances)
        for to, of_cluster in _topics(sheet, inventory, canary, loads).items():
            planned_topics.setdefault(to, {}).update(of_cluster)
        findings += sheet.findings
        # Half of it is Java's heap, an estimate: Python and what Java has beside its heap take the rest.
        audit = {"memory": f"{canary.audit_memory_mib}M", "heap": f"{canary.audit_memory_mib // 2}m"}
        software = {
            "loads": [load | to_each for load in loads],
            "levels": levels,
            "steady": steady,
            "audit": audit,
        }
        instance = PlannedInstance(canary.cluster, sheet.by_file(), canary.port, software)
        services[host] = {SERVICE: (instance,)}
    return Part(services=services, topics=planned_topics, findings=tuple(findings))


def _settings(sheet: Sheet, canary: Canary, instances: int) -> None:
    file = f"{folder(canary)}/canary.yaml"
    unit = f"/etc/systemd/system/{SERVICE}@{canary.cluster}.service.d/10-kedge.conf"

    def put(key: str, rule: str, value: str | int, because: str, where: str = file) -> None:
        sheet.put(where, key, f"canary.{rule}", Choice(value, because, _OURS, "estimate"))

    put("name", "window", canary.cluster, "a canary is of one cluster, whose name it has")
    put("window_s", "window", canary.window_s, "each window gets a verdict of its own")
    put("keep_windows", "keep", canary.keep_windows, "verdicts and figures of so many windows")
    put("keep_mib", "keep", canary.keep_mib, "evidence of windows that did not pass, the newest")
    put("scrape_address", "scrape", canary.scrape_address, "where Prometheus asks for the metrics")
    put("scrape_port", "scrape", canary.port, "where Prometheus asks for the metrics")
    two = "processes of two windows, which overlap; an estimate"
    put("MemoryMax", "memory", f"{canary.memory_mib}M", two, unit)
    put("TasksMax", "memory", _TASKS + _TASKS_OF_INSTANCE * instances, f"threads of clients in {two}", unit)
    why = "what was sent is read, so that the last window is whole"
    put_stop(sheet, unit, SERVICE, canary.stop_seconds, why, _OURS, "estimate")


def _login(sheet: Sheet, cluster: KafkaCluster, canary: Canary, rest: bool, of_instances: str | None) -> None:
    security = cluster.security
    login_of(sheet, SERVICE, security, Login(canary.user, canary.password))
    home = folder(canary)
    if security is not None and (security.tickets or security.tokens or security.client_tls):
        sheet.error(
            "canary.login",
            f"cluster {canary.cluster} asks for a certificate, a token or a ticket, which a canary has not",
            "let the canary log in by a password (SCRAM or PLAIN), or take its host out of the group canary",
            variable="canary_cluster",
        )
    elif security is not None and security.tls:
        put_file(sheet, f"{home}/ca.pem", "client.security", {"certificate": str(security.ca)})
    if rest and canary.rest_ca:
        put_file(sheet, f"{home}/rest-ca.pem", "client.security", {"certificate": canary.rest_ca})
    if of_instances:
        put_file(sheet, instances_ca_path(canary), "client.security", {"certificate": of_instances})
    values = json.dumps(secrets(security, canary), sort_keys=True)
    file, secret, why = f"{home}/environment", values != "{}", "the login of the load"
    sheet.settings.append(
        Setting(file, "KEDGE_SECRETS", values, "canary.login", why, _OURS, "yours", secret=secret)
    )


def _own_login(sheet: Sheet, inventory: Inventory, canary: Canary) -> None:
    """Find a login that a service has as well: the canary's few rights would take the place of its own."""
    others = {
        name
        for variables in inventory.hosts.values()
        for name, value in variables.items()
        if name.endswith("_user") and value == canary.user and not name.startswith(("ansible_", "canary_"))
    }
    if canary.user and others:
        sheet.error(
            "canary.login",
            f"canary_user is {canary.user}, which {sorted(others)[0]} is as well: that login "
            "would have the rights of a canary alone",
            "give the canary a user of its own",
            variable="canary_user",
        )


def _rest(sheet: Sheet, inventory: Inventory, canary: Canary, rest: bool) -> None:
    """Find proxies that the canary cannot send through."""
    proxies = [inventory.hosts[name] for name in inventory.group(REST)]
    if not rest:
        return
    if not inventory.group(BALANCER) or not any(
        one.get(f"{REST}_cluster") == canary.cluster for one in proxies
    ):
        sheet.error(
            "canary.rest",
            f"canary_rest is true, and no balancer has REST proxies of {canary.cluster} behind it",
            "leave canary_rest out, or set it to false",
            variable="canary_rest",
        )
    elif any(one.get(f"{REST}_users") for one in proxies) and not canary.rest_user:
        sheet.error(
            "canary.rest",
            "the REST proxies ask for a login, and the canary has none",
            "set canary_rest_user and canary_rest_password to a login of kafka_rest_users",
            variable="canary_rest_user",
        )
    if canary.rest_instances and (why := why_not_direct(inventory, canary)):
        sheet.note("canary.rest", f"the canary does not send to each REST instance directly: {why}", "")


def _judgeable(sheet: Sheet, canary: Canary, levels: Mapping[str, Any]) -> None:
    """Find levels of which one window has too few records."""
    records = canary.records_per_s * canary.window_s
    for name in sorted(_percentiles(levels)):
        rank = _RANKS[name.split("_")[-2]]
        needed = math.ceil(round(_BEYOND / (1 - rank), 6))
        if records < needed:
            sheet.error(
                "canary.judged",
                f"a window of {canary.window_s} s has {records:g} records at {canary.records_per_s:g} "
                f"records/s, and service_levels.{name} needs {needed}, so that {_BEYOND} are beyond it",
                f"set canary_window_s to {math.ceil(needed / canary.records_per_s)}, or "
                f"canary_records_per_s to {math.ceil(needed / canary.window_s)}",
                variable="canary_window_s",
            )


def _percentiles(levels: Mapping[str, Any]) -> Iterator[str]:
    parts = {f"latency.{via}": part for via, part in (levels.get("latency") or {}).items()}
    parts["mirror"] = levels.get("mirror")
    for name, part in parts.items():
        for key, value in (part or {}).items():
            if value is not None and key.endswith("_ms") and key.split("_")[-2] in _RANKS:
                yield f"{name}.{key}"


def _share(sheet: Sheet, inventory: Inventory, canary: Canary, instances: int) -> None:
    """Find a canary that is no small part of the workload."""
    mb_per_s = canary.records_per_s * canary.record_bytes / 1e6
    planned = sum(
        topic.target_mb_per_s or 0 for topic in topics(inventory)[0] if topic.cluster == canary.cluster
    )
    workloads = [inventory.hosts[host].get(f"{REST}_workload") for host in inventory.group(REST)]
    rest = sum(int_or_zero(w.get("records_per_s")) for w in workloads if isinstance(w, Mapping))
    rest = rest if by_rest(inventory, canary) else 0
    direct_per_s = TO_INSTANCE_PER_S * instances
    for what, mine, all_of, beside in (
        (f"{planned:g} MB/s of kafka_topics", mb_per_s, planned, 0.0),
        (f"{rest} records/s of kafka_rest_workload", canary.records_per_s + direct_per_s, rest, direct_per_s),
    ):
        if all_of and (share := mine / all_of) > _SHARE:
            rate = canary.records_per_s + beside
            most = rate * _SHARE / share - beside
            sheet.warning(
                "canary.share",
                f"its {rate:g} records/s of {canary.record_bytes} bytes are "
                f"{100 * share:.1f} percent of the {what}",
                f"set canary_records_per_s to {most:.3g} or less"
                if most > 0
                else f"set canary_rest_instances to false: {instances} instances get {beside:g} records/s",
                variable="canary_records_per_s",
            )


def _mirrors(sheet: Sheet, inventory: Inventory, canary: Canary, loads: list[dict[str, Any]]) -> bool:
    """Return whether a canary sees a flow of its cluster; say which ones it does not see."""
    seen = False
    topic, known = loads[0]["kafka"]["topic"], clusters(inventory)[0]
    for name, flow in flow_facts(inventory).items():
        if flow.source != canary.cluster:
            continue
        target = known.get(flow.target)
        if flow.copy_of(topic) is None:
            sheet.note(
                "canary.mirror",
                f"flow {name} does not copy {topic}, so the canary says nothing about it",
                f"add kedge-canary-.* to mirror_maker_flows.{name}.topics",
                variable=f"mirror_maker_flows.{name}.topics",
            )
        elif target is not None and target.security is not None:
            sheet.note(
                "canary.mirror",
                f"flow {name} copies to {flow.target}, where the canary has no login: it says nothing about "
                "the flow",
                "",
            )
        else:
            seen = seen or target is not None
    return seen


def _topics(sheet: Sheet, inventory: Inventory, canary: Canary, loads: list[dict[str, Any]]) -> Topics:
    """Plan a canary's topics, and their copies by classic MirrorMaker, which creates none."""
    known = clusters(inventory)[0]
    count = canary.partitions or broker_count(inventory, known[canary.cluster]) or 3
    why = "canary_partitions" if canary.partitions else "one a broker, so that each of them is asked"
    copied = f"as on {canary.cluster}, whose records are copied"
    classic = [flow for flow in flow_facts(inventory).values() if flow.group]
    planned: Topics = {}
    for topic in [part["topic"] for load in loads for part in (load["kafka"], load.get("rest")) if part]:
        places = [canary.cluster]
        for place in places:  # it grows: a copy, which keeps its name, may be copied on
            of_it = [flow.target for flow in classic if flow.source == place and flow.copy_of(topic)]
            places += [target for target in of_it if target not in places]
        for place in places:
            if place in known:
                partitions = Choice(count, why if place == canary.cluster else copied, _OURS, "derived")
                settings = _topic(sheet, inventory, (place, known[place]), topic, partitions)
                planned.setdefault(place, {})[topic] = settings
    return planned


def _topic(
    sheet: Sheet, inventory: Inventory, at: tuple[str, KafkaCluster], name: str, partitions: Choice
) -> tuple[Setting, ...]:
    of_topic = Sheet(f"topic {name} on {at[0]}", "measured", {}, reader=inventory.reader)
    of_topic.put("", "partitions", "canary.topic", partitions)
    brokers = broker_count(inventory, at[1])
    plan_replication(of_topic, DeclaredTopic(name=name, cluster=at[0]), brokers)
    late = f"an audit that is {_RETENTION_MS // 3_600_000} hours late still finds its records; an estimate"
    of_topic.put("", "retention.ms", "canary.topic", Choice(_RETENTION_MS, late, _OURS, "estimate"))
    sheet.findings += of_topic.findings
    return tuple(of_topic.settings)
