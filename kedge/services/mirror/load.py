"""What a load through mirrors is: the topics that they copy, and what is asked of that. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from kedge.evidence.levels import Levels
from kedge.plan.document import planned_instances, reached
from kedge.plan.service import LoadTest
from kedge.services.mirror.flow import flow_of
from kedge.services.mirror.planner import SERVICE
from kedge.services.mirror.topics_and_groups import FlowFacts


def mirrored(plan: Mapping[str, Any], load: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``mirrors`` of load.json, what copies the topics of the load, and ``clusters`` it copies to."""
    found = []
    for name, flow in plan.get("flows", {}).items():
        facts = FlowFacts(**{**flow, "topics": tuple(flow["topics"])})
        for part in (load["kafka"], load["rest"]):
            copy = facts.copy_of(part["topic"]) if part and facts.source == load["cluster"] else None
            if copy:
                source = {"cluster": facts.source, "topic": part["topic"]}
                target = {"cluster": facts.target, "topic": copy}
                mirror = {"flow": name, "source": source, "target": target, "group": facts.group}
                found.append(mirror | _planned_of_flow(plan, name))
    others = {mirror["target"]["cluster"] for mirror in found} - {load["cluster"]}
    return {"mirrors": found, "clusters": {name: reached(plan, name) for name in sorted(others)}}


def _planned_of_flow(plan: Mapping[str, Any], flow: str) -> dict[str, Any]:
    """Return what an audit holds a flow to: its batches, their codec, whether it promises exactly once."""
    processes = (
        instance
        for host in plan["hosts"]
        for instance in planned_instances(plan, host, SERVICE)
        if flow_of(instance["name"]) == flow
    )
    settings = {s["key"]: s["value"] for s in next(processes, {"settings": []})["settings"]}
    batch = [int(value) for key, value in settings.items() if key.split(".producer.")[-1] == "batch.size"]
    exactly = any(k.endswith("exactly.once.source.support") and v == "enabled" for k, v in settings.items())
    codec = next((v for k, v in settings.items() if k.endswith("compression.type")), "")
    return {"batch_bytes": batch[0], "codec": codec, "exactly_once": exactly} if batch else {}


def _flows(load: Mapping[str, Any]) -> set[str]:
    return {one["flow"] for one in load.get("mirrors", ())}


def _measured(
    _: Mapping[str, Any],
    flow: str,
    rows: Sequence[Mapping[str, Any]],
    hosts: Mapping[str, Sequence[str]],
) -> dict[str, Any]:
    row = next(iter(rows), {})
    kind, version = row.get("distribution", ""), row.get("version", "")
    return {"version": version, "flow": flow, "kind": kind, "processes": sum(map(len, hosts.values()))}


def _bounded(levels: Levels) -> bool:
    return any(value is not None and ("delay" in name or "lag" in name) for name, value in levels.mirror)


LOAD_TEST: Final = LoadTest(
    level="mirror.delay_p99_ms",
    bounded=_bounded,
    figure="delay_p99_ms",
    axis="p99 until a record is copied, ms",
    one="flow",
    through=_flows,
    takes=lambda load, _, instance: flow_of(instance) in _flows(load),
    measured=_measured,
)
