"""Rules for REST proxies: which hosts get how many, for whom, and whether they can stand together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from sizing.core.findings import Finding
from sizing.core.inventory import Inventory
from sizing.core.messages import declare, wrong_variable
from sizing.core.plan import Instance, Part
from sizing.core.settings import Advice, Sheet
from sizing.core.variables import role_variables
from sizing.host.variables import HostFacts, host_facts
from sizing.inventory.clusters import KafkaCluster, bootstrap, cluster_names, clusters
from sizing.inventory.service_levels import service_levels
from sizing.keys.catalogue import numbers, rest_takes
from sizing.keys.values import check_values
from sizing.rest import kafka_rest
from sizing.rest.checks import check_settings, check_workload
from sizing.rest.clients import check_clients
from sizing.rest.distributions import mapr, strimzi
from sizing.rest.process import SERVICE, Process, instance_count
from sizing.rest.variables import KafkaRest, ready_topic
from sizing.topics.variables import topic_names

#: Versions that the rules know, per distribution: major.minor from .. to (to is left open).
_VERSIONS: Final[Mapping[str, tuple[tuple[int, ...], tuple[int, ...], str]]] = {
    "confluent": ((7, 9), (9,), "7.9 and 8.x"),
    "strimzi": ((0, 32), (2,), "0.32, 0.33 and 1.x"),
    "mapr": ((2, 0), (6,), "2.0, 4.x and 5.x"),
    "sandbox": ((1, 0), (2,), "1.x"),
}
_PLANNERS: Final[Mapping[str, Callable[[Sheet, Process], None]]] = {
    "confluent": kafka_rest.plan_process,
    "sandbox": kafka_rest.plan_process,
    "mapr": mapr.plan_process,
    "strimzi": strimzi.plan_process,
}
#: Distributions that are unpacked from an archive, whose checksum has to be known.
_ARCHIVES: Final = ("confluent", "strimzi")


def plan_rest(inventory: Inventory, advice: Advice, busy: frozenset[str]) -> Part:
    """Plan the REST instances of the group ``kafka_rest``; other services run on the ``busy`` hosts."""
    known, _ = clusters(inventory)
    balancer = _balancer_url(inventory)
    stall_s = _stall_s(inventory)
    services: dict[str, dict[str, tuple[Instance, ...]]] = {}
    findings: list[Finding] = []
    servers: dict[str, str] = {}
    for host in inventory.group(SERVICE):
        read = _read(inventory, host, known)
        if isinstance(read, list):
            findings += read
            continue
        variables, facts = read
        about = Sheet(f"{host} {SERVICE}", advice, {})
        if variables.cluster not in servers:
            servers[variables.cluster] = bootstrap(inventory, variables.cluster, known[variables.cluster])
        count, small_fetch = instance_count(about, variables, facts, advice, dedicated=host not in busy)
        check_settings(about, variables)
        check_clients(about, variables, service_levels(inventory))
        check_workload(about, variables, facts)
        _check_place(about, inventory, host, variables, known[variables.cluster])
        findings += about.findings
        instances = []
        for number in range(count):
            process = Process(
                host=host,
                address=inventory.address(host),
                number=number,
                instances=count,
                servers=servers[variables.cluster],
                balancer_url=variables.balancer.url if variables.balancer else balancer,
                stall_s=stall_s,
                variables=variables,
                facts=facts,
                small_fetch=small_fetch,
                security=known[variables.cluster].security,
            )
            sheet = Sheet(f"{host} {SERVICE}@{process.port}", advice, _own(variables))
            _PLANNERS[variables.distribution](sheet, process)
            findings += sheet.findings
            instances.append(Instance(str(process.port), sheet.by_file(), process.port))
        services[host] = {SERVICE: tuple(instances)}
        commands = (
            mapr.stream_commands(host, variables.first_port, inventory.address(host), variables)
            if variables.distribution == "mapr" and host == inventory.group(SERVICE)[0]
            else None
        )
        if commands:
            services[host][mapr.STREAMS] = (commands,)
    findings += _identities(services)
    findings += _ready_topics(inventory, known)
    findings += _balancing(inventory, services)
    return Part(services=services, findings=tuple(findings))


def _read(
    inventory: Inventory, host: str, known: Mapping[str, KafkaCluster]
) -> tuple[KafkaRest, HostFacts] | list[Finding]:
    values = inventory.hosts[host]
    variables = role_variables(KafkaRest, SERVICE, host, values)
    facts = host_facts(host, values)
    if isinstance(variables, list) or isinstance(facts, list):
        return [f for part in (variables, facts) if isinstance(part, list) for f in part]
    taken = rest_takes(variables.distribution, variables.version)
    wrong = check_values(f"{SERVICE}_settings", host, variables.settings, taken)
    low, high, names = _VERSIONS[variables.distribution]
    if not low <= numbers(variables.version) < high:
        wrong.append(
            wrong_variable(
                f"{SERVICE}_version",
                host,
                f"is {variables.version}, of which nothing is known for {variables.distribution}",
                f"use a version of {names}",
            )
        )
    declared = cluster_names(inventory)
    if variables.cluster not in declared:
        wrong.append(
            wrong_variable(
                f"{SERVICE}_cluster",
                host,
                f"is {variables.cluster}, which is not declared",
                declare(declared),
            )
        )
    if variables.distribution == "sandbox" and not values.get("fleet"):
        wrong.append(
            wrong_variable(
                f"{SERVICE}_distribution",
                host,
                "is sandbox, which is no product and serves local fleets only",
                "use confluent, strimzi or mapr",
            )
        )
    needs_archive = variables.distribution in _ARCHIVES and variables.install != "package"
    if needs_archive and not variables.archive:
        wrong.append(
            wrong_variable(
                f"{SERVICE}_archive",
                host,
                f"is missing, and {variables.distribution} is installed from an archive",
                "give its path on the machine that runs Ansible, or its URL",
            )
        )
    named = needs_archive or (variables.archive and variables.distribution != "sandbox")
    if named and not variables.archive_checksum:
        wrong.append(
            wrong_variable(
                f"{SERVICE}_archive_checksum",
                host,
                "is missing, and nothing is installed that was not verified",
                "give what sha256sum says of the archive",
            )
        )
    if variables.install == "package" and variables.distribution in ("strimzi", "sandbox"):
        wrong.append(
            wrong_variable(
                f"{SERVICE}_install",
                host,
                f"is package, and of {variables.distribution} there is none",
                "take it out, and name the archive",
            )
        )
    if variables.heap_mib and "KAFKAREST_HEAP_OPTS" in variables.settings:
        wrong.append(
            wrong_variable(
                f"{SERVICE}_heap_mib",
                host,
                "contradicts KAFKAREST_HEAP_OPTS in kafka_rest_settings",
                "keep one of the two",
            )
        )
    if variables.distribution != "mapr" and variables.default_stream:
        wrong.append(
            wrong_variable(
                f"{SERVICE}_default_stream",
                host,
                f"is set, and {variables.distribution} has topics, not streams",
                "take it out, or set kafka_rest_distribution to mapr",
            )
        )
    # A cluster that is declared wrongly has a finding of its own.
    return wrong if wrong or variables.cluster not in known else (variables, facts)


def _own(variables: KafkaRest) -> dict[str, Any]:
    """Return a person's values; a heap in MiB becomes the flags that the start script takes."""
    own: dict[str, Any] = dict(variables.settings)
    if variables.heap_mib and variables.distribution != "strimzi":
        own["KAFKAREST_HEAP_OPTS"] = f"-Xms{variables.heap_mib}m -Xmx{variables.heap_mib}m"
    return own


def _check_place(
    sheet: Sheet, inventory: Inventory, host: str, variables: KafkaRest, cluster: KafkaCluster
) -> None:
    here = inventory.hosts[host].get("data_center")
    if here is not None and cluster.data_center is not None and here != cluster.data_center:
        sheet.warning(
            "rest.data_center",
            f"the proxy is in data center {here}, its cluster {variables.cluster} in {cluster.data_center}: "
            "it should only be used for clusters of its own (Confluent REST Proxy production guide, "
            "Network)",
            f"place proxies of {variables.cluster} in {cluster.data_center}, and mirror the topics that are "
            "needed elsewhere",
        )


def _ready_topics(inventory: Inventory, known: Mapping[str, KafkaCluster]) -> Iterator[Finding]:
    """Find topics of the readiness probe that are not declared where others are.

    Nothing becomes ready without its topic, and balancers send an instance nothing. Of a cluster that the kit
    does not run, somebody else may have made it.
    """
    declared = topic_names(inventory)
    with_topics = {cluster for cluster, _ in declared}
    for host in inventory.group(SERVICE):
        cluster = str(inventory.hosts[host].get(f"{SERVICE}_cluster"))
        topic = ready_topic(inventory.hosts[host])
        if (cluster, topic) in declared or cluster not in known or cluster not in with_topics:
            continue
        yield Finding(
            "warning" if known[cluster].brokers is None else "error",
            "rest.ready_topic",
            f"{host}: {SERVICE}_ready_topic",
            f"readiness and the balancers' health checks produce to {topic}, which kafka_topics does not "
            f"declare for cluster {cluster}",
            f"declare {topic} there, or name a declared one: it gets a record a second and instance",
        )


def _identities(services: Mapping[str, Mapping[str, Iterable[Instance]]]) -> list[Finding]:
    """Find instances whose ids a person made alike, or empty."""
    places: dict[str, list[str]] = {}
    for host, of_host in services.items():
        for instance in of_host[SERVICE]:
            name = instance.value("id", instance.value("bridge.id"))
            places.setdefault(name, []).append(f"{host} {SERVICE}@{instance.name}")
    found = []
    for name, where in places.items():
        if not name and sum(map(len, places.values())) > 1:
            message = (
                "the instance has no id, and is not the only one: its consumers' names do not tell it apart"
            )
            found += [
                Finding("warning", "rest.identity", place, message, "take id out of kafka_rest_settings")
                for place in where
            ]
        elif name and len(where) > 1:
            message = f"several instances have the id {name}"
            found += [
                Finding(
                    "error",
                    "rest.identity",
                    place,
                    message,
                    "take id out of kafka_rest_settings: the plan makes one for each",
                )
                for place in where
            ]
    return found


def _balancing(
    inventory: Inventory, services: Mapping[str, Mapping[str, tuple[Instance, ...]]]
) -> list[Finding]:
    """Find consumers that a balancer would lose, and several instances with no balancer at all."""
    instances = sum(len(of_host[SERVICE]) for of_host in services.values())
    if instances < 2:
        return []
    found: dict[str, Finding] = {}
    source = "Confluent REST Proxy production guide, Deployment and Load Balancing"
    for host in services:
        other = inventory.hosts[host].get(f"{SERVICE}_balancer")
        consumers = (inventory.hosts[host].get(f"{SERVICE}_workload") or {}).get("consumers", 0)
        if other and not other["sticky"] and consumers:
            found.setdefault(
                "sticky",
                Finding(
                    "warning",
                    "rest.stickiness",
                    f"{host} {SERVICE}",
                    f"the balancer {other['url']} is not sticky, and a consumer instance lives in one of "
                    f"{instances} processes: requests that reach another one are answered with 404 "
                    f"({source})",
                    "make it sticky by consumer instance, or let consumers follow the base_uri that they "
                    "are given",
                ),
            )
        elif not other and not inventory.group("rest_balancer"):
            found.setdefault(
                "none",
                Finding(
                    "note",
                    "rest.balancing",
                    SERVICE,
                    f"{instances} instances, and no balancer in the inventory ({source})",
                    "add a host to the group rest_balancer, describe yours in kafka_rest_balancer, or let "
                    "each client choose an instance",
                ),
            )
    return list(found.values())


def _balancer_url(inventory: Inventory) -> str | None:
    hosts = inventory.group("rest_balancer")
    if not hosts:
        return None
    port = inventory.hosts[hosts[0]].get("rest_balancer_port", 8080)
    scheme = "https" if inventory.hosts[hosts[0]].get("rest_balancer_tls") else "http"
    address = inventory.hosts[hosts[0]].get("rest_balancer_address") or inventory.address(hosts[0])
    return f"{scheme}://{address}:{port}"


def _stall_s(inventory: Inventory) -> float | None:
    levels = inventory.common("service_levels")
    rebalance = levels.get("rebalance") if isinstance(levels, Mapping) else None
    stall = rebalance.get("consume_stall_s") if isinstance(rebalance, Mapping) else None
    return float(stall) if isinstance(stall, int | float) and stall > 0 else None
