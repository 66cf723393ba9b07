"""Rules for mirrors: how many processes carry a flow, where they run, and what their files hold."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from sizing.clients.fetches import fetches_of
from sizing.core.findings import Finding
from sizing.core.inventory import Inventory
from sizing.core.jvm import oldest_java
from sizing.core.messages import declare
from sizing.core.placement import place, quotas
from sizing.core.plan import Part, PlannedInstance
from sizing.core.settings import Advice, Setting, Sheet
from sizing.host.variables import HostFacts, host_facts
from sizing.inventory.clusters import (
    KafkaCluster,
    bootstrap,
    broker_count,
    cluster_names,
    clusters,
    same_cluster,
)
from sizing.inventory.service_levels import service_levels
from sizing.keys.catalogue import (
    LOCKED_KAFKA,
    NEWER_KAFKA,
    OF_KAFKA,
    check_keys,
    known_keys,
    numbers,
)
from sizing.mirror.capacity import capacity_of, check_flow, flow_headroom, processes_for
from sizing.mirror.classic import classic
from sizing.mirror.limits import Limits, limits, matching
from sizing.mirror.links import FlowShare, check_host_links, check_path
from sizing.mirror.mirror_maker_2 import ADDRESS, mirror_maker_2
from sizing.mirror.producer import (
    ARTICLE,
    BENCH,
    FETCH_WAIT_MS,
    FROM_PORT,
    MEASURED,
    NUMBER,
    Flow,
    batch_bytes,
    spare_ms,
)
from sizing.mirror.variables import (
    BESIDE,
    ROLE,
    MeasuredFlow,
    MirrorFlow,
    MirrorMaker,
    bare_keys,
    mirror_makers,
)
from sizing.topics.variables import topic_names

SERVICE: Final = ROLE
_SHOWN: Final = 8
#: Families of keys that MirrorMakerConfig reads for all clusters: of its REST server and of logins.
_FOR_ALL: Final = (
    "access.control.",
    "admin.listeners",
    "bootstrap.servers",
    "config.providers",
    "config.storage.",
    "header.converter",
    "key.converter",
    "listeners",
    "offset.storage.",
    "plugin.path",
    "response.http.",
    "rest.",
    "sasl.",
    "security.",
    "ssl.",
    "status.storage.",
    "value.converter",
)
#: Families of keys that MirrorMakerConfig hands on whole: to plugins, converters and workers.
_PASSED_ON: Final = (
    "config.providers.",
    "header.converter.",
    "key.converter.",
    "replication.policy.",
    "task.",
    "value.converter.",
    "worker.",
)
#: bench/mirror: 435,224 records/s of 104.8 bytes on two cores, with both clusters on them.
_MB_A_CORE: Final = 22.8
_PARALLEL: Final = f"{ARTICLE}, Increase parallelism"


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
    places = {name: _places(inventory, flow, known) for name, flow in flows.items()}
    findings += [*_role_findings(role, flows, topics, places), *check_flow(role, flows)]
    findings += _lock_findings(role, [inventory.hosts[host] for host in variables])
    instances: dict[str, list[PlannedInstance]] = {host: [] for host in variables}
    shares: dict[str, list[FlowShare]] = {}
    for name, flow in flows.items():
        sheet = Sheet(f"flow {name}", advice, {})
        bounds = _bounds(sheet, inventory, name, flow, known, topics, role)
        if bounds is not None:
            source, target = places[name]
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
                    *(f"{flow.source}.consumer.", ""),
                ),
                oldest_java([inventory.hosts[host] for host in hosts_of[name]]),
            )
            brokers = broker_count(inventory, known[flow.target]) or 1
            here, refused = capacity_of(role, name, hosts_of[name], facts)
            sheet.findings += refused
            count = _count(sheet, planned, hosts_of[name], facts, variables, role.kind, brokers, here)
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


def _places(inventory: Inventory, flow: MirrorFlow, known: Mapping[str, KafkaCluster]) -> tuple[str, str]:
    """Return the brokers of a flow's source and target; empty where the cluster is not declared."""
    ends = (flow.source, flow.source_bootstrap_servers), (flow.target, flow.target_bootstrap_servers)
    source, target = (
        own or (bootstrap(inventory, name, known[name]) if name in known else "") for name, own in ends
    )
    return source, target


def _role_findings(
    role: MirrorMaker,
    flows: Mapping[str, MirrorFlow],
    topics: Part,
    places: Mapping[str, tuple[str, str]],
) -> list[Finding]:
    sheet = Sheet("mirror_maker", "measured", {})
    version = numbers(role.version)
    if role.kind == "classic" and version >= (4,):
        sheet.error(
            "mirror.version",
            f"mirror_maker_version is {role.version}, and classic MirrorMaker was removed in 4.0",
            "set mirror_maker_version to 3.9.2, which runs against 4.x clusters, or mirror_maker_kind to "
            "mirror_maker_2",
        )
    elif role.kind == "classic":
        sheet.note(
            "mirror.version",
            "classic MirrorMaker is deprecated since 3.0 and ends with 3.9",
            "plan the move to mirror_maker_kind: mirror_maker_2",
        )
    elif version >= NEWER_KAFKA:
        sheet.error(
            "mirror.version",
            f"mirror_maker_version is {role.version}, which is no version of Apache Kafka",
            OF_KAFKA,
        )
    elif version < (2, 4):
        sheet.error(
            "mirror.version",
            f"mirror_maker_version is {role.version}, and MirrorMaker 2 came with 2.4",
            f"set mirror_maker_version to {LOCKED_KAFKA[-1]}, or mirror_maker_kind to classic",
        )
    for name, flow in flows.items():
        variable = f"mirror_maker_flows.{name}"
        if flow.exactly_once and role.kind == "classic":
            sheet.error(
                "mirror.exactly_once",
                f"{variable}.exactly_once is true, and classic MirrorMaker delivers at least once",
                "set it to false, or mirror_maker_kind to mirror_maker_2",
            )
        for other, back in flows.items():
            loops = flow.source == back.target and flow.target == back.source and name < other
            renamed = role.kind == "mirror_maker_2" and "default" in (
                flow.replication_policy,
                back.replication_policy,
            )
            shared = _shared(flow, back, topics.topics.get(flow.source, {}))
            if loops and shared and not renamed:
                sheet.error(
                    "mirror.loop",
                    f"{variable}.topics and mirror_maker_flows.{other}.topics both match {shared[0]}, in "
                    "opposite directions: records would go round for ever",
                    "mirror it one way, or with MirrorMaker 2 and replication_policy default",
                )
            named = [(flow.source, back.source), (flow.target, back.target)]
            same = all(
                one == two or same_cluster(here, there)
                for (one, two), here, there in zip(named, places[name], places[other], strict=True)
            )
            # MirrorMaker 2 puts the source's name before a topic's: another name makes another topic.
            renames = renamed and flow.source != back.source
            policy = flow.replication_policy == back.replication_policy
            if name < other and same and shared and policy and not renames:
                brokers = "".join(
                    f"; {one} and {two} have a broker in common" for one, two in named if one != two
                )
                sheet.error(
                    "mirror.twice",
                    f"{variable}.topics and mirror_maker_flows.{other}.topics both match {shared[0]}, from "
                    f"{flow.source} to {flow.target}: every record would be copied twice{brokers}",
                    "take it out of one of the two",
                )
    return sheet.findings


def _shared(flow: MirrorFlow, other: MirrorFlow, declared: Iterable[str]) -> list[str]:
    """Return what two flows both copy: patterns that they share, and topics that a pattern of each matches.

    A topic is one that is declared, or a pattern that is a plain name.
    """
    patterns = [[re.compile(topic) for topic in one.topics] for one in (flow, other)]
    plain = {topic for one in (flow, other) for topic in one.topics if re.fullmatch(r"[\w-]+", topic)}
    both = {t for t in {*declared, *plain} if all(any(p.fullmatch(t) for p in of) for of in patterns)}
    return sorted(set(flow.topics) & set(other.topics)) or sorted(both)


def _lock_findings(role: MirrorMaker, hosts: Iterable[Mapping[str, object]]) -> list[Finding]:
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
        )
    return sheet.findings


def _bounds(
    sheet: Sheet,
    inventory: Inventory,
    name: str,
    flow: MirrorFlow,
    known: Mapping[str, KafkaCluster],
    topics: Part,
    role: MirrorMaker,
) -> Limits | None:
    variable, names = f"mirror_maker_flows.{name}", cluster_names(inventory)
    for end, cluster in (("source", flow.source), ("target", flow.target)):
        if cluster not in names:
            sheet.error(
                "mirror.cluster",
                f"{variable}.{end} is {cluster}, which is not declared",
                declare(names),
            )
    if flow.source == flow.target:
        sheet.error(
            "mirror.cluster", f"{variable}.source and .target are both {flow.source}", "name two clusters"
        )
    if sheet.findings or not {flow.source, flow.target} <= known.keys():
        return None
    if spare_ms(flow) <= 0:
        sheet.error(
            "mirror.latency",
            f"{variable}.latency_budget_ms is {flow.latency_budget_ms}, and the round trip of "
            f"{flow.round_trip_ms:g} ms with a consumer's fetch of {FETCH_WAIT_MS} ms take all of it",
            f"set it above {math.ceil(flow.round_trip_ms + FETCH_WAIT_MS)}",
        )
        return None
    _check_level(sheet, inventory, variable, flow)
    renamed = role.kind == "mirror_maker_2" and flow.replication_policy == "default"
    _check_place(sheet, inventory, name, flow, known)
    if role.kind == "classic":
        _check_targets(sheet, inventory, flow, known, topics)
    return limits(sheet, inventory, name, flow, known, topics, renamed)


def _check_level(sheet: Sheet, inventory: Inventory, variable: str, flow: MirrorFlow) -> None:
    """Batches wait for as long as the budget lets them, under any load."""
    wanted = (service_levels(inventory).get("mirror") or {}).get("delay_p99_ms")
    if isinstance(wanted, int | float) and flow.latency_budget_ms > wanted:
        sheet.warning(
            "mirror.latency",
            f"{variable}.latency_budget_ms is {flow.latency_budget_ms}, and "
            f"service_levels.mirror.delay_p99_ms allows {wanted:g} ms",
            f"set it to {wanted:g}, since records wait for their batch to fill within it",
        )


def _check_targets(
    sheet: Sheet, inventory: Inventory, flow: MirrorFlow, known: Mapping[str, KafkaCluster], topics: Part
) -> None:
    """Our brokers create no topics by themselves, and classic MirrorMaker creates none either."""
    if known[flow.target].brokers is None:
        return
    there = {name for cluster, name in topic_names(inventory) if cluster == flow.target}
    missing = sorted(matching(flow, topics.topics.get(flow.source, {})).keys() - there)
    if missing:
        sheet.error(
            "mirror.target_topics",
            f"{', '.join(missing)} on {flow.source} has no topic on {flow.target}, whose brokers create none "
            "by themselves: the processes would wait for ever",
            f"declare it in kafka_topics for cluster {flow.target} too",
        )


def _check_place(
    sheet: Sheet, inventory: Inventory, name: str, flow: MirrorFlow, known: Mapping[str, KafkaCluster]
) -> None:
    end = flow.source if flow.direction == "push" else flow.target
    wanted = known[end].data_center
    for host in inventory.group(SERVICE):
        variables = inventory.hosts[host]
        own = variables.get("data_center")
        if wanted and own and own != wanted and name in variables.get("mirror_maker_flows", {}):
            sheet.warning(
                "mirror.direction",
                f"mirror_maker_flows.{name}.direction is {flow.direction}, so its hosts belong beside "
                f"cluster {end} in {wanted}; {host} is in {own}",
                f"move the host, or set direction to {'pull' if flow.direction == 'push' else 'push'}",
            )


def _count(
    sheet: Sheet,
    flow: Flow,
    hosts: list[str],
    facts: Mapping[str, HostFacts],
    variables: Mapping[str, MirrorMaker],
    kind: str,
    brokers: int,
    here: MeasuredFlow | None,
) -> int:
    """Return how many processes carry a flow over all its hosts; ``here`` is what these were measured to."""
    spec, name, largest = flow.flow, flow.name, flow.limits.largest
    needed = _needed(sheet, flow, brokers)
    cores = sum(max(1, facts[h].cores // len(variables[h].flows)) for h in hosts)
    if here is None:
        _check_cores(sheet, flow, cores)
    if spec.processes is None and kind == "mirror_maker_2":
        return len(hosts)
    carrying = max(processes_for(here, spec, len(hosts)) if here else cores, needed)
    measured = min(largest, max(len(hosts), carrying))
    count = spec.processes or (measured if flow.advice == "measured" else largest)
    each = list(quotas(count, hosts).values())
    spread = ", ".join(map(str, each)) if len(each) <= _SHOWN else f"{min(each)} to {max(each)} each"
    if spec.processes is None and count != largest:
        because = (
            f"its hosts have {cores} cores for it, and more processes than cores brought nothing once "
            f"batches were full; {MEASURED}"
        )
        if here is not None:
            because = (
                f"{here.processes} carried {here.records_per_s:,} records/s in run {here.run} of {here.date}"
            )
        sheet.note(
            "mirror.processes",
            f"flow {name} has {count} processes by measurement ({because}) where {_PARALLEL} says {largest}, "
            "the partitions of the largest topic",
            f"set advice: documented to follow the document, or mirror_maker_flows.{name}.processes",
        )
    elif spec.processes is None:
        sheet.note(
            "mirror.processes",
            f"flow {name} has {count} processes, as many as its largest topic has partitions, on "
            f"{len(hosts)} hosts: {spread} ({_PARALLEL})",
            "",
        )
    if count > largest:
        sheet.warning(
            "mirror.processes",
            f"mirror_maker_flows.{name}.processes is {count}, and the largest topic has {largest} "
            f"partitions: {count - largest} processes would idle",
            f"set it to {largest} or less",
        )
    if count < len(hosts):
        sheet.note(
            "mirror.processes",
            f"flow {name} has {count} processes for {len(hosts)} hosts: {len(hosts) - count} run none",
            "take hosts out, or give its largest topic more partitions"
            if largest < len(hosts)
            else f"set mirror_maker_flows.{name}.processes to {len(hosts)}, or take hosts out",
        )
    return count


def _check_cores(sheet: Sheet, flow: Flow, cores: int) -> None:
    """Find a flow whose compression takes more cores than its hosts have, by what two of them did."""
    wanted = (flow.flow.mb_per_s or 0) / _MB_A_CORE
    if wanted > cores:
        sheet.warning(
            "mirror.cores",
            f"flow {flow.name} has {flow.flow.mb_per_s:g} MB/s before compression, which takes about "
            f"{wanted:.0f} cores at {_MB_A_CORE:g} MB/s each; its hosts have {cores}. Two cores, shared with "
            f"the clusters, did 45.6 MB/s of metrics and 54 of logs ({BENCH})",
            f"use {math.ceil(wanted / cores)} times as many cores or hosts, or measure with capacity.yml "
            "what these sustain",
        )


def _needed(sheet: Sheet, flow: Flow, brokers: int) -> int:
    """Return how many producers the flow's rate needs over its round trip; 0 when either is not known.

    A producer has one request on its way to each broker (max.in.flight.requests.per.connection is 1).
    """
    spec = flow.flow
    if not spec.mb_per_s or not spec.round_trip_ms:
        return 0
    batches = math.ceil(flow.limits.written / brokers) * batch_bytes(flow)
    request = min(flow.limits.message_bytes, batches)
    each = brokers * request / (spec.round_trip_ms / 1000) / 1e6
    needed = math.ceil(spec.mb_per_s / each)
    # A worker of MirrorMaker 2 has a producer for each of its tasks, however many workers there are.
    asked = spec.processes if flow.classic else None
    carrying = min(asked or flow.limits.largest, flow.limits.largest)
    if needed > carrying:
        sheet.warning(
            "mirror.round_trip",
            f"flow {flow.name} has to sustain {spec.mb_per_s:g} MB/s, and {carrying} producers with a "
            f"request "
            f"of {request} bytes for each of {brokers} brokers every {spec.round_trip_ms:g} ms sustain "
            f"{carrying * each:.1f} MB/s before compression",
            f"use {f'{needed} processes and a topic' if flow.classic else 'a topic'} of "
            f"{'as many' if flow.classic else needed} partitions, larger messages, or direction pull",
        )
    return needed


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
    path = Sheet(f"flow {flow.name}", flow.advice, {})
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
    return findings + path.findings + _key_findings(flow, role)


def _filled(settings: Iterable[Setting], number: str, address: str) -> Iterable[Setting]:
    def fill(text: str) -> str:
        ported = re.sub(f"{FROM_PORT}(\\d+){FROM_PORT}", lambda first: str(int(first[1]) + int(number)), text)
        return ported.replace(NUMBER, number).replace(ADDRESS, address)

    # The reason of a person's own value says what the plan would have said, which may name the process.
    return (replace(s, file=fill(s.file), value=fill(s.value), because=fill(s.because)) for s in settings)


def _key_findings(flow: Flow, role: MirrorMaker) -> list[Finding]:
    """Return a warning for each key of a person's own that this version does not read."""
    spec, where = flow.flow, f"mirror_maker_flows.{flow.name}"
    findings = check_keys("consumer", role.version, spec.consumer_settings, f"{where}.consumer_settings")
    findings += check_keys("producer", role.version, spec.producer_settings, f"{where}.producer_settings")
    if role.kind == "mirror_maker_2":
        others = frozenset[str]().union(*(known_keys(c, role.version) for c in BESIDE))
        of_client = tuple(f"{client}." for client in ("consumer", "producer", "admin"))
        own = [
            key
            for key in bare_keys(spec).values()
            if key not in others and not key.startswith((*_PASSED_ON, *of_client))
        ]
        findings += check_keys("mm2", role.version, own, f"{where}.settings")
        findings += _misplaced(spec, role, f"{where}.settings")
    return findings


def _misplaced(spec: MirrorFlow, role: MirrorMaker, where: str) -> Iterable[Finding]:
    """Find keys of workers and clients that stand for all clusters, and are read of one alone."""
    read = known_keys("mm2", role.version)
    beside = frozenset[str]().union(*(known_keys(component, role.version) for component in BESIDE))
    for key, bare in bare_keys(spec).items():
        client, _, rest = key.partition(".")
        of_client = client in ("consumer", "producer", "admin") and rest in beside
        if key != bare or key in read or key.startswith((*_PASSED_ON, *_FOR_ALL)):
            continue
        if of_client or key in beside:
            alone = [c for c in BESIDE if key in known_keys(c, role.version)]
            under = f"{alone[0]}.{key}" if alone in (["consumer"], ["producer"]) else key
            place = f"{spec.source if under.startswith('consumer.') else spec.target}.{under}"
            yield Finding(
                "warning",
                "keys.unknown",
                where,
                f"MirrorMaker 2 reads {key} of a cluster alone, and passes over it here: {place}",
                f"write {place}",
            )
