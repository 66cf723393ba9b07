"""The plan of mirrors: the versions that there are, and each flow's processes on their hosts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from kedge.plan.findings import WITH_INVENTORY, Finding, Reader
from kedge.plan.hosts import Inventory
from kedge.plan.inventory.clusters import broker_count, clusters
from kedge.plan.placement import place, quotas
from kedge.plan.plan import Part, PlannedInstance
from kedge.plan.settings import Advice, Setting, Sheet
from kedge.plan.version_numbers import LOCKED_KAFKA, NEWER_KAFKA, OF_KAFKA, numbers
from kedge.services.clients.fetches import fetches_of
from kedge.services.host.java import oldest_java
from kedge.services.host.variables import HostFacts, host_facts
from kedge.services.mirror.adopting import check_adopted
from kedge.services.mirror.clusters import addresses_of, limits_of
from kedge.services.mirror.flow import FROM_PORT, NUMBER, Flow
from kedge.services.mirror.keys import check_flow_keys
from kedge.services.mirror.links import FlowShare, check_host_links, check_path
from kedge.services.mirror.mirror_maker_2 import ADDRESS, mirror_maker_2
from kedge.services.mirror.process import classic
from kedge.services.mirror.process_count import capacity_of, check_flow, flow_headroom, process_count
from kedge.services.mirror.topics_and_groups import check_overlaps
from kedge.services.mirror.variables import ROLE, MirrorFlow, MirrorMaker, mirror_makers


def check_version(
    role: MirrorMaker, flows: Mapping[str, MirrorFlow], reader: Reader = WITH_INVENTORY
) -> list[Finding]:
    """Find a version that there is none of in the wanted kind, and what a flow asks that it cannot do."""
    sheet = Sheet("mirror_maker", "measured", {})
    version = numbers(role.version)
    if role.kind == "classic" and version >= (4,):
        sheet.error(
            "mirror.version",
            f"mirror_maker_version is {role.version}, and classic MirrorMaker was removed in 4.0",
            "set mirror_maker_version to 3.9.2, which runs against 4.x clusters, or mirror_maker_kind to "
            "mirror_maker_2",
            variable="mirror_maker_version",
        )
    elif role.kind == "classic":
        sheet.note(
            "mirror.version",
            "classic MirrorMaker is deprecated since 3.0 and ends with 3.9",
            f"plan the move to {reader.either('mirror_maker_kind: mirror_maker_2', 'MirrorMaker 2')}",
            variable="mirror_maker_kind",
        )
    elif version >= NEWER_KAFKA:
        sheet.error(
            "mirror.version",
            f"mirror_maker_version is {role.version}, which is no version of Apache Kafka",
            OF_KAFKA,
            variable="mirror_maker_version",
        )
    elif version < (2, 4):
        sheet.error(
            "mirror.version",
            f"mirror_maker_version is {role.version}, and MirrorMaker 2 came with 2.4",
            f"set mirror_maker_version to {LOCKED_KAFKA[-1]}, or mirror_maker_kind to classic",
            variable="mirror_maker_version",
        )
    for name, flow in flows.items():
        if flow.exactly_once and role.kind == "classic":
            sheet.error(
                "mirror.exactly_once",
                f"mirror_maker_flows.{name}.exactly_once is true, and classic MirrorMaker delivers at least "
                "once",
                "set it to false, or mirror_maker_kind to mirror_maker_2",
                variable=f"mirror_maker_flows.{name}.exactly_once",
            )
    return sheet.findings


def check_lock(role: MirrorMaker, hosts: Iterable[Mapping[str, object]]) -> list[Finding]:
    """Find a version whose jars nothing names, before a deploy has changed proxies and comes to mirrors."""
    sheet = Sheet("mirror_maker", "measured", {})
    last = "3.9.2" if role.kind == "classic" else LOCKED_KAFKA[-1]
    least, beyond = ((0,), (4,)) if role.kind == "classic" else ((2, 4), NEWER_KAFKA)
    has_it = least <= numbers(role.version) < beyond
    if has_it and role.version not in LOCKED_KAFKA and not all("kafka_lock" in own for own in hosts):
        sheet.error(
            "mirror.lock",
            f"mirror_maker_version is {role.version}, and nothing names its jars and their checksums; there "
            f"are locks of {' and '.join(LOCKED_KAFKA)}",
            f"set mirror_maker_version to {last}, or kafka_lock to a lock of {role.version}",
            variable="mirror_maker_version",
        )
    return sheet.findings


SERVICE: Final = ROLE


def plan_mirrors(inventory: Inventory, topics: Part, advice: Advice) -> Part:
    """Plan the mirror processes of the group ``mirror_maker``; ``topics`` are the planned ones.

    A process is FLOW-N wherever it runs, and its files follow from the flow and N alone (a MirrorMaker 2
    worker's from its host's address too), so that hosts and processes come and go without a change to others.
    """
    variables, findings = mirror_makers(inventory)
    facts: dict[str, HostFacts] = {}
    for host in variables:
        read = host_facts(host, inventory.hosts[host])
        if isinstance(read, list):
            findings += read
        else:
            facts[host] = read
    if any(f.severity == "error" for f in findings) or not variables:
        return Part(findings=tuple(findings))
    known, _ = clusters(inventory)
    hosts_of: dict[str, list[str]] = {}
    for host, of_host in variables.items():
        for name in of_host.flows:
            hosts_of.setdefault(name, []).append(host)
    flows = {name: variables[hosts[0]].flows[name] for name, hosts in sorted(hosts_of.items())}
    role = next(iter(variables.values()))
    addresses = {name: addresses_of(inventory, flow, known) for name, flow in flows.items()}
    findings += check_version(role, flows, inventory.reader)
    findings += check_overlaps(role, flows, topics, addresses)
    findings += check_flow(role, flows)
    findings += check_adopted(inventory, role)
    findings += check_lock(role, [inventory.hosts[host] for host in variables])
    instances: dict[str, list[PlannedInstance]] = {host: [] for host in variables}
    shares: dict[str, list[FlowShare]] = {}
    for name, flow in flows.items():
        sheet = Sheet(f"flow {name}", advice, {}, reader=inventory.reader)
        bounds = limits_of(sheet, inventory, name, flow, known, topics, role)
        if bounds is not None:
            source, target = addresses[name]
            classic_kind = role.kind == "classic"
            planned = Flow(
                name,
                flow,
                bounds,
                role.version,
                source,
                target,
                advice,
                role.open_files,
                role.stop_seconds,
                classic_kind,
                known[flow.source].security,
                known[flow.target].security,
                fetches_of(
                    inventory,
                    known[flow.source],
                    {**flow.settings, **flow.consumer_settings},
                    *(f"{flow.source}->{flow.target}.{begin}consumer." for begin in ("source.", "")),
                    *(f"{flow.source}.consumer.", ""),
                ),
                oldest_java([inventory.hosts[host] for host in hosts_of[name]]),
                inventory.reader,
            )
            brokers = broker_count(inventory, known[flow.target]) or 1
            here, refused = capacity_of(role, name, hosts_of[name], facts)
            sheet.findings += refused
            count = process_count(sheet, planned, hosts_of[name], facts, variables, role.kind, brokers, here)
            if here is not None:
                sheet.findings += flow_headroom(here, name, flow, hosts_of[name], count)
            findings += _add(instances, shares, planned, hosts_of[name], count, inventory, role)
        findings += sheet.findings
    findings += check_host_links(shares, {host: facts[host].link_mbit_per_s or 0 for host in facts})
    services = {host: {SERVICE: tuple(found)} for host, found in instances.items()}
    return Part(services=services, findings=tuple(findings))


def mirrored_clusters(inventory: Inventory) -> frozenset[str]:
    """Return the clusters that flows come from and go to."""
    variables, _ = mirror_makers(inventory)
    flows = [flow for of_host in variables.values() for flow in of_host.flows.values()]
    return frozenset(f.source for f in flows) | frozenset(f.target for f in flows)


def _add(
    instances: dict[str, list[PlannedInstance]],
    shares: dict[str, list[FlowShare]],
    flow: Flow,
    hosts: list[str],
    count: int,
    inventory: Inventory,
    role: MirrorMaker,
) -> list[Finding]:
    """Add a flow's processes to their hosts, and what these carry of it; return what their settings raise."""
    load = {host: len(instances[host]) for host in hosts}
    if role.kind == "classic":
        settings, findings = classic(flow)
        placed = place(flow.name, count, hosts, load)
    else:
        settings, findings = mirror_maker_2(flow)
        # Workers of one flow are alike: numbers that begin at 0 on each host stay when hosts come and go.
        placed = {host: tuple(range(n)) for host, n in quotas(count, hosts, load).items()}
    codec = next((s.value for s in settings if s.key.endswith("compression.type")), "")
    path = flow.sheet({})
    check_path(path, flow, codec)
    for host, numbers_here in placed.items():
        if (rate := (flow.flow.mb_per_s or 0) * 1e6) and numbers_here:
            most = flow.flow.processes or flow.limits.largest
            shares.setdefault(host, []).append(
                FlowShare(flow.name, rate * len(numbers_here) / count, codec, most)
            )
        address = inventory.address(host)
        for number in numbers_here:
            own = tuple(_filled(settings, str(number), address))
            instances[host].append(PlannedInstance(f"{flow.name}-{number}", own))
    return findings + path.findings + check_flow_keys(flow, role)


def _filled(settings: Iterable[Setting], number: str, address: str) -> Iterable[Setting]:
    def fill(text: str) -> str:
        if FROM_PORT in text:  # of one setting in a hundred
            text = re.sub(
                f"{FROM_PORT}(\\d+){FROM_PORT}", lambda first: str(int(first[1]) + int(number)), text
            )
        return text.replace(NUMBER, number).replace(ADDRESS, address)

    # The reason of a person's own value says what the plan would have said, which may name the process.
    # Written out: with dataclasses.replace a plan of twenty processes takes a sixth longer.
    return (
        Setting(
            fill(s.file), s.key, fill(s.value), s.rule, fill(s.because), s.source, s.basis, s.secret, s.copied
        )
        for s in settings
    )
