"""What Kafka's own clients refuse is what the plan calls refused, both ways: asked of the classes themselves."""

from __future__ import annotations

import pytest

from kedge.review.as_inventory import ReviewedMachine, inventory_of
from kedge.review.connecting import check_connections
from kedge.review.processes import RunningProcess
from kedge.review.reading import Value, properties
from kedge.services.planning import make_plan
from tests.oracle.asking import differing, texts

_JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p"'
_BEGINS = {
    "producer": "bootstrap.servers=127.0.0.1:1",
    "consumer": "bootstrap.servers=127.0.0.1:1\ngroup.id=g",
}
_LOGINS = {
    "security.protocol": ("PLAINTEXT", "SASL_PLAINTEXT"),
    "sasl.mechanism": ("PLAIN",),
    "sasl.jaas.config": (_JAAS, f"{_JAAS};"),
}
_CHOICES = {
    "producer": {
        "bootstrap.servers": ("127.0.0.1:0", "127.0.0.1:65535", "127.0.0.1:65536", "127.0.0.1:99999999999"),
        "acks": ("all", "-1", "1", "0"),
        "enable.idempotence": ("true", "false"),
        "retries": ("0", "1", "5"),
        "max.in.flight.requests.per.connection": ("1", "5", "6"),
        "transactional.id": ("t",),
        "delivery.timeout.ms": ("10000", "30000", "30004", "30005", "120000"),
        "request.timeout.ms": ("5000", "30000", "120000"),
        "linger.ms": ("0", "5", "100000"),
        "batch.size": ("0", "16384", "1000000"),
        "compression.type": ("none", "zstd"),
        **_LOGINS,
    },
    "consumer": {
        "bootstrap.servers": ("127.0.0.1:0", "127.0.0.1:65535", "127.0.0.1:65536", "127.0.0.1:99999999999"),
        "session.timeout.ms": ("3000", "6000", "45000"),
        "heartbeat.interval.ms": ("1000", "3000", "6000", "50000"),
        "max.poll.records": ("1", "500", "50000"),
        "max.poll.interval.ms": ("1000", "300000"),
        "fetch.max.wait.ms": ("100", "500"),
        "isolation.level": ("read_committed", "read_uncommitted"),
        "group.instance.id": ("g-1",),
        **_LOGINS,
    },
}


def _refused(role: str, version: str, text: str) -> bool:
    """Return whether a review has an error that says of the client that it would not start."""
    values = properties(text, role)
    # Flags are there, and none of them has a login.
    process = RunningProcess(role, role, values, {}, {"KAFKA_OPTS": Value("-Da=b", "")}, {}, {})
    own = {key: value.text for key, value in values.items()}
    plan = make_plan(inventory_of(process, version, own, ReviewedMachine(), alone=True))
    found = [*plan.findings, *check_connections(process)]
    return any(f.severity == "error" and f.message.endswith("to start") for f in found)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize("version", ["3.9.2", "4.3.1"])
@pytest.mark.parametrize("role", ["producer", "consumer"])
def test_a_client_that_kafka_refuses_has_an_error_and_no_other_has_one(role: str, version: str) -> None:
    files = texts(_BEGINS[role], _CHOICES[role], share=0.4)
    assert (
        differing(role, "Clients.java", f"kafka-{version}", files, lambda t: _refused(role, version, t)) == []
    )
