"""Mirrors that flows take over from: how they are named, whose processes they are, what a deploy asks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from kedge.plan.document import planned_instances
from kedge.plan.findings import Finding
from kedge.plan.hosts import Inventory
from kedge.plan.variable_messages import wrong_variable
from kedge.services.mirror.flow import UNIT, flow_of
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


#: The main class of a process by its kind.
MAINS: Final[Mapping[str, str]] = {
    "classic": "kafka.tools.MirrorMaker",
    "mirror_maker_2": "org.apache.kafka.connect.mirror.MirrorMaker",
}
_KINDS: Final = {main: kind for kind, main in MAINS.items()}


def adopted(plan: Mapping[str, Any], host: str) -> list[Mapping[str, Any]]:
    """Return the processes of a host from which flows take over."""
    adopting = plan.get("adopting", ())
    return [process for one in adopting for process in one["processes"] if process["host"] == host]


def mirrors_adopted(plan: Mapping[str, Any], host: str) -> dict[str, Any]:
    """Return instance name to a process of the mirror from which its flow takes over on the host."""
    return {
        str(instance["name"]): process
        for one in plan.get("adopting", ())
        for process in one["processes"][::-1]  # of several the first is named
        if process["host"] == host
        for instance in planned_instances(plan, host, ROLE)
        if flow_of(instance["name"]) == one["flow"]
    }


def adopting_hosts(plan: Mapping[str, Any], flows: Iterable[str] | None = None) -> list[dict[str, Any]]:
    """Return the hosts of flows that take over, of all or of those named: flow, host and its processes."""
    found = []
    for one in plan.get("adopting", ()):
        flow = one["flow"]
        if flows is not None and flow not in flows:
            continue
        theirs = [process["host"] for process in one["processes"]]
        planned = {host: planned_instances(plan, host, ROLE) for host in plan["hosts"]}
        ours = [h for h, has in planned.items() if any(flow_of(i["name"]) == flow for i in has)]
        for host in dict.fromkeys([*theirs, *ours]):
            processes = [process for process in one["processes"] if process["host"] == host]
            found.append({"flow": flow, "host": host, "processes": processes})
    return found


def adoptions(plan: Mapping[str, Any], seen: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return of each flow that takes over what is to be done, by what its hosts answered.

    ``seen`` are results of kedge_predecessor, of an ``item`` of ``adopting_hosts`` each. ``due``: there is
    something to take over, or nothing of the flow runs yet. ``runs``: the processes that run, as HOST NAME;
    ``wrong``: why a deploy must not begin; ``unknown``: what nobody knows, and why.
    """
    answers: dict[str, list[Mapping[str, Any]]] = {one["flow"]: [] for one in plan.get("adopting", ())}
    for answer in seen:
        answers.setdefault(answer["item"]["flow"], []).append(answer)
    return {one["flow"]: _adoption(one, answers[one["flow"]]) for one in plan.get("adopting", ())}


def _adoption(one: Mapping[str, Any], answers: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    where = f"{ROLE}_adopt.{one['flow']}"
    runs, ours, wrong, unknown, taking = [], [], [], [], False
    for answer in answers:
        host = answer["item"]["host"]
        if "processes" not in answer:
            unknown.append(f"{host} does not say what runs there: {answer.get('msg', 'no answer')}")
            continue
        taking = taking or answer["taking"]
        ours += [f"{host} mirror-maker@{name}" for name in answer["ours"]]
        for process in answer["processes"]:
            runs += [f"{host} {process['name']}"] if process["runs"] else []
            if not process["there"]:
                wrong.append(
                    f"{host} has no unit {process['name']} ({where}.processes): write the one it has"
                )
            kinds = {_KINDS[main] for main in process["mains"] if main in _KINDS}
            if kinds - {one["kind"]}:
                wrong.append(
                    f"{process['name']} of {host} is a MirrorMaker of the kind {', '.join(sorted(kinds))}, "
                    f"and {where} names positions of {one['kind']}: give group for classic, "
                    "offsets_topic for mirror_maker_2, and the same mirror_maker_kind"
                )
    if runs and ours:
        wrong.append(
            f"{', '.join(runs)} and {', '.join(ours)} run together and copy every record twice ({where}): "
            f"stop and disable {', '.join(runs)}, which is not needed any more"
        )
    due = bool(answers) and (bool(runs) or taking or not (ours or unknown))
    return {"due": due, "runs": runs, "started": bool(ours), "wrong": wrong, "unknown": unknown}
