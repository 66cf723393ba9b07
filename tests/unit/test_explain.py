"""What ``kedge explain`` says of a key, of a rule, and of what nothing has."""

from __future__ import annotations

from pathlib import Path

import pytest

from kedge.explain import main

EXAMPLE = ["-i", str(Path(__file__).resolve().parents[2] / "inventories" / "example")]


def test_a_key_is_told_by_component_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["linger.ms"]) == 0
    said = capsys.readouterr().out
    assert "producer 3.9: a whole number from 0 to 9223372036854775807; default 0\n" in said
    assert "producer 4.3: a whole number from 0 to 9223372036854775807; default 5\n" in said
    # A proxy hands its clients their keys.
    for name in ("producer.linger.ms", "KAFKA_REST_PRODUCER_LINGER_MS"):
        assert main([name]) == 0
        assert capsys.readouterr().out == said


def test_a_key_of_a_plan_is_told_with_its_reason_where_it_was_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["KAFKAREST_HEAP_OPTS", "rest1", *EXAMPLE]) == 0
    said = capsys.readouterr().out
    assert said.startswith("rest1 kafka_rest@[8082-8083]\n    environment  KAFKAREST_HEAP_OPTS=-X")
    assert "rest.heap.consumers, since 0.2.0; estimate" in said
    assert "lab/measurements/rest-proxy.md" in said
    assert main(["linger.ms", "rest", *EXAMPLE]) == 0
    assert capsys.readouterr().out.endswith("\n\nnot in the plan of rest\n")


def test_a_rule_is_told_with_its_findings(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rest.gc", *EXAMPLE]) == 0
    said = capsys.readouterr().out
    assert "KAFKAREST_JVM_PERFORMANCE_OPTS=" in said
    assert "note: rest[1-2] kafka_rest@[8082-8083] (rest.gc)" in said


def test_what_nothing_has_is_met_by_the_nearest_and_a_status(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lingr.ms"]) == 2
    assert capsys.readouterr().err == (
        "kedge explain lingr.ms: nothing has this name; did you mean linger.ms?\n"
    )
    assert main(["linger.ms", "-i", "no/such/inventory"]) == 2
