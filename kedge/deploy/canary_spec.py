"""What a canary's host gets beside its settings: loads of its turns, through what the plan has. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from kedge.deploy.load_spec import load_spec
from kedge.plan.document import planned_instances
from kedge.services.canary.loads import SERVICE

#: Keys of clients that name files of the control machine, or what the canary has not.
_NOT_ITS_OWN = ("ssl.certificate.location", "ssl.key.location", "https.ca.location")


def with_canary_loads(plan: Mapping[str, Any], host: str) -> list[dict[str, Any]]:
    """Return the planned canaries of a host, each with its loads.json as one more setting.

    Raises:
        ValueError: with what keeps a load from the proxies.
    """
    return [_with_loads(plan, one) for one in planned_instances(plan, host, SERVICE)]


def canary_parts(plan: Mapping[str, Any], cluster: str) -> list[Mapping[str, Any]]:
    """Return what the planned canaries send to a cluster: topic and group of each turn and way."""
    return [
        part
        for host in plan.get("hosts", ())
        for instance in planned_instances(plan, host, SERVICE)
        for load in instance["software"]["loads"]
        for part in (load["kafka"], load.get("rest"))
        if part and load["cluster"] == cluster
    ]


def _with_loads(plan: Mapping[str, Any], instance: Mapping[str, Any]) -> dict[str, Any]:
    about = instance["software"]
    loads = [_load(plan, verify) for verify in about["loads"]]
    document = {"loads": loads, "levels": about["levels"], "steady": about["steady"]}
    row = {
        "file": f"/etc/{SERVICE}/{instance['name']}/loads.json",
        "key": "loads",
        "value": json.dumps(document, sort_keys=True),
        "rule": "canary.window",
        "because": "what is sent through what the plan has",
        "source": "the inventory",
        "sources": ["inventory"],
        "basis": "derived",
        "by": "plan",
    }
    return {**instance, "settings": [*instance["settings"], row]}


def _load(plan: Mapping[str, Any], verify: Mapping[str, Any]) -> dict[str, Any]:
    load = load_spec(verify, plan, "set by the canary")
    own = verify.get("client", {})
    load["client"] = {**{k: v for k, v in load["client"].items() if k not in _NOT_ITS_OWN}, **own}
    # It has no login on clusters that ask for one, but on its own.
    load["clusters"] = {name: one for name, one in load["clusters"].items() if not one.get("client")}
    reached = {load["cluster"], *load["clusters"]}
    load["mirrors"] = [one for one in load["mirrors"] if one["target"]["cluster"] in reached]
    # It feeds none, and what it would say of their memory only their hosts know.
    load["applications"] = [one for one in load["applications"] if one.get("input")]
    return load
