"""Checks of what verify.yml is to do: ``verify`` and ``service_levels``, before it takes its minutes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from sizing.complaints import complaints, declare, wrong_variable
from sizing.mirror_flows import flow_facts
from sizing.model import Finding, Inventory
from sizing.workload import cluster_names
from sizing.workload_topics import topic_names
from spark_checks.levels import Levels
from verify.load.config import Load

#: What verify.yml adds to ``verify`` by itself.
_ADDED: Final = ("run_id", "bootstrap_servers", "clusters", "mirrors", "applications")
#: Services whose roles say how one instance is restarted.
RESTARTED: Final = ("kafka_broker", "kafka_rest", "mirror_maker", "rest_balancer", "streams_app")
_URL: Final = "http://the-balancer"


def check_verification(inventory: Inventory) -> Iterator[Finding]:
    """Return what is wrong with the service levels and the load; both may be left out."""
    levels = inventory.common("service_levels")
    if levels is not None:
        yield from _read(Levels, "service_levels", levels)
    verify = inventory.common("verify")
    if verify is None:
        return
    wrong = list(_read(Load, "verify", _completed(verify)))
    yield from wrong
    if isinstance(verify, Mapping):
        yield from (
            wrong_variable(f"verify.{name}", "all", "is not yours to say", "take it out: verify.yml sets it")
            for name in _ADDED
            if name in verify
        )
        yield from _names(inventory, verify)
        yield from () if wrong else _at_odds(inventory, verify)


def service_levels(inventory: Inventory) -> Mapping[str, Any]:
    """Return the service levels; none where they are wrong, of which ``check_verification`` complains."""
    levels = inventory.common("service_levels")
    return {} if levels is None or _read(Levels, "service_levels", levels) else levels


def _completed(verify: Any) -> Any:
    """Return the load with what verify.yml adds to it, for the model of load.json."""
    if not isinstance(verify, Mapping):
        return verify
    rest = verify.get("rest")
    whole = {**verify, "run_id": "set by verify.yml", "bootstrap_servers": "set by verify.yml"}
    whole |= {"clusters": {}, "mirrors": []}
    return whole | {"rest": {"url": _URL, **rest}} if isinstance(rest, Mapping) else whole


def _read(model: type[BaseModel], name: str, value: Any) -> list[Finding]:
    if not isinstance(value, Mapping):
        return [wrong_variable(name, "all", f"is {value!r}", "write a mapping")]
    try:
        model.model_validate(dict(value), strict=True)
    except ValidationError as error:
        return complaints(model, f"{name}.", "all", error.errors(include_url=False))
    return []


def _parts(verify: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {via: verify[via] for via in ("kafka", "rest") if isinstance(verify.get(via), Mapping)}


def _names(inventory: Inventory, verify: Mapping[str, Any]) -> Iterator[Finding]:
    """Hold the cluster and the topics against those that are declared."""
    cluster, clusters = verify.get("cluster"), cluster_names(inventory)
    if not isinstance(cluster, str):
        return
    if cluster not in clusters:
        fix = declare(clusters)
        yield wrong_variable("verify.cluster", "all", f"is {cluster}, which is not declared", fix)
        return
    for via, part in _parts(verify).items():
        topic = part.get("topic")
        if isinstance(topic, str) and (cluster, topic) not in topic_names(inventory):
            yield wrong_variable(
                f"verify.{via}.topic",
                "all",
                f"is {topic}, which kafka_topics does not declare for cluster {cluster}",
                "declare it there: a topic for the load alone, which writes to it without end",
            )


def _at_odds(inventory: Inventory, verify: Mapping[str, Any]) -> Iterator[Finding]:
    """Find parts of a load that contradict each other, or have nowhere to go."""
    parts = _parts(verify)
    service = verify.get("service", "kafka_rest")
    loaded = [part["topic"] for part in parts.values()]
    flows = [f for f in flow_facts(inventory).values() if f.source == verify["cluster"]]
    there = [name for name in RESTARTED if inventory.group(name)]
    if service not in there:
        said = f"is {service}" if "service" in verify else f"is missing, which means {service}"
        fix = f"write one of: {', '.join(there) or 'none, for no such service has hosts'}"
        yield wrong_variable(
            "verify.service", "all", f"{said}, and the inventory has no hosts of such a service", fix
        )
    elif service == "mirror_maker" and not any(flow.copy_of(topic) for flow in flows for topic in loaded):
        yield wrong_variable(
            "verify.service",
            "all",
            f"is mirror_maker, and no flow mirrors {', '.join(loaded)} from cluster {verify['cluster']}",
            "load a topic that one of mirror_maker_flows matches",
        )
    if not parts:
        yield wrong_variable(
            "verify", "all", "has neither kafka nor rest: there is nothing to load", "add one of them"
        )
    for key in ("topic", "group"):
        own = [part[key] for part in parts.values() if key in part]
        if len(own) > len(set(own)):
            yield wrong_variable(f"verify.rest.{key}", "all", f"is {own[0]}, as verify.kafka.{key} is",
                                 "give each its own")  # fmt: skip
    if "rest" in parts and not parts["rest"].get("url") and not inventory.group("rest_balancer"):
        yield wrong_variable(
            "verify.rest.url",
            "all",
            "is missing, and the inventory has no balancer",
            "say where REST clients go (http://host:port), or add a host to the group rest_balancer",
        )
