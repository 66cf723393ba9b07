"""What MirrorMaker 2, its workers, connectors and clients refuse is what a review calls refused, both ways."""

from __future__ import annotations

import pytest

from kedge.review.as_inventory import ReviewedMachine, inventory_of
from kedge.review.connecting import check_connections
from kedge.review.processes import RunningProcess
from kedge.review.reading import Value, properties
from kedge.services.mirror.topology import check_topology
from kedge.services.planning import make_plan
from tests.oracle.asking import differing, texts

_BEGIN = "clusters=a,b\na.bootstrap.servers=127.0.0.1:1\nb.bootstrap.servers=127.0.0.2:1\na->b.enabled=true"
_CHOICES = {
    "tasks.max": ("0", "1", "4"),
    "topics": (".*", "*", "x,y.*"),
    "a->b.topics": ("x", "[x", "(x"),
    "topics.exclude": ("x", "*x"),
    "a->b.groups": ("g", "g.*"),
    "refresh.topics.interval.seconds": ("-1", "0", "30"),
    "refresh.topics.enabled": ("true", "false"),
    "sync.group.offsets.enabled": ("true", "false"),
    "a->b.emit.offset-syncs.enabled": ("true", "false"),
    "emit.checkpoints.enabled": ("true", "false"),
    "offset-syncs.topic.location": ("source", "target", "here"),
    "replication.factor": ("1", "3"),
    "b.producer.acks": ("1", "all"),
    "b.producer.enable.idempotence": ("true", "false"),
    "b.producer.retries": ("0", "9"),
    "b.producer.max.in.flight.requests.per.connection": ("1", "6"),
    "b.producer.delivery.timeout.ms": ("10000", "120000"),
    "b.producer.linger.ms": ("0", "100000"),
    "b.producer.batch.size": ("1", "-1"),
    "a.consumer.heartbeat.interval.ms": ("1000", "50000"),
    "a.consumer.session.timeout.ms": ("6000", "45000"),
    "a.consumer.isolation.level": ("read_committed", "committed"),
    "b.offset.flush.interval.ms": ("1000", "1s"),
    "security.protocol": ("PLAINTEXT", "SASL_PLAINTEXT"),
    "sasl.jaas.config": ('o.L required a="b"', 'org.apache.kafka.common.security.plain.PlainLoginModule required '
                         'username="u" password="p";'),
    "a.sasl.mechanism": ("PLAIN",),
    "b.sasl.mechanism": ("PLAIN",),
}  # fmt: skip
#: What a review says of what a connector, a worker or a client does not take.
_SAYS = ("refuses to start", "its connector fails", "no offset of a group can be translated")


def _refused(version: str, text: str) -> bool:
    """Return whether a review has an error that says that the flow would not be copied."""
    values = properties(text, "mm2")
    process = RunningProcess(
        "mm2", "m", values, {}, {"KAFKA_OPTS": Value("-Da=b", "")}, {}, {}, flow=("a", "b")
    )
    own = {key: value.text for key, value in values.items()}
    plan = make_plan(inventory_of(process, version, own, ReviewedMachine(), alone=True))
    found = [*plan.findings, *check_topology(own), *check_connections(process)]
    return any(
        f.severity == "error" and (f.rule == "inventory.variable" or any(one in f.message for one in _SAYS))
        for f in found
    )


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize("version", ["3.9.2", "4.3.1"])
def test_a_mirror_that_kafka_refuses_has_an_error_and_no_other_has_one(version: str) -> None:
    files = texts(_BEGIN, _CHOICES, share=0.12)
    assert differing("mm2", "Mirror.java", f"kafka-{version}", files, lambda t: _refused(version, t)) == []
