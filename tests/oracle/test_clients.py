"""What Kafka's own clients refuse is what the plan calls refused, both ways: asked of the classes themselves."""

from __future__ import annotations

import base64
import random
import subprocess
from pathlib import Path

import pytest

from kedge.review.processes import ReviewedMachine, RunningProcess, inventory_of
from kedge.review.reading import properties
from kedge.services.planning import make_plan
from kedge.setup.paths import jar_folder

_PROGRAM = Path(__file__).with_name("Clients.java")
#: A client takes some tenths of a second to be made.
_FILES = 500
_CHOICES = {
    "producer": {
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
    },
    "consumer": {
        "session.timeout.ms": ("3000", "6000", "45000"),
        "heartbeat.interval.ms": ("1000", "3000", "6000", "50000"),
        "max.poll.records": ("1", "500", "50000"),
        "max.poll.interval.ms": ("1000", "300000"),
        "fetch.max.wait.ms": ("100", "500"),
        "isolation.level": ("read_committed", "read_uncommitted"),
        "group.instance.id": ("g-1",),
    },
}


def _texts(role: str, seed: int) -> list[str]:
    chosen = random.Random(seed)  # the same files each time
    texts = []
    for _ in range(_FILES):
        keys = [key for key in _CHOICES[role] if chosen.random() < 0.4]
        lines = [f"{key}={chosen.choice(_CHOICES[role][key])}" for key in keys]
        begin = ["bootstrap.servers=127.0.0.1:1", *(["group.id=g"] if role == "consumer" else [])]
        texts.append("\n".join([*begin, *lines, ""]))
    return texts


def _refused(role: str, version: str, text: str) -> bool:
    """Return whether a review has an error that says of the client that it would not start."""
    values = properties(text, role)
    process = RunningProcess(role, role, values, {}, {}, {}, {})
    own = {key: value.text for key, value in values.items()}
    plan = make_plan(inventory_of(process, version, own, ReviewedMachine(), alone=True))
    return any(f.severity == "error" and f.message.endswith("to start") for f in plan.findings)


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize("version", ["3.9.2", "4.3.1"])
@pytest.mark.parametrize("role", ["producer", "consumer"])
def test_a_client_that_kafka_refuses_has_an_error_and_no_other_has_one(role: str, version: str) -> None:
    texts = _texts(role, seed=1)
    given = "".join(f"{role} {base64.b64encode(text.encode()).decode()}\n" for text in texts)
    jars = jar_folder(f"kafka-{version}") / "*"
    done = subprocess.run(
        ["java", "-cp", str(jars), str(_PROGRAM)], input=given, capture_output=True, text=True, check=True
    )
    said = [line for line in done.stdout.splitlines() if line.startswith(("takes", "refuses"))]
    assert len(said) == len(texts), done.stderr[-500:]
    wrong = [
        f"{line}: {text}"
        for line, text in zip(said, texts, strict=True)
        if line.startswith("refuses") != _refused(role, version, text)
    ]
    assert wrong == []
