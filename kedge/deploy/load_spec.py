"""The load of a run (load.json), made of ``verify`` and the plan, and how long it may take. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

from kedge.evidence.load_options import LoadSpec, RestLoad
from kedge.plan.document import planned_instances, planned_value, reached
from kedge.plan.hosts import in_url
from kedge.plan.inventory.secrets import public
from kedge.services.mirror.flow import flow_of
from kedge.services.mirror.topics_and_groups import FlowFacts

#: How long processes of a load may take to start beyond its warm-up, and to end beyond its own time limits.
_START_SECONDS: Final = 90
_END_SECONDS: Final = 200


def load_spec(
    verify: Mapping[str, Any],
    plan: Mapping[str, Any],
    run_id: str,
    balancers: Iterable[str],
    generators: Iterable[str] = (),
) -> dict[str, Any]:
    """Return the load of a run (load.json) from the inventory's ``verify`` and the plan.

    REST clients go to the first planned balancer, unless ``verify.rest.url`` names another place. They speak
    the dialect of the planned proxies, unless ``verify.rest.dialect`` has another, and follow them alone to
    where consumers are made, unless ``verify.rest.proxies`` names others. ``generators`` make the
    load; the control machine does where there are none.

    Raises:
        ValueError: when there is neither, or proxies of several dialects.
    """
    # load.json is kept with the run; passwords reach the load by its environment.
    verify = public(verify)
    spec = {"kafka": None, "rest": None, **verify, "run_id": run_id, "generators": list(generators)}
    spec |= reached(plan, verify["cluster"])
    spec["client"] = {**spec.get("client", {}), **verify.get("client", {})}
    spec["mirrors"] = _mirrors_of(plan, spec)
    spec["applications"] = _applications_of(plan, spec)
    others = {mirror["target"]["cluster"] for mirror in spec["mirrors"]} - {verify["cluster"]}
    spec["clusters"] = {name: reached(plan, name) for name in sorted(others)}
    if spec["rest"] and "url" not in spec["rest"]:
        planned = [i for b in balancers for i in planned_instances(plan, b, "rest_balancer")]
        if not planned:
            message = (
                "verify.rest: no balancer is planned. No load was started. Set verify.rest.url to where REST "
                "clients go, then run the playbook again"
            )
            raise ValueError(message)
        tls = any(s["key"] == "bind options" for s in planned[0]["settings"])
        address = planned_value(planned[0], "address")
        spec["rest"] = {**spec["rest"], "url": f"{'https' if tls else 'http'}://{address}"}
    if spec["rest"] and "proxies" not in spec["rest"] and (proxies := _proxies(plan)):
        spec["rest"] = {**spec["rest"], "proxies": proxies}
    if spec["rest"] and spec["rest"].get("come_home") and _proxies(plan) == [spec["rest"]["url"]]:
        message = (
            "verify.rest.come_home: consumers go through the balancer, and have no proxy to return "
            "to. No load was started. Take it out, or write kafka_rest_consumers_via: instance"
        )
        raise ValueError(message)
    if spec["rest"] and (dialect := spec["rest"].get("dialect") or _dialect(plan)):
        spec["rest"] = {**spec["rest"], "dialect": dialect}
    return spec


def load_option(verify: Mapping[str, Any], name: str) -> Any:
    """Return an option of ``verify``; its default where the inventory does not set it."""
    return verify.get(name, LoadSpec.model_fields[name].default)


def load_seconds(verify: Mapping[str, Any], phase: Literal["running", "done"]) -> float:
    """Return within how many seconds a load of ``verify`` is in a phase, unless something is wrong."""

    def given(name: str) -> float:
        return float(load_option(verify, name))

    if phase == "running":
        return given("warm_up_s") + _START_SECONDS
    name = "request_timeout_s"
    request = (verify.get("rest") or {}).get(name, RestLoad.model_fields[name].default)
    return given("max_s") + given("drain_s") + float(request) + _END_SECONDS


def _proxies(plan: Mapping[str, Any]) -> list[str]:
    """Return the URLs by which the planned proxies tell consumers to come back, without paths."""
    found = set()
    for host in plan["hosts"]:
        for instance in planned_instances(plan, host, "kafka_rest"):
            settings = {s["key"]: str(s["value"]) for s in instance["settings"]}
            found |= set(re.findall(r"https?://[^\s,/?#@]+", settings.get("advertised.listeners", "")))
            if name := settings.get("host.name"):
                scheme = "https" if instance["software"]["tls"] else "http"
                found.add(f"{scheme}://{in_url(name)}:{instance['port']}")
    return sorted(found)


def _dialect(plan: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what is otherwise in the planned proxies' dialect than in kafka-rest's; empty for nothing."""
    found: list[Mapping[str, Any]] = []
    for host in plan["hosts"]:
        for instance in planned_instances(plan, host, "kafka_rest"):
            if (dialect := instance["software"].get("dialect", {})) not in found:
                found.append(dialect)
    if len(found) > 1:
        message = (
            "verify.rest: proxies of several dialects are planned. No load was started. Set "
            "verify.rest.dialect to one of them, then run the playbook again"
        )
        raise ValueError(message)
    return found[0] if found else {}


def _mirrors_of(plan: Mapping[str, Any], load: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what copies the topics of a load: flow, source, target and the flow's group on the source."""
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
    return found


def _planned_of_flow(plan: Mapping[str, Any], flow: str) -> dict[str, Any]:
    """Return what an audit holds a flow to: its batches, their codec, whether it promises exactly once."""
    processes = (
        instance
        for host in plan["hosts"].values()
        for instance in host.get("services", {}).get("mirror_maker", {}).get("instances", ())
        if flow_of(instance["name"]) == flow
    )
    settings = {s["key"]: s["value"] for s in next(processes, {"settings": []})["settings"]}
    batch = [int(value) for key, value in settings.items() if key.split(".producer.")[-1] == "batch.size"]
    exactly = any(k.endswith("exactly.once.source.support") and v == "enabled" for k, v in settings.items())
    codec = next((v for k, v in settings.items() if k.endswith("compression.type")), "")
    return {"batch_bytes": batch[0], "codec": codec, "exactly_once": exactly} if batch else {}


def _applications_of(plan: Mapping[str, Any], load: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the planned applications: their instances, and input and output where the load feeds them."""
    loaded = {part["topic"] for part in (load["kafka"], load["rest"]) if part}
    found = []
    for name, about in plan.get("applications", {}).items():
        instances = [
            {"host": host, "instance": instance["name"]}
            for host in plan["hosts"]
            for instance in planned_instances(plan, host, "streams_app")
            if planned_value(instance, "application.id") == name
        ]
        app = {"name": name, "instances": instances, "exactly_once": about["exactly_once"]}
        due = about["delivery"]
        if due and about["cluster"] == load["cluster"] and due["input"] in loaded:
            ends = {end: {"cluster": load["cluster"], "topic": due[end]} for end in ("input", "output")}
            app |= ends | {"per_record": due["per_record"]}
        found.append(app)
    return found
