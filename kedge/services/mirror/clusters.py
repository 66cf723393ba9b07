"""The source and target of a flow: declared, near enough, with its topics, and what they let through."""

from __future__ import annotations

import math
from collections.abc import Mapping

from kedge.plan.hosts import Inventory
from kedge.plan.inventory.clusters import KafkaCluster, bootstrap, cluster_names
from kedge.plan.inventory.service_levels import service_levels
from kedge.plan.plan import Part
from kedge.plan.settings import Sheet
from kedge.plan.variable_messages import declare
from kedge.services.mirror.clients import FETCH_WAIT_MS, spare_ms
from kedge.services.mirror.partitions import Limits, limits, matching
from kedge.services.mirror.topics_and_groups import target_prefix
from kedge.services.mirror.variables import ROLE, MirrorFlow, MirrorMaker
from kedge.services.topics.variables import topic_names


def addresses_of(
    inventory: Inventory, flow: MirrorFlow, known: Mapping[str, KafkaCluster]
) -> tuple[str, str]:
    """Return the brokers of a flow's source and target; empty where the cluster is not declared."""
    ends = (flow.source, flow.source_bootstrap_servers), (flow.target, flow.target_bootstrap_servers)
    source, target = (
        own or (bootstrap(inventory, name, known[name]) if name in known else "") for name, own in ends
    )
    return source, target


def limits_of(
    sheet: Sheet,
    inventory: Inventory,
    name: str,
    flow: MirrorFlow,
    known: Mapping[str, KafkaCluster],
    topics: Part,
    role: MirrorMaker,
) -> Limits | None:
    """Return what the clusters of a flow let through; None, with errors on the sheet, where it cannot run."""
    variable, names = f"mirror_maker_flows.{name}", cluster_names(inventory)
    for end, cluster in (("source", flow.source), ("target", flow.target)):
        if cluster not in names:
            sheet.error(
                "mirror.cluster",
                f"{variable}.{end} is {cluster}, which is not declared",
                declare(names),
                variable=f"{variable}.{end}",
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
            variable=f"{variable}.latency_budget_ms",
        )
        return None
    _check_level(sheet, inventory, variable, flow)
    _check_place(sheet, inventory, name, flow, known)
    if role.kind == "classic":
        _check_targets(sheet, inventory, flow, known, topics)
    return limits(sheet, inventory, name, flow, known, topics, target_prefix(role.kind, flow))


def _check_level(sheet: Sheet, inventory: Inventory, variable: str, flow: MirrorFlow) -> None:
    """Batches wait for as long as the budget lets them, under any load."""
    wanted = (service_levels(inventory).get("mirror") or {}).get("delay_p99_ms")
    if isinstance(wanted, int | float) and flow.latency_budget_ms > wanted:
        sheet.warning(
            "mirror.latency",
            f"{variable}.latency_budget_ms is {flow.latency_budget_ms}, and "
            f"service_levels.mirror.delay_p99_ms allows {wanted:g} ms",
            f"set it to {wanted:g}, since records wait for their batch to fill within it",
            variable=f"{variable}.latency_budget_ms",
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
    for host in inventory.group(ROLE):
        variables = inventory.hosts[host]
        own = variables.get("data_center")
        if wanted and own and own != wanted and name in variables.get("mirror_maker_flows", {}):
            sheet.warning(
                "mirror.direction",
                f"mirror_maker_flows.{name}.direction is {flow.direction}, so its hosts belong beside "
                f"cluster {end} in {wanted}; {host} is in {own}",
                f"move the host, or set direction to {'pull' if flow.direction == 'push' else 'push'}",
            )
