"""What a watch looks at (watch.json), made of ``verify.watch``, the plan and the load of the run. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from kedge.deploy.canary_spec import canary_parts
from kedge.evidence.load_options import KafkaLoad, RestLoad
from kedge.evidence.watch_options import WatchOptions
from kedge.plan.document import reached
from kedge.plan.inventory.secrets import public

#: From a watch's end until it is on disk.
_END_SECONDS: Final = 60
_START_SECONDS: Final = 90


def watch_spec(
    verify: Mapping[str, Any],
    plan: Mapping[str, Any],
    run_id: str,
    *,
    alone: bool = True,
    changing: bool = False,
) -> dict[str, Any]:
    """Return what a run watches (watch.json): topics and groups of what is planned, without kedge's own load.

    Args:
        verify: the inventory's; ``verify.watch`` names more, ``verify.client`` is a login for it.
        plan: the plan's document.
        run_id: the run.
        alone: whether no load of kedge's own runs beside it.
        changing: whether the playbook changes something meanwhile.
    """
    # watch.json is kept with the run; passwords reach the watch by its environment.
    verify = public(verify)
    own = [
        {"group": model.model_fields["group"].default, **part}
        for part, model in ((verify.get("kafka"), KafkaLoad), (verify.get("rest"), RestLoad))
        if part
    ]
    clusters = {}
    for name in plan["clusters"]:
        cluster = reached(plan, name)
        flows = [flow for flow in plan.get("flows", {}).values() if name in (flow["source"], flow["target"])]
        apps = [app for app, about in plan.get("applications", {}).items() if about["cluster"] == name]
        groups = [flow["group"] for flow in flows if flow["group"] and flow["source"] == name]
        loaded = verify.get("cluster") == name
        if loaded:
            cluster["client"] = {**cluster.get("client", {}), **verify.get("client", {})}
        mine = [*(own if loaded else ()), *canary_parts(plan, name)]
        clusters[name] = {
            **cluster,
            "topics": sorted(plan.get("topics", {}).get(name, {})),
            "groups": [*groups, *apps],
            "applications": apps,
            "own_topics": [part["topic"] for part in mine],
            "own_groups": [part["group"] for part in mine],
        }
    return {
        "run_id": run_id,
        "alone": alone,
        "changing": changing,
        "options": dict(verify.get("watch") or {}),
        "clusters": clusters,
        "members": _members(plan),
        "balancers": [balancer["host"] for balancer in plan.get("draining", ())],
    }


def watch_seconds(verify: Mapping[str, Any], phase: Literal["running", "beyond", "done"]) -> float:
    """Return within how many seconds a watch is running, or done; ``beyond`` is what is left of ``for_s``."""

    def given(name: str) -> float:
        return float((verify.get("watch") or {}).get(name, WatchOptions.model_fields[name].default))

    match phase:
        case "running":
            return given("before_s") + _START_SECONDS
        case "beyond":
            return max(0.0, given("for_s") - given("before_s"))
        case "done":
            return given("after_s") + _END_SECONDS


def _members(plan: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the addresses of the hosts of services whose processes are members of groups."""
    found: dict[str, list[str]] = {}
    for address_of in plan.get("deployed", {}).values():
        for service in address_of["services"]:
            found.setdefault(service, []).append(address_of["address"])
    return found
