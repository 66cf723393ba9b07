"""The record of the balancers before the REST proxies."""

from __future__ import annotations

from typing import Final

from kedge.plan.service import Away, Ports, Service, ready
from kedge.services.balancer.notices import ALLOWED, notices
from kedge.services.balancer.planner import SERVICE, plan_balancers
from kedge.services.balancer.timeouts import drain_settings
from kedge.services.balancer.variables import RestBalancer
from kedge.services.rest.distribution import SERVICE as REST

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
    notices=notices,
    allowed=ALLOWED,
)
