"""Mirrors that flows take over from: whose processes they are, and whether a deploy may begin. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from kedge.plan.document import planned_instances
from kedge.services.mirror.flow import flow_of
from kedge.services.mirror.planner import SERVICE

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
        for instance in planned_instances(plan, host, SERVICE)
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
        planned = {host: planned_instances(plan, host, SERVICE) for host in plan["hosts"]}
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
    where = f"{SERVICE}_adopt.{one['flow']}"
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
