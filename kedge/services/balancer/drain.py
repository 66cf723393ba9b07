"""How long a balancer drains an instance before its restart (the drain: plugins/modules/haproxy_drain.py)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from kedge.plan.document import planned_instances, planned_rollout
from kedge.plan.service import PlannedInstances
from kedge.plan.settings import Setting
from kedge.services.balancer.planner import SERVICE
from kedge.services.balancer.timeouts import OBSERVED, longest_poll_ms, longest_request_s, proxies_of


def drain_settings(services: PlannedInstances) -> tuple[Setting, ...]:
    """Return how long a balancer drains an instance: ``drain_seconds``, then ``finish_seconds``."""
    instances = proxies_of(services)
    polls, longest = longest_poll_ms(instances), str(longest_request_s(instances))
    why = (
        f"a read in flight ends within {polls} ms; from then on consumers of the instance get 503, "
        "for they would go on asking"
    )
    last = f"no request in flight is older than {longest} s: the balancer has given it up"
    drain = str(math.ceil(polls / 1000) + 1)
    return (
        Setting("", "drain_seconds", drain, "rollout.drain", why, OBSERVED, "estimate"),
        Setting("", "finish_seconds", longest, "rollout.drain", last, OBSERVED, "derived"),
    )


def draining_balancers(plan: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the planned balancers: host, and the seconds that a drain of theirs and its end may take."""
    return [
        {"host": host, "drain": waits["drain_seconds"], "finish": waits["finish_seconds"]}
        for host in plan["hosts"]
        if planned_instances(plan, host, SERVICE)
        for waits in [planned_rollout(plan, host, SERVICE)]
    ]
