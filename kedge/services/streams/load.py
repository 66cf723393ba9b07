"""What a load through Streams applications is: what feeds them, and what is asked of that. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from kedge.plan.document import planned_instances, planned_value
from kedge.plan.hosts import Inventory
from kedge.plan.service import LoadTest, instances_of_each
from kedge.services.streams.changelogs import needs
from kedge.services.streams.planner import SERVICE
from kedge.services.streams.variables import streams_apps


def applications_json(inventory: Inventory) -> dict[str, dict[str, Any]]:
    """Return by name where each application runs, what it makes of a record, and what its changelogs keep."""
    return {
        spec.name: {
            "cluster": spec.cluster,
            "exactly_once": spec.exactly_once,
            "delivery": spec.delivery.model_dump() if spec.delivery else None,
            "changelogs": asdict(needs(spec)),
        }
        for spec in streams_apps(inventory)[0].values()
    }


def applications(plan: Mapping[str, Any], load: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``applications`` of load.json: instances, and input and output of those that the load feeds."""
    loaded = {part["topic"] for part in (load["kafka"], load["rest"]) if part}
    found = []
    for name, about in plan.get("applications", {}).items():
        instances = [
            {"host": host, "instance": instance["name"]}
            for host in plan["hosts"]
            for instance in planned_instances(plan, host, SERVICE)
            if planned_value(instance, "application.id") == name
        ]
        app = {"name": name, "instances": instances, "exactly_once": about["exactly_once"]}
        due = about["delivery"]
        if due and about["cluster"] == load["cluster"] and due["input"] in loaded:
            ends = {end: {"cluster": load["cluster"], "topic": due[end]} for end in ("input", "output")}
            app |= ends | {"per_record": due["per_record"]}
        found.append(app)
    return {"applications": found}


def _fed(load: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    return (one for one in load.get("applications", ()) if one.get("input"))


def _takes(load: Mapping[str, Any], host: str, instance: str) -> bool:
    return {"host": host, "instance": instance} in [one for app in _fed(load) for one in app["instances"]]


def _measured(
    _: Mapping[str, Any], name: str, rows: Sequence[Mapping[str, Any]], hosts: Mapping[str, Sequence[str]]
) -> dict[str, Any]:
    version = next((row["version"] for row in rows if row.get("distribution") == name), "")
    return {"version": version, "name": name, "instances_per_host": instances_of_each(hosts)}


LOAD_TEST: Final = LoadTest(
    level="outputs.p99_ms",
    bounded=lambda levels: levels.outputs.p99_ms is not None,
    figure="latency_p99_ms",
    axis="p99 until the last output of a record, ms",
    one="application",
    through=lambda load: {one["name"] for one in _fed(load)},
    takes=_takes,
    measured=_measured,
)
