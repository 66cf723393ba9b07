"""The record of the canary."""

from __future__ import annotations

from typing import Final

from kedge.plan.jvm_flags import JAVA_FACTS
from kedge.plan.restart_waits import ready
from kedge.plan.service import JavaNeed, Ports, Service, own_clusters
from kedge.services.canary.loads import OF_ROLE, SERVICE
from kedge.services.canary.planner import plan_canaries
from kedge.services.canary.variables import Canary
from kedge.services.rest.distribution import SERVICE as REST

CANARY: Final = Service(
    name=SERVICE,
    variables=Canary,
    of_role=OF_ROLE,
    plan=lambda given: plan_canaries(given.inventory, given.parts[REST]),
    clusters=own_clusters(SERVICE),
    java=lambda *_: JavaNeed(17, "PySpark 4, with which the canary is audited", JAVA_FACTS),
    ports=Ports(f"{SERVICE}_port"),
    memory=f"{SERVICE}_memory_mib",
    waits=(
        ready(
            "an estimate: its processes start, and its consumers are assigned partitions",
            "Kafka documentation, Consumer Rebalance Protocol",
            "estimate",
        ),
    ),
    idle=lambda *_: (
        "no load goes through a canary",
        "write the service whose restart is to be verified",
    ),
)
