"""The REST proxy of Confluent: kafka-rest as it is published."""

from __future__ import annotations

from typing import Final

from kedge.plan.settings import Sheet
from kedge.plan.version_numbers import numbers
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
from kedge.services.rest.source_names import MEASURED

_FACTS: Final = "REST proxy facts"


def _plan(sheet: Sheet, process: RestProcess) -> None:
    plan_kafka_rest(sheet, process, Build(since_8=_since_8(process.variables.version)))


def _since_8(version: str) -> bool:
    return numbers(version) >= (8,)


def _clients(version: str) -> str:
    return "4.3" if _since_8(version) else "3.9"


def _java(version: str) -> Java:
    return Java(17 if _since_8(version) else 8, _FACTS)


CONFLUENT: Final = Distribution(
    name="confluent",
    title="kafka-rest",
    versions=Versions((7, 9), (9,), "7.9 and 8.x"),
    plan=_plan,
    software=Software(("archive", "package"), package="confluent-kafka-rest"),
    keys=catalogue(str, _clients),
    java=_java,
    groups=Groups(
        (8,),
        "its clients are those of Kafka 4, to which it passes the key on: tried with 8.3.1",
        f"{MEASURED}, Groups and restarts",
        "a few records come one pause of a read later; with a pause of 50 ms the median delivery was 0 to 3 "
        "ms later on one proxy, and 4 to 9 on a fleet; processor time did not differ",
        pauses=True,
    ),
    jvm=JVM,
    environment=ENVIRONMENT,
    clients=_clients,
    signs=Signs(
        "kafka-rest, Confluent's REST proxy",
        ("8.3.1", "7.9.9"),
        r"io\.confluent\.kafkarest\.KafkaRestMain|kafka-rest-start\b",
        "io.confluent.kafkarest.KafkaRestMain",
        keys=(
            "consumer.instance.timeout.ms",
            "consumer.request.max.bytes",
            "consumer.request.timeout.ms",
            "consumer.threads",
            "host.name",
            "id",
            "kafka.rest.resource.extension.class",
            "listeners",
            "thread.pool.max",
        ),
        file=r"(?i)kafka-?rest",
        images=("rest", "confluent-local"),
        plain="cp-kafka-rest",
        variables="KAFKA_REST_",
        of_image=(
            "CUB_KAFKA_MIN_BROKERS",
            "CUB_KAFKA_TIMEOUT",
            "CUB_ZK_TIMEOUT",
            "JMX_HOSTNAME",
            "LOG4J_DEFAULT_LOGGERS",
            "LOG4J_LOGGERS",
            "LOG4J_ROOT_LOGLEVEL",
        ),
        handed_on={"KAFKAREST_JMX_PORT": "JMX_PORT"},
        resource="KafkaRestProxy",
    ),
)
