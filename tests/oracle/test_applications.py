"""What Kafka Streams refuses is what the plan calls refused, both ways: asked of KafkaStreams itself."""

from __future__ import annotations

import pytest

from kedge.review.as_inventory import ReviewedMachine, inventory_of
from kedge.review.connecting import check_connections
from kedge.review.processes import RunningProcess
from kedge.review.reading import Value, properties
from kedge.services.planning import make_plan
from tests.oracle.asking import differing, texts

_BEGIN = "application.id=a\nbootstrap.servers=127.0.0.1:1"
_CHOICES = {
    "processing.guarantee": ("at_least_once", "exactly_once_v2"),
    "commit.interval.ms": ("100", "10000", "10001", "60000"),
    "producer.transaction.timeout.ms": ("5000", "60000"),
    "producer.acks": ("all", "1"),
    "acks": ("0", "-1"),
    "producer.retries": ("0", "3"),
    "producer.enable.idempotence": ("true", "false"),
    "producer.max.in.flight.requests.per.connection": ("1", "5", "6"),
    "producer.delivery.timeout.ms": ("10000", "30100", "120000"),
    "linger.ms": ("0", "5"),
    "request.timeout.ms": ("5000", "40000"),
    "main.consumer.heartbeat.interval.ms": ("1000", "50000"),
    "consumer.session.timeout.ms": ("6000", "45000"),
    "session.timeout.ms": ("10000",),
    "max.poll.records": ("1", "1000"),
    "consumer.isolation.level": ("read_uncommitted", "read_committed"),
    "consumer.enable.auto.commit": ("true",),
    "statestore.cache.max.bytes": ("0", "-1"),
    "num.standby.replicas": ("0", "1"),
    "application.server": ("host:1", "host"),
    "topology.optimization": ("all", "some"),
    "upgrade.from": ("2.8", "9.9"),
    "security.protocol": ("PLAINTEXT", "SASL_PLAINTEXT"),
    "sasl.jaas.config": ('o.L required a="b"', 'org.apache.kafka.common.security.plain.PlainLoginModule required '
                         'username="u" password="p";'),
    "sasl.mechanism": ("PLAIN",),
}  # fmt: skip


def _refused(version: str, text: str) -> bool:
    """Return whether a review has an error that says that the application would not start."""
    values = properties(text, "streams")
    process = RunningProcess("streams", "s", values, {}, {"KAFKA_OPTS": Value("-Da=b", "")}, {}, {})
    own = {key: value.text for key, value in values.items()}
    plan = make_plan(inventory_of(process, version, own, ReviewedMachine(), alone=True))
    return any(
        f.severity == "error"
        and (f.rule == "inventory.variable" or f.message.endswith(("to start", "as it starts")))
        for f in [*plan.findings, *check_connections(process)]
    )


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize("version", ["3.9.2", "4.3.1"])
def test_an_application_that_kafka_refuses_has_an_error_and_no_other_has_one(version: str) -> None:
    files = texts(_BEGIN, _CHOICES, share=0.15)
    jars = f"kafka-streams-{version}"
    assert differing("streams", "Application.java", jars, files, lambda t: _refused(version, t)) == []
