"""Load by the Kafka protocol against a real broker: what the evidence says is what happened."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from typing import Any

import pytest

from tests.awaiting import await_that
from tests.kafka.crashable import CrashableBroker
from tests.kafka.loads import LoadRun, assert_ledger_is_true

pytestmark = pytest.mark.kafka

RATE = 4000


def kafka(topic: str, **changes: Any) -> dict[str, Any]:
    part = {"topic": topic, "records_per_s": RATE, "producers": 2, "consumers": 2, "group": f"group-{topic}"}
    # Members hear of a rebalance with a heartbeat: the less often, the longer a test waits to begin.
    return {**part, "consumer": {"heartbeat.interval.ms": 200}, **changes}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_every_record_is_acked_and_delivered_exactly_once(
    load_run: Callable[..., LoadRun], topic: str, protocol: str
) -> None:
    part = kafka(topic, consumer={"group.protocol": protocol})
    run = load_run(kafka=part, min_records=10_000).start()
    run.enough()
    assert run.ended() == 0, run.output.read_text()

    ledger, truth, deliveries = run.table("ledger"), run.in_topic(topic), run.table("deliveries")
    assert len(ledger) == len(truth) >= 10_000
    assert set(ledger["outcome"]) == {"acked"}
    assert_ledger_is_true(ledger, truth)
    places = ["partition", "offset", "producer", "seq"]
    assert sorted(deliveries[places].astype("int64").values.tolist()) == sorted(truth[places].values.tolist())
    assert run.state() == {
        "phase": "done",
        "acked": len(truth),
        "failed": 0,
        "unknown": 0,
        "delivered": len(truth),
        "recreated": 0,
        "late": 0,
        "message": "",
    }

    facts = run.run_json()
    assert facts["started_us"] < facts["measured_until_us"] < facts["ended_us"]
    assert facts["groups"] == {
        f"group-{topic}": {
            "via": "kafka",
            "topics": [topic],
            "protocol": protocol,
            "assignor": "",
            "commits": "after processing",
        }
    }
    (described,) = facts["topics"]
    assert sum(described["end_offsets"].values()) - sum(described["start_offsets"].values()) == len(truth)
    assert described["log_start_offsets"] == {str(number): 0 for number in range(4)}
    assert described["cleanup_policy"] == "delete"


def test_schedule_is_kept_in_the_intended_times(load_run: Callable[..., LoadRun], topic: str) -> None:
    run = load_run(kafka=kafka(topic, producers=1)).start()
    run.enough()
    assert run.ended() == 0, run.output.read_text()
    ledger = run.table("ledger").sort_values("seq")
    due = run.run_json()["started_us"] + ledger["seq"] * 1_000_000 // RATE
    assert (ledger["intended_us"] == due).all()
    assert (ledger["sent_us"] >= ledger["intended_us"]).all()
    assert (ledger["acked_us"] >= ledger["sent_us"]).all()
    assert ledger["intended_us"].max() <= run.run_json()["measured_until_us"]


def test_partitions_are_seen_assigned_and_given_back(load_run: Callable[..., LoadRun], topic: str) -> None:
    run = load_run(kafka=kafka(topic)).start()
    run.enough()
    assert run.ended() == 0, run.output.read_text()
    changes = run.table("assignments").sort_values("at_us", kind="stable")
    assert set(changes.groupby("partition")["event"].last()) == {"revoked"}
    assert set(changes["partition"]) == {0, 1, 2, 3}
    states = run.table("group_states")
    stable = states[states["state"] == "Stable"]
    assert stable["members"].max() == 2
    assert stable["assigned"].max() == 4


@pytest.mark.parametrize("give_up_ms", [2000, 120_000])
def test_outcomes_are_true_when_the_broker_is_killed(
    load_run: Callable[..., LoadRun], broker: CrashableBroker, topic: str, give_up_ms: int
) -> None:
    run = load_run(kafka=kafka(topic, producer={"message.timeout.ms": give_up_ms})).start()
    try:
        run.await_acked(RATE)
        broker.kill()
        if give_up_ms < 10_000:
            await_that(lambda: run.state()["unknown"] > 0, "records time out")
    finally:
        broker.start()
    before = run.state()["acked"]
    run.await_acked(before + RATE)
    run.enough()
    assert run.ended() == 0, run.output.read_text()

    ledger, truth, deliveries = run.table("ledger"), run.in_topic(topic), run.table("deliveries")
    assert_ledger_is_true(ledger, truth)
    assert set(ledger["outcome"]) == ({"acked", "unknown"} if give_up_ms < 10_000 else {"acked"})
    got = deliveries[["partition", "offset"]].drop_duplicates()
    assert len(got) == len(truth)


def test_killed_parent_leaves_no_orphan_and_whole_evidence(
    load_run: Callable[..., LoadRun], topic: str
) -> None:
    run = load_run(kafka=kafka(topic)).start()
    run.await_acked(3 * RATE)
    children = run.children()
    assert len(children) == 5
    assert run.process is not None
    run.process.kill()
    run.process.wait()
    await_that(lambda: not any(child.is_running() for child in children), "the children have ended")

    assert run.run_json()["ended_us"] is None
    ledger = run.table("ledger")
    assert len(ledger) >= 3 * RATE
    assert_ledger_is_true(ledger, run.in_topic(topic))
    assert len(run.table("deliveries")) > 0


def test_killed_producer_costs_unknown_outcomes(load_run: Callable[..., LoadRun], topic: str) -> None:
    run = load_run(kafka=kafka(topic)).start()
    run.await_acked(3 * RATE)
    (producer,) = (child for child in run.children() if "kafka-producer-1" in child.cmdline())
    producer.kill()
    assert run.ended() == 1
    assert "kafka-producer-1 ended with status -9" in run.output.read_text()
    assert run.state()["phase"] == "failed"
    assert run.run_json()["ended_us"] is None
    assert not run.children()
    ledger = run.table("ledger")
    assert set(ledger[ledger["producer"] == 1]["outcome"]) == {"acked", "unknown"}
    assert_ledger_is_true(ledger, run.in_topic(topic))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_ends_the_load_in_order(
    load_run: Callable[..., LoadRun], topic: str, number: signal.Signals
) -> None:
    run = load_run(kafka=kafka(topic)).start()
    run.await_acked(RATE)
    assert run.process is not None
    run.process.send_signal(number)
    assert run.ended() == 128 + number
    assert not run.children()
    assert run.state()["phase"] == "failed"
    assert "the evidence so far is kept" in run.state()["message"]
    assert run.run_json()["ended_us"] is None
    assert_ledger_is_true(run.table("ledger"), run.in_topic(topic))


def test_record_that_the_broker_refuses_is_failed(load_run: Callable[..., LoadRun], topic: str) -> None:
    part = kafka(topic, records_per_s=50, record_bytes=1_500_000, producer={"message.max.bytes": 2_000_000})
    run = load_run(kafka=part, min_s=2).start()
    run.enough()
    assert run.ended() == 0, run.output.read_text()
    ledger = run.table("ledger")
    assert set(ledger["outcome"]) == {"failed"}
    assert run.in_topic(topic).empty


def test_topic_that_is_missing_is_said_in_one_line(load_run: Callable[..., LoadRun]) -> None:
    run = load_run(kafka=kafka("not-there")).start()
    assert run.ended() == 2
    (line,) = run.output.read_text().splitlines()
    assert line.startswith("topic not-there is not there")
    assert run.state()["phase"] == "failed"
    assert line.startswith(run.state()["message"])
    assert "its evidence so far is kept" in line
    assert not run.children()


def test_broker_that_does_not_answer_is_said_in_one_line(load_run: Callable[..., LoadRun]) -> None:
    run = load_run(kafka=kafka("any"), bootstrap_servers="127.0.0.1:1").start()
    assert run.ended() == 2
    (line,) = run.output.read_text().splitlines()
    assert line.startswith("cluster leaf: no broker of 127.0.0.1:1 answers")


def test_group_that_others_use_is_refused(
    load_run: Callable[..., LoadRun], topic: str, tmp_path: Any
) -> None:
    first = load_run(kafka=kafka(topic)).start()
    first.await_phase("running")
    other = tmp_path / "other"
    other.mkdir()
    load = (tmp_path / "load.json").read_text()
    (other / "load.json").write_text(load)
    second = LoadRun(other, json.loads(load)).start()
    assert second.ended() == 2
    assert f"consumer group group-{topic} cannot be placed" in second.output.read_text()
    first.enough()
    assert first.ended() == 0, first.output.read_text()
