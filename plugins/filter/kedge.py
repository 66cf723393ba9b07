"""Reads values out of a plan, so that no role looks for them by itself."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

# The kit's packages lie beside its plugins; Ansible puts neither on the path.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from sizing.broker import cluster_id
from sizing.mirror_flows import FlowFacts


def planned_instances(plan: Mapping[str, Any], host: str, service: str) -> list[Mapping[str, Any]]:
    """Return the instances of a service on a host; none where the plan has none."""
    found: list[Mapping[str, Any]] = (
        plan["hosts"].get(host, {}).get("services", {}).get(service, {}).get("instances", [])
    )
    return found


def planned_value(instance: Mapping[str, Any], key: str) -> str:
    """Return the planned value of a key of an instance.

    Raises:
        KeyError: when the plan has no such key; the message names it.
    """
    for setting in instance["settings"]:
        if setting["key"] == key:
            return str(setting["value"])
    message = f"the plan of instance {instance['name']} has no {key}"
    raise KeyError(message)


def named(instances: Iterable[Mapping[str, Any]], names: Iterable[str]) -> list[Mapping[str, Any]]:
    """Return the instances with these names, in the plan's order."""
    wanted = set(names)
    return [i for i in instances if i["name"] in wanted]


def http_produce_probe(instance: Mapping[str, Any], address: str, topic: str) -> dict[str, str]:
    """Return the probe that asks a REST instance for an offset."""
    return {"kind": "http_produce", "url": f"http://{address}:{instance['port']}", "topic": topic}


def state_file_probe(instance: Mapping[str, Any]) -> dict[str, Any]:
    """Return the probe that waits until an application tells in its file that it runs."""
    path = planned_value(instance, "KEDGE_STATE_FILE")
    return {"kind": "state_file", "path": path, "unit": f"streams-app@{instance['name']}", "state": "RUNNING"}


def staged_release(staged: Mapping[str, Any], name: str) -> str | None:
    """Return the release that a deploy staged for an instance; None where nothing was staged in this run."""
    return next((str(i["release"]) for i in staged.get("instances", []) if i["name"] == name), None)


def topics_that_may_grow(topics: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the topics of which the inventory says that their keys allow more partitions."""
    return [str(t["name"]) for t in topics if t.get("keys_may_move")]


def load_spec(
    verify: Mapping[str, Any], plan: Mapping[str, Any], run_id: str, balancers: Iterable[str]
) -> dict[str, Any]:
    """Return the load of a run (load.json) from the inventory's ``verify`` and the plan.

    REST clients go to the first planned balancer, unless ``verify.rest.url`` names another place.

    Raises:
        ValueError: when there is neither.
    """
    spec = {"client": {}, "kafka": None, "rest": None, **verify, "run_id": run_id}
    spec["bootstrap_servers"] = plan["clusters"][verify["cluster"]]["bootstrap_servers"]
    spec["mirrors"] = mirrors_of(plan, spec)
    others = {mirror["target"]["cluster"] for mirror in spec["mirrors"]} - {verify["cluster"]}
    spec["clusters"] = {
        name: {"bootstrap_servers": plan["clusters"][name]["bootstrap_servers"]} for name in sorted(others)
    }
    if spec["rest"] and "url" not in spec["rest"]:
        planned = [i for b in balancers for i in planned_instances(plan, b, "rest_balancer")]
        if not planned:
            message = "verify.rest: no balancer is planned; say in verify.rest.url where REST clients go"
            raise ValueError(message)
        spec["rest"] = {**spec["rest"], "url": f"http://{planned_value(planned[0], 'bind')}"}
    return spec


def mirrors_of(plan: Mapping[str, Any], load: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what copies the topics of a load: flow, source, target and the flow's group on the source."""
    found = []
    for name, flow in plan.get("flows", {}).items():
        facts = FlowFacts(**{**flow, "topics": tuple(flow["topics"])})
        for part in (load["kafka"], load["rest"]):
            copy = facts.copy_of(part["topic"]) if part and facts.source == load["cluster"] else None
            if copy:
                source = {"cluster": facts.source, "topic": part["topic"]}
                target = {"cluster": facts.target, "topic": copy}
                found.append({"flow": name, "source": source, "target": target, "group": facts.group})
    return found


class FilterModule:
    """The filters of the kit."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return name to filter."""
        return {
            "planned_instances": planned_instances,
            "planned_value": planned_value,
            "named": named,
            "http_produce_probe": http_produce_probe,
            "state_file_probe": state_file_probe,
            "load_spec": load_spec,
            "staged_release": staged_release,
            "topics_that_may_grow": topics_that_may_grow,
            "cluster_id": cluster_id,
        }
