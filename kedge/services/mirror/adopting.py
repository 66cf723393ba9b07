"""Mirrors that flows take over from: what is wrong with how they are named, and what a deploy has to know."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kedge.plan.findings import Finding
from kedge.plan.hosts import Inventory
from kedge.plan.variable_messages import wrong_variable
from kedge.services.mirror.flow import UNIT
from kedge.services.mirror.topics_and_groups import FlowFacts, consumer_group, flow_facts, offsets_topic
from kedge.services.mirror.variables import ROLE, AdoptedMirror, MirrorFlow, MirrorMaker, mirror_makers


def check_adopted(inventory: Inventory, role: MirrorMaker) -> Iterator[Finding]:
    """Find what is named and cannot be taken over."""
    facts, specs = flow_facts(inventory), _flows(inventory)
    for flow, adopted in role.adopt.items():
        where = f"{ROLE}_adopt.{flow}"
        if flow not in facts:
            known = ", ".join(sorted(facts))
            yield wrong_variable(where, ROLE, "names no flow", f"use one of {known}, of {ROLE}_flows")
            continue
        yield from _positions(where, flow, adopted, role, facts[flow], specs[flow])
        named: dict[tuple[str, str | None], str] = {}
        for number, process in enumerate(adopted.processes):
            at = f"{where}.processes[{number}]"
            if process.host not in inventory.hosts:
                what = f"is {process.host!r}, which is no host of the inventory"
                yield wrong_variable(f"{at}.host", ROLE, what, "write a host as the inventory names it")
            if (process.unit or "").startswith(f"{UNIT}@"):
                yield wrong_variable(
                    f"{at}.unit", ROLE, f"is {process.unit}, a process of Kedge's", "name its predecessor"
                )
            other = named.setdefault((process.host, process.unit or process.holder), at)
            if other != at:
                yield wrong_variable(at, ROLE, f"is the process of {other} too", "name each process once")


def _positions(
    where: str, flow: str, adopted: AdoptedMirror, role: MirrorMaker, facts: FlowFacts, spec: MirrorFlow
) -> Iterator[Finding]:
    if adopted.kind != role.kind:
        named = "offsets_topic, of a MirrorMaker 2" if adopted.offsets_topic else "group, of a classic one"
        version = f" and {ROLE}_version: 3.9.2" if adopted.kind == "classic" else ""
        yield wrong_variable(
            where,
            ROLE,
            f"names {named}, and {ROLE}_kind is {role.kind}",
            f"take it over with {ROLE}_kind: {adopted.kind}{version}; docs/mirror.md says how a flow changes "
            "its kind afterwards",
        )
        return
    given = adopting(flow, adopted, facts, spec)
    same = [
        (f"{where}.group", given["group"], given["into"]),
        (f"{where}.offsets_topic", given["offsets_topic"], given["own_offsets"]),
    ]
    for name, theirs, ours in same:
        if theirs and theirs == ours:
            yield wrong_variable(
                name,
                ROLE,
                f"is {theirs}, which flow {flow} uses itself: after a failure nobody could go back to the "
                "positions of its predecessor",
                f"take it out of the settings of flow {flow}, which then has one of its own",
            )


def adopting(flow: str, adopted: AdoptedMirror, facts: FlowFacts, spec: MirrorFlow) -> dict[str, Any]:
    """Return what a deploy has to know of a mirror that a flow takes over from.

    ``into`` is the group on the source at whose positions the flow begins, ``own_offsets`` the topic of
    MirrorMaker 2 that counts before it.
    """
    group = f"{facts.source}.consumer.group.id"
    own = spec.settings.get(group, spec.consumer_settings.get("group.id", consumer_group(flow)))
    topic = spec.settings.get("offset.storage.topic", offsets_topic(flow))
    return {
        "flow": flow,
        "kind": adopted.kind,
        "group": adopted.group or "",
        "offsets_topic": adopted.offsets_topic or "",
        "offset_reset": adopted.offset_reset or "",
        "leave_out": adopted.leave_out,
        "processes": [p.model_dump(exclude_defaults=True) for p in adopted.processes],
        "source": facts.source,
        "target": facts.target,
        "topics": list(facts.topics),
        "into": str(facts.group or own),
        "own_offsets": str(topic) if facts.offsets_topic else "",
    }


def adopting_json(inventory: Inventory) -> list[Mapping[str, Any]]:
    """Return the mirrors that flows take over from, as the plan's JSON has them.

    ``beside`` are the topics of other flows that take over from the same mirror.
    """
    facts, specs = flow_facts(inventory), _flows(inventory)
    roles = mirror_makers(inventory)[0].values()
    adopted = {flow: one for role in roles for flow, one in role.adopt.items() if flow in facts}
    found = [adopting(flow, one, facts[flow], specs[flow]) for flow, one in adopted.items()]

    def mirror(one: Mapping[str, Any]) -> list[Any]:
        return [one[key] for key in ("source", "target", "group", "offsets_topic")]

    return [
        one | {"beside": [t for o in found if o is not one and mirror(o) == mirror(one) for t in o["topics"]]}
        for one in found
    ]


def _flows(inventory: Inventory) -> dict[str, MirrorFlow]:
    roles = mirror_makers(inventory)[0].values()
    return {name: flow for role in roles for name, flow in role.flows.items()}
