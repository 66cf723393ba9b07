"""The sandbox of this kit, which stands in for kafka-rest 8.3 on local fleets."""

from __future__ import annotations

from typing import Final

from kedge.plan.settings import Sheet
from kedge.services.rest.distribution import (
    Distribution,
    Groups,
    Java,
    RestProcess,
    Signs,
    Software,
    Versions,
)
from kedge.services.rest.kafka_rest import ENVIRONMENT, JVM, Build, catalogue, plan_kafka_rest

_FACTS: Final = "REST proxy facts"


def _plan(sheet: Sheet, process: RestProcess) -> None:
    plan_kafka_rest(sheet, process, Build(deprecates_host_name=False))


SANDBOX: Final = Distribution(
    name="sandbox",
    title="the sandbox",
    versions=Versions((1, 0), (2,), "1.x"),
    plan=_plan,
    software=Software(("archive",), built_here=True),
    keys=catalogue(lambda _: "8.3", lambda _: "4.3"),
    java=lambda _: Java(17, _FACTS),
    groups=Groups(
        (1, 0),
        "its clients are those of Kafka 4.3",
        _FACTS,
        "a third more processor time of the proxy a record",
    ),
    jvm=JVM,
    environment=ENVIRONMENT,
    clients=lambda _: "4.3",
    fleet_only=True,
    signs=Signs(
        "Kedge's sandbox, a stub of kafka-rest",
        ("1.0.0",),
        r"io\.kedge\.sandbox\.SandboxRestMain",
        "io.kedge.sandbox.SandboxRestMain",
    ),
)
