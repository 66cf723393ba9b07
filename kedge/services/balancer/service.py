"""The record of the balancers before the REST proxies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kedge.plan.document import planned_instances, planned_value
from kedge.plan.restart_waits import ready
from kedge.plan.service import Away, Ports, Service
from kedge.services.balancer.drain import drain_settings
from kedge.services.balancer.notices import ALLOWED, notices
from kedge.services.balancer.planner import SERVICE, plan_balancers
from kedge.services.balancer.variables import RestBalancer
from kedge.services.rest.distribution import SERVICE as REST
from kedge.services.rest.load import proxies


def _load(plan: Mapping[str, Any], load: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``rest`` of load.json with the URL of the first balancer, where the inventory names no other."""
    rest = dict(load["rest"] or {})
    if not rest:
        return {}
    if "url" not in rest:
        planned = next((i for host in plan["hosts"] for i in planned_instances(plan, host, SERVICE)), None)
        if planned is None:
            message = (
                "verify.rest: no balancer is planned. No load was started. Set verify.rest.url to where REST "
                "clients go, then run the playbook again"
            )
            raise ValueError(message)
        tls = any(s["key"] == "bind options" for s in planned["settings"])
        rest["url"] = f"{'https' if tls else 'http'}://{planned_value(planned, 'address')}"
    if rest.get("come_home") and proxies(plan) == [rest["url"]]:
        message = (
            "verify.rest.come_home: consumers go through the balancer, and have no proxy to return "
            "to. No load was started. Take it out, or write kafka_rest_consumers_via: instance"
        )
        raise ValueError(message)
    return {"rest": rest}


REST_BALANCER: Final = Service(
    name=SERVICE,
    variables=RestBalancer,
    plan=lambda given: plan_balancers(given.inventory, given.parts[REST], given.advice),
    after=REST,
    ports=Ports(f"{SERVICE}_port", root=True),
    many_connections=True,
    away=lambda *_: Away(
        1,
        "a balancer stands in for the other",
        "HAProxy 2.6 configuration manual, peers",
        "derived",
        always=True,
    ),
    waits=(
        ready(
            "an estimate: a balancer answers immediately and sees an instance within a second; before a "
            "reload it may have to wait for 10 s until it can pass its table on",
            "HAProxy 2.6 configuration manual, peers",
            "estimate",
        ),
    ),
    drain=drain_settings,
    changes_with=(REST,),
    missed=lambda *_: "clients that go through its balancer fail while it boots",
    load=_load,
    package="HAProxy",
    notices=notices,
    allowed=ALLOWED,
)
