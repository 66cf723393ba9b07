"""What ``kedge explain`` says of a key, of a rule, and of what nothing has."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kedge.explain import main, of_plan
from kedge.services.planning import make_plan
from tests.planned import mirrors

EXAMPLE = ["-i", str(Path(__file__).resolve().parents[2] / "inventories" / "example")]


def test_a_key_is_told_by_component_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["linger.ms"]) == 0
    said = capsys.readouterr().out
    assert "    producer 3.9: a whole number from 0; default 0\n" in said
    assert "    producer 4.3: a whole number from 0; default 5\n" in said
    assert "producer: The producer groups together any records" in said, "in the component's own words"
    # A proxy hands its clients their keys.
    for name in ("producer.linger.ms", "KAFKA_REST_PRODUCER_LINGER_MS"):
        assert main([name]) == 0
        assert said.partition("\nrule ")[0] in capsys.readouterr().out


def test_a_key_of_a_plan_is_told_with_its_reason_where_it_was_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["KAFKAREST_HEAP_OPTS", "rest1", *EXAMPLE]) == 0
    said = capsys.readouterr().out
    assert "\n\nrest1 kafka_rest@[8082-8083]\n    environment  KAFKAREST_HEAP_OPTS=-X" in said
    assert "rest.heap.consumers, since 0.2.0; estimate" in said
    assert "lab/measurements/rest-proxy.md" in said
    # A host may also stand last, where one goes on from the options of a plan.
    assert main(["KAFKAREST_HEAP_OPTS", *EXAMPLE, "rest1"]) == 0
    assert capsys.readouterr().out == said
    assert main(["linger.ms", "kafka1", *EXAMPLE]) == 0
    assert capsys.readouterr().out.endswith(
        "\n\nno setting and no finding of the plan has this name for kafka1\n"
    )


@pytest.mark.parametrize("word", ["linger.ms", "producer.linger.ms", "agg.producer.linger.ms"])
def test_a_clients_key_is_found_under_the_name_that_its_component_has_for_it(word: str) -> None:
    plan = make_plan(mirrors(1, kind="mirror_maker_2", version="4.3.1"))
    assert any("  agg.producer.linger.ms=" in line for line in of_plan(plan, word, "mm1"))
    assert not any("linger" in line for line in of_plan(plan, "ms", "mm1"))


@pytest.mark.parametrize("word", ["mirror_maker_flows.round_trip_ms", "round_trip_ms"])
def test_a_variable_of_an_inventory_is_told(capsys: pytest.CaptureFixture[str], word: str) -> None:
    assert main([word]) == 0
    said = capsys.readouterr().out
    assert said.startswith("variable mirror_maker_flows.round_trip_ms\n    ")
    assert main(["kafka_rest_stop_second"]) == 2
    assert "did you mean kafka_rest_stop_seconds?" in capsys.readouterr().err


def test_a_variable_is_told_with_what_the_plan_has_for_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kafka_rest_heap_mib", "rest1", *EXAMPLE]) == 0
    assert (
        "\n\nrest1 kafka_rest@[8082-8083]\n    environment  KAFKAREST_HEAP_OPTS=-X" in capsys.readouterr().out
    )
    assert main(["kafka_rest_archive", *EXAMPLE]) == 0
    assert "warning: rest[1-2]: kafka_rest_archive (inventory.archive)\n" in capsys.readouterr().out


def test_a_variable_is_told_with_its_values_and_without_its_secrets(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["kafka_rest_workload.consumers", *EXAMPLE]) == 0
    assert "    rest[1-2]: kafka_rest_workload.consumers = 200\n" in capsys.readouterr().out
    copy = tmp_path / "own"
    shutil.copytree(EXAMPLE[1], copy)
    with (copy / "group_vars" / "kafka_rest" / "main.yml").open("a") as more:
        more.write("kafka_rest_password: hunter2hunter2\nkafka_rest_user: kit\n")
    for word in ("kafka_rest_password", "kafka_rest_user"):
        assert main([word, "-i", str(copy)]) == 0
        said = capsys.readouterr().out
        assert f"rest[1-2]: {word} = " in said
        assert "hunter2" not in said


def test_a_key_is_found_behind_the_alias_of_a_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dr.producer.linger.ms"]) == 0
    assert "producer 4.3: a whole number from 0; default 5" in capsys.readouterr().out


def test_a_short_key_is_told_with_its_own_rules_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["id"]) == 0
    assert capsys.readouterr().out.count("\nrule ") == 1


def test_a_rule_is_told_with_its_findings(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rest.gc", *EXAMPLE]) == 0
    said = capsys.readouterr().out
    assert "KAFKAREST_JVM_PERFORMANCE_OPTS=" in said
    assert "note: rest[1-2] kafka_rest@[8082-8083] (rest.gc)" in said


def test_a_key_is_told_with_what_the_documents_and_measurements_say(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["KAFKAREST_HEAP_OPTS"]) == 0
    said = capsys.readouterr().out
    assert main(["rest.heap.consumers"]) == 0
    assert capsys.readouterr().out == said
    assert "rule rest.heap.consumers, since 0.2.0\n    the documents: 1 GiB, and 16 MiB" in said
    assert "    the measured advice: twice the live heap" in said
    assert "-i INVENTORY also says" in said


def test_every_key_that_kafka_rest_reads_is_told_of_the_newest_version(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["consumer.request.timeout.ms"]) == 0
    assert "kafka-rest 7.9, 8.0, 8.3: default 1000" in capsys.readouterr().out


def test_what_nothing_has_is_met_by_the_nearest_and_a_status(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lingr.ms"]) == 2
    assert capsys.readouterr().err == (
        "kedge explain lingr.ms: nothing has this name; did you mean linger.ms?\n"
    )
    assert main(["linger.ms", "-i", "no/such/inventory"]) == 2
