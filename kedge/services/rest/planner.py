"""Rules for REST proxies: which hosts get how many, for whom, and whether they can stand together."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kedge.keys.accepted_values import check_values
from kedge.plan.findings import Finding, Subject
from kedge.plan.hosts import Inventory, in_url
from kedge.plan.inventory.clusters import KafkaCluster, bootstrap, cluster_names, clusters, message_max_bytes
from kedge.plan.inventory.service_levels import service_levels
from kedge.plan.plan import Part, PlannedInstance
from kedge.plan.settings import Advice, Sheet
from kedge.plan.variable_messages import declare, either, wrong_choice, wrong_variable
from kedge.plan.variables import role_variables
from kedge.services.clients.fetches import fetches_of
from kedge.services.clients.group_protocol import coordinator, stall_s
from kedge.services.host.java import DEFAULT_JAVA, release_of
from kedge.services.host.variables import HostFacts, host_facts
from kedge.services.rest.checks import (
    check_bootstrap,
    check_listeners,
    check_record,
    check_settings,
    check_workload,
)
from kedge.services.rest.clients import check_clients
from kedge.services.rest.consumers import CONSUMER_PREFIXES
from kedge.services.rest.distribution import SERVICE, Distribution, RestProcess
from kedge.services.rest.distributions import DISTRIBUTIONS
from kedge.services.rest.instance_count import check_cores, instance_count, rest_headroom
from kedge.services.rest.keys import rest_takes
from kedge.services.rest.traffic import check_link
from kedge.services.rest.variables import KafkaRest, OtherBalancer, ready_topic
from kedge.services.topics.variables import largest_message, may_declare, topic_names


def plan_rest(inventory: Inventory, advice: Advice, busy: frozenset[str]) -> Part:
    """Plan the REST instances of the group ``kafka_rest``; other services run on the ``busy`` hosts."""
    known, _ = clusters(inventory)
    balancer, keeps = _balancer_url(inventory), _balancer_stays(inventory)
    stall = stall_s(inventory)
    services: dict[str, dict[str, tuple[PlannedInstance, ...]]] = {}
    findings: list[Finding] = []
    servers: dict[str, str] = {}
    planned: list[tuple[str, KafkaRest, HostFacts]] = []
    for host in inventory.group(SERVICE):
        read = _read(inventory, host, known)
        if isinstance(read, list):
            findings += read
            continue
        distribution, variables, facts = read
        planned.append((host, variables, facts))
        about = Sheet(f"{host} {SERVICE}", advice, {}, f"{SERVICE}_settings", inventory.reader)
        if variables.cluster not in servers:
            servers[variables.cluster] = bootstrap(inventory, variables.cluster, known[variables.cluster])
        fetched = fetches_of(inventory, known[variables.cluster], variables.settings, *CONSUMER_PREFIXES)
        count, small_fetch = instance_count(
            about, distribution, variables, facts, advice, fetched, dedicated=host not in busy
        )
        check_settings(about, distribution, variables)
        check_clients(about, distribution, variables, service_levels(inventory))
        brings_java = distribution.java(variables.version) is None
        check_workload(about, variables, facts)
        brokers_take = message_max_bytes(inventory, known[variables.cluster])
        takes = largest_message(inventory, variables.cluster, known[variables.cluster])
        check_record(about, distribution, variables, takes, by_default=brokers_take is None)
        check_link(about, variables.workload, facts)
        check_bootstrap(about, variables.cluster, servers[variables.cluster], fetched)
        _check_place(about, inventory, host, variables, known[variables.cluster])
        instances = []
        for number in range(count):
            process = RestProcess(
                distribution=distribution,
                host=host,
                address=inventory.address(host),
                number=number,
                instances=count,
                servers=servers[variables.cluster],
                balancer_url=variables.balancer.url if variables.balancer else balancer,
                balancer_keeps=_keeps(variables.balancer) if variables.balancer else keeps,
                stall_s=stall,
                coordinator=coordinator(inventory, known[variables.cluster]),
                variables=variables,
                facts=facts,
                small_fetch=small_fetch,
                fetches=fetched,
                java=release_of(inventory.hosts[host], None if brings_java else DEFAULT_JAVA),
                security=known[variables.cluster].security,
            )
            where, own = f"{host} {SERVICE}@{process.port}", variables.settings
            sheet = Sheet(where, advice, own, f"{SERVICE}_settings", inventory.reader)
            distribution.plan(sheet, process)
            check_listeners(sheet, process)
            findings += sheet.findings
            software = distribution.deployed(host, number, variables)
            instances.append(PlannedInstance(str(process.port), sheet.by_file(), process.port, software))
        findings += _adopted(host, variables, instances)
        if variables.adopt and not (balancer or (variables.balancer and variables.balancer.drain)):
            about.warning(
                "rest.adopt",
                "kafka_rest_adopt takes running proxies over, and no balancer drains them first: requests in "
                "flight fail when a predecessor stops",
                "give kafka_rest_balancer its commands drain and undrain, or add a host to rest_balancer",
                variable="kafka_rest_adopt",
            )
        check_cores(about, distribution.cost, variables, facts, instances[0])
        findings += about.findings
        services[host] = {SERVICE: tuple(instances)}
        # A stream is created once.
        if distribution.streams and host == inventory.group(SERVICE)[0]:
            services[host] |= distribution.streams(host, inventory.address(host), variables)
    findings += rest_headroom(planned, {host: len(of[SERVICE]) for host, of in services.items()})
    findings += _identities(services)
    findings += _ready_topics(inventory, known)
    findings += _balancing(inventory, services)
    return Part(services=services, findings=tuple(findings))


def _read(
    inventory: Inventory, host: str, known: Mapping[str, KafkaCluster]
) -> tuple[Distribution, KafkaRest, HostFacts] | list[Finding]:
    values = inventory.hosts[host]
    variables = role_variables(KafkaRest, SERVICE, host, values)
    facts = host_facts(host, values)
    parts = (variables, _unregistered(host, values), facts)
    if isinstance(variables, list) or isinstance(facts, list) or parts[1]:
        return [finding for part in parts if isinstance(part, list) for finding in part]
    distribution = DISTRIBUTIONS[variables.distribution]
    taken = rest_takes(distribution, variables.version)
    wrong = check_values(f"{SERVICE}_settings", host, variables.settings, taken)
    wrong += [
        wrong_variable(f"{SERVICE}_{name}", host, what, fix)
        for name, what, fix in _wrong(distribution, variables, fleet=bool(values.get("fleet")))
    ]
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
    # A cluster that is declared wrongly has a finding of its own.
    return wrong if wrong or variables.cluster not in known else (distribution, variables, facts)


def _unregistered(host: str, values: Mapping[str, Any]) -> list[Finding]:
    """Find a name that no distribution has."""
    name = values.get(f"{SERVICE}_distribution")
    if not isinstance(name, str) or name in DISTRIBUTIONS:  # what is no name, the model finds
        return []
    return [wrong_choice(f"{SERVICE}_distribution", host, name, list(DISTRIBUTIONS))]


def _wrong(
    distribution: Distribution, variables: KafkaRest, *, fleet: bool
) -> Iterator[tuple[str, str, str]]:
    """Find variables that do not go with the distribution: name, what is wrong, how to mend it."""
    name, software, jvm = distribution.name, distribution.software, distribution.jvm
    if not distribution.versions.have(variables.version):
        yield (
            "version",
            f"is {variables.version}, of which nothing is known for {name}",
            f"use one that is known: {distribution.versions.said}",
        )
    if distribution.fleet_only and not fleet:
        yield (
            "distribution",
            f"is {name}, which is no product and serves local fleets only",
            f"use {either(name for name, each in DISTRIBUTIONS.items() if not each.fleet_only)}",
        )
    needs_archive = distribution.way(variables) == "archive" and not software.built_here
    if needs_archive and not variables.archive:
        yield (
            "archive",
            f"is missing, and {name} is installed from an archive",
            "give its path on the machine that runs Ansible, or its URL",
        )
    named = needs_archive or (variables.archive and not software.built_here)
    if named and not variables.archive_checksum:
        yield (
            "archive_checksum",
            "is missing, and nothing is installed that was not verified",
            "give what sha256sum says of the archive",
        )
    if distribution.way(variables) not in software.ways:
        yield (
            "install",
            f"is {variables.install}, and of {name} there is none",
            f"take it out, and name the {software.ways[0]}",
        )
    if pinned := variables.package_version:
        if distribution.way(variables) != "package":
            yield "package_version", f"is {pinned}, and {name} is installed from an archive", "take it out"
        elif not re.match(rf"(\d+:)?{re.escape(variables.version)}(?!\d)", pinned):
            yield (
                "package_version",
                f"is {pinned}, and kafka_rest_version is {variables.version}",
                "write the version of its package as the host's package manager lists it",
            )
    if variables.heap_mib and jvm is None:
        yield "heap_mib", f"is set, and {name} has no heap that is planned", "take it out"
    if variables.heap_mib and jvm and jvm.heap in variables.settings:
        yield "heap_mib", f"contradicts {jvm.heap} in kafka_rest_settings", "keep one of the two"
    if distribution.streams is None and variables.default_stream:
        others = either(name for name, each in DISTRIBUTIONS.items() if each.streams)
        yield (
            "default_stream",
            f"is set, and {name} has topics, not streams",
            f"take it out, or set kafka_rest_distribution to {others}",
        )


def _adopted(host: str, variables: KafkaRest, instances: Iterable[PlannedInstance]) -> Iterator[Finding]:
    """Find predecessors from which no instance takes over: on a port that moved, or one of Warden's."""
    ports = {instance.port: instance for instance in instances}
    for number, adopted in enumerate(variables.adopt):
        name = f"{SERVICE}_adopt[{number}].port"
        if adopted.port not in ports:
            have = ", ".join(map(str, ports))
            yield wrong_variable(
                name,
                host,
                f"is {adopted.port}, where no instance is planned: this host has {have}",
                f"write a port that it has, or set {SERVICE}_first_port to that of the predecessor",
            )
        elif "control" in ports[adopted.port].software:
            yield wrong_variable(
                name,
                host,
                f"is {adopted.port}, whose instance Warden runs: no unit of Kedge takes over there",
                "take the entry out",
            )


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
    with_topics = {cluster for cluster, _ in topic_names(inventory)}
    for host in inventory.group(SERVICE):
        cluster = str(inventory.hosts[host].get(f"{SERVICE}_cluster"))
        topic = ready_topic(inventory.hosts[host])
        if may_declare(inventory, cluster, topic) or cluster not in known or cluster not in with_topics:
            continue
        yield Finding(
            "warning" if known[cluster].brokers is None else "error",
            "rest.ready_topic",
            f"{host}: {SERVICE}_ready_topic",
            f"readiness and the balancers' health checks produce to {topic}, which kafka_topics does not "
            f"declare for cluster {cluster}",
            f"declare {topic} there, or name a declared one: it gets a record a second and instance",
            Subject(f"{SERVICE}_ready_topic", host=host),
        )


def _identities(services: Mapping[str, Mapping[str, Iterable[PlannedInstance]]]) -> list[Finding]:
    """Find instances whose ids a person made alike, or empty."""
    places: dict[str, list[str]] = {}
    for host, of_host in services.items():
        for instance in of_host[SERVICE]:
            name = instance.value(str(instance.software["identity"]))
            places.setdefault(name, []).append(f"{host} {SERVICE}@{instance.name}")
    found, own = [], f"{SERVICE}_settings"
    _id = Subject(own, ("id",))
    for name, where in places.items():
        if not name and sum(map(len, places.values())) > 1:
            message = (
                "the instance has no id, and is not the only one: its consumers' names do not tell it apart"
            )
            found += [
                Finding("warning", "rest.identity", place, message, f"take id out of {own}", _id)
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
                    f"take id out of {own}: the plan makes one for each",
                    _id,
                )
                for place in where
            ]
    return found


def _balancing(
    inventory: Inventory, services: Mapping[str, Mapping[str, tuple[PlannedInstance, ...]]]
) -> list[Finding]:
    """Find consumers that a balancer would lose, and several instances with no balancer at all."""
    instances = sum(len(of_host[SERVICE]) for of_host in services.values())
    if instances < 2:
        return []
    found: dict[str, Finding] = {}
    source = "Confluent REST Proxy production guide, Deployment and Load Balancing"
    for host in services:
        other = inventory.hosts[host].get(f"{SERVICE}_balancer")
        it = inventory.reader.either(f"the balancer {other['url']}" if other else "", "it")
        consumers = (inventory.hosts[host].get(f"{SERVICE}_workload") or {}).get("consumers", 0)
        if other and not other["sticky"] and consumers:
            found.setdefault(
                "sticky",
                Finding(
                    "warning",
                    "rest.stickiness",
                    f"{host} {SERVICE}",
                    f"{it} is not sticky, and a consumer instance lives in one of {instances} "
                    f"processes: requests that reach another one are answered with 404 ({source})",
                    "make it sticky by consumer instance, or let consumers follow the base_uri that they "
                    "are given",
                    Subject(f"{SERVICE}_balancer.sticky", host=host),
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
                    "add a host to the group rest_balancer, describe your own in kafka_rest_balancer, or let "
                    "each client choose an instance",
                ),
            )
    return list(found.values())


def _balancer_stays(inventory: Inventory) -> bool:
    """Return whether the planned balancer is the only one, or its address moves between all of them."""
    hosts = inventory.group("rest_balancer")
    told = [inventory.hosts[host].get("rest_balancer_address") for host in hosts]
    # What is no text is a finding of its own.
    return len(hosts) == 1 or (len({*map(str, told)}) == 1 and None not in told)


def _keeps(balancer: OtherBalancer) -> bool:
    """Return whether a balancer keeps consumers to their instance, and drains that before it stops."""
    return balancer.sticky and bool(balancer.drain)


def _balancer_url(inventory: Inventory) -> str | None:
    hosts = inventory.group("rest_balancer")
    if not hosts:
        return None
    scheme = "https" if inventory.hosts[hosts[0]].get("rest_balancer_tls") else "http"
    return f"{scheme}://{balancer_address(inventory, hosts[0])}"


def balancer_address(inventory: Inventory, host: str) -> str:
    """Return HOST:PORT by which clients reach the planned balancer of a host."""
    variables = inventory.hosts[host]
    address = variables.get("rest_balancer_address") or inventory.address(host)
    return f"{in_url(str(address))}:{variables.get('rest_balancer_port', 8080)}"
