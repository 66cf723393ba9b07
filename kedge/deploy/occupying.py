"""What planned services take of a host that somebody else may have; mirrors that are taken over. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from kedge.deploy.planned import planned_instances
from kedge.review.kinds import MIRROR_MAINS, SIGNS
from kedge.services.mirror.flow import flow_of
from kedge.services.rest.distributions import DISTRIBUTIONS

#: Services whose instances have no port of their own.
_UNITS: Final = ("mirror_maker", "streams_app")
#: The main classes of the processes of a service, whoever starts them.
_MAINS: Final = {
    "kafka_rest": sorted({signs.main for name, signs in SIGNS.items() if not DISTRIBUTIONS[name].fleet_only}),
    "mirror_maker": list(MIRROR_MAINS.values()),
}
_KINDS: Final = {MIRROR_MAINS["classic"]: "classic", MIRROR_MAINS["mm2"]: "mirror_maker_2"}


def occupying(plan: Mapping[str, Any], host: str) -> list[dict[str, Any]]:
    """Return what the planned services of a host take of it: units, users, folders, ports, kinds of process.

    What a vendor's own tool runs is not looked at: it would be there before the first deploy.
    """
    found = []
    for service, of_service in plan["hosts"].get(host, {}).get("services", {}).items():
        instances = of_service["instances"]
        if not any(instance.get("port") or service in _UNITS for instance in instances):
            continue
        software: Mapping[str, Any] = next((i["software"] for i in instances if "software" in i), {})
        controlled = {i["name"] for i in instances if "control" in i.get("software", {})}
        unit = service.replace("_", "-")
        found.append(
            {
                "unit": unit,
                "user": software.get("user", unit) if software.get("own_user", True) else "",
                "mains": [] if controlled else _MAINS.get(service, []),
                "instances": [
                    {"name": i["name"], "port": None if i["name"] in controlled else i.get("port")}
                    | ({"adopt": i["software"]["adopt"]} if "adopt" in i.get("software", {}) else {})
                    for i in instances
                ],
            }
            | ({"adopts": adopts} if (adopts := _adopted(plan, host)) and service == "mirror_maker" else {})
        )
    return found


def _adopted(plan: Mapping[str, Any], host: str) -> list[Mapping[str, Any]]:
    adopting = plan.get("adopting", ())
    return [process for one in adopting for process in one["processes"] if process["host"] == host]


def mirrors_adopted(plan: Mapping[str, Any], host: str) -> dict[str, Any]:
    """Return instance name to a process of the mirror from which its flow takes over on the host."""
    return {
        str(instance["name"]): process
        for one in plan.get("adopting", ())
        for process in one["processes"][::-1]  # of several the first is named
        if process["host"] == host
        for instance in planned_instances(plan, host, "mirror_maker")
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
        planned = {host: planned_instances(plan, host, "mirror_maker") for host in plan["hosts"]}
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
    where = f"mirror_maker_adopt.{one['flow']}"
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
