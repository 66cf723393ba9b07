"""What a review says of mirrors: which of a file's keys hold, what is lost, and what is worth changing."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from kedge.plan.findings import Finding
from kedge.review.as_inventory import VERSIONS, ReviewedMachine
from kedge.review.command import review
from kedge.review.judging import Judgement, judge
from kedge.review.processes import FLOW as NAME
from kedge.review.processes import HOST, RunningProcess
from kedge.review.reading import ReviewError, Value
from kedge.review.showing import chosen
from kedge.review.showing import text as shown
from kedge.services.mirror.keys import holding, plan_key
from kedge.services.planning import make_plan
from tests.planned import streams

FLOW = (
    "clusters=a,b\na.bootstrap.servers=a:9092\nb.bootstrap.servers=b:9092\na->b.enabled=true\ntasks.max=4\n"
)


@pytest.fixture(autouse=True)
def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask for nothing: each question costs a plan."""
    monkeypatch.setattr("kedge.review.judging._asks", lambda *_: ())


def judged(
    folder: Path, text: str, name: str = "mm2.properties", workload: tuple[str, ...] = ()
) -> Judgement:
    """Return the review of the one process in a file."""
    (path := folder / name).write_text(text)
    (judgement,), _ = review([path], workload=workload)
    return judgement


def wrong(judgement: Judgement) -> list[Finding]:
    return [f for f in judgement.findings if f.severity != "note"]


def test_an_override_of_a_flow_holds_and_is_known(tmp_path: Path) -> None:
    text = f"{FLOW}b.producer.linger.ms=9\na->b.producer.override.linger.ms=100\n"
    one = judged(tmp_path, text)
    assert wrong(one) == []
    (row,) = [row for row in one.rows if row.key.endswith("linger.ms")]
    assert (row.key, row.today) == ("a->b.producer.override.linger.ms", "100")


def test_an_override_that_loses_records_is_one_finding_under_its_own_name(tmp_path: Path) -> None:
    (found,) = wrong(judged(tmp_path, f"{FLOW}a->b.producer.override.acks=1\n"))
    assert (found.severity, found.fix) == (
        "error", "take a->b.producer.override.acks out: MirrorMaker sets all")  # fmt: skip


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("b.producer.compresion.type", "b.producer.compression.type"),
        ("b.producer.acsk", "b.producer.acks"),
        ("a->b.producer.override.lingr.ms", "a->b.producer.override.linger.ms"),
        ("a.consumer.max.pol.records", "a.consumer.max.poll.records"),
        ("a->b.topic", "a->b.topics"),
        ("a.security.protcol", "a.security.protocol"),
    ],
)
def test_a_misspelt_key_is_named_whole_with_the_one_that_is_meant(
    tmp_path: Path, key: str, meant: str
) -> None:
    one = judged(tmp_path, f"{FLOW}{key}=lz4\n")
    (found,) = wrong(one)
    assert (found.message, found.fix) == (
        f"MirrorMaker 2 4.3.1 does not know {key} and ignores it", f"did you mean {meant}?")  # fmt: skip
    assert f"{meant}: not set" not in shown([one], [])


@pytest.mark.parametrize("begin", ["", "b.", "a."])
def test_an_override_that_is_no_flows_is_ignored(tmp_path: Path, begin: str) -> None:
    (found,) = wrong(judged(tmp_path, f"{FLOW}{begin}producer.override.compression.type=lz4\n"))
    assert (found.severity, found.fix) == ("warning", "write a->b.producer.override.compression.type")
    assert found.message.endswith(f"ignores {begin}producer.override.compression.type")


@pytest.mark.parametrize(
    ("lines", "holds"),
    [
        (("a.consumer.max.poll.records=1", "a->b.consumer.max.poll.records=2"), "1"),
        (("a.consumer.max.poll.records=1", "a->b.source.consumer.max.poll.records=3"), "3"),
        (("a->b.consumer.max.poll.records=2",), "2"),
        (("tasks.max=3", "a->b.tasks.max=7"), "7"),
        (("offset.storage.replication.factor=2", "b.offset.storage.replication.factor=1"), "2"),
        (("b.offset.storage.replication.factor=1",), "1"),
    ],
)
def test_of_several_keys_the_one_holds_that_mirror_maker_takes(lines: tuple[str, ...], holds: str) -> None:
    there = dict(line.split("=") for line in lines)
    (name,) = {plan_key(key, "a", "b") for key in there}
    assert there[holding(name, there, "a", "b")] == holds


@pytest.mark.parametrize("kind", list(VERSIONS))
def test_no_planned_value_is_made_of_a_name_that_stands_in(kind: str) -> None:
    for version in VERSIONS[kind]:
        process = RunningProcess(kind, "file", {}, {}, {}, {}, {}, version)
        for row in judge(process, ReviewedMachine()).rows:
            for value in (row.planned, row.documented):
                assert not re.search(rf"\b({HOST}|{NAME})\b", value or "", re.IGNORECASE), row


def test_a_name_of_ones_own_is_as_good_as_the_planned_one(tmp_path: Path) -> None:
    logs = "-Xlog:gc*:file=/var/log/mine/gc.log"
    own = {"KAFKA_JVM_PERFORMANCE_OPTS": Value(f"-server {logs}", "env")}
    keys = {"listeners": Value("http://mine:0", "mm2.properties:1")}
    rows = judge(RunningProcess("mm2", "file", keys, {}, own, {}, {}), ReviewedMachine()).rows
    planned = {row.key: row.planned or "" for row in rows}
    assert planned["listeners"] == "http://mine:0"
    assert logs in planned["KAFKA_JVM_PERFORMANCE_OPTS"].split()


@pytest.mark.parametrize("key", ["a.consumer.", "a->b.consumer.", "a->b.source.consumer."])
def test_a_mirror_that_begins_at_the_end_of_new_partitions_is_found(tmp_path: Path, key: str) -> None:
    (found,) = wrong(judged(tmp_path, f"{FLOW}{key}auto.offset.reset=latest\n"))
    assert (found.severity, found.where.rpartition(":")[2]) == ("warning", "6")
    assert found.fix == f"write {key}auto.offset.reset: earliest"


@pytest.mark.parametrize("line", ["acks=1", "retries=0", "max.in.flight.requests.per.connection=6"])
def test_a_producer_that_does_not_start_is_not_said_to_lose_records(tmp_path: Path, line: str) -> None:
    text = f"{FLOW}b.producer.{line}\nb.producer.enable.idempotence=true\n"
    (found,) = wrong(judged(tmp_path, text))
    assert "refuses to start" in found.message


def test_an_application_that_does_not_start_is_not_said_to_lose_records(tmp_path: Path) -> None:
    begin = "application.id=a\nbootstrap.servers=k:9092\nstate.dir=/d\n"
    text = f"{begin}producer.acks=1\nproducer.enable.idempotence=true\n"
    (found,) = wrong(judged(tmp_path, text, "streams.properties"))
    assert found.rule == "clients.idempotence"


def test_a_number_of_tasks_of_one_flow_is_held_against_the_planned_one(tmp_path: Path) -> None:
    one = judged(
        tmp_path, FLOW.replace("tasks.max", "a->b.tasks.max"), workload=("largest_topic_partitions=48",)
    )
    assert [(row.today, row.planned) for row in one.rows if row.key.endswith("tasks.max")] == [("4", "48")]


@pytest.mark.parametrize(
    ("key", "loses"),
    [
        ("replication.factor", "loses mirrored records"),
        ("a->b.replication.factor", "loses mirrored records"),
        ("offset-syncs.topic.replication.factor", "of a loses"),
        ("offset.storage.replication.factor", "of b loses the positions of the flow"),
        ("b.config.storage.replication.factor", "of b loses"),
    ],
)
def test_one_copy_alone_is_warned_of_with_what_it_loses(tmp_path: Path, key: str, loses: str) -> None:
    (found,) = wrong(judged(tmp_path, f"{FLOW}{key}=1\n"))
    assert (found.severity, found.fix) == ("warning", f"set {key} to 3")
    assert found.message.startswith(f"{key} is 1, one copy: losing a broker")
    assert loses in found.message


def test_single_copies_at_one_end_are_one_finding_and_are_not_told_again(tmp_path: Path) -> None:
    keys = ("replication.factor", "offset.storage.replication.factor", "status.storage.replication.factor")
    one = judged(tmp_path, FLOW + "".join(f"{key}=1\n" for key in keys))
    (found,) = wrong(one)
    assert found.message.startswith(
        "replication.factor and 2 more factors are 1, one copy: losing a broker of b"
    )
    assert found.fix == f"set {', '.join(keys)} to 3"
    assert "factor: 1 -> 3" not in shown([one], [])


def test_one_copy_of_what_an_application_keeps_is_warned_of(tmp_path: Path) -> None:
    text = "application.id=a\nbootstrap.servers=k:9092\nstate.dir=/d\nreplication.factor=1\n"
    (found,) = wrong(judged(tmp_path, text, "streams.properties"))
    assert (found.severity, found.where.rpartition(":")[2]) == ("warning", "4")
    assert "broker loses state" in found.message


_RESOURCE = """kind: KafkaMirrorMaker2
metadata: {name: m}
spec:
  version: 4.1.0
  connectCluster: CONNECT
  clusters:
    - {alias: a, bootstrapServers: "a:9092"}
    - alias: b
      bootstrapServers: b:9092
      config:
        config.storage.replication.factor: FACTOR
  mirrors:
    - sourceCluster: a
      targetCluster: b
      sourceConnector:
        tasksMax: 4
        config: {SOURCE}
      checkpointConnector:
        config: {CHECKPOINT}
      topicsPattern: ".*"
"""


def resource(connect: str = "b", factor: str = "3", source: str = "", checkpoint: str = "") -> str:
    """Return a resource of Strimzi's operator."""
    made = _RESOURCE.replace("CONNECT", connect).replace("FACTOR", factor)
    return made.replace("SOURCE", source).replace("CHECKPOINT", checkpoint)


_SEPARATOR = "replication.policy.separator: ''"
_IDENTITY = "replication.policy.class: o.IdentityReplicationPolicy"


@pytest.mark.parametrize(
    ("given", "severity", "line", "fix"),
    [
        ({}, None, "", ""),
        ({"connect": "a"}, "error", "5", "write connectCluster: b"),
        ({"factor": "1"}, "warning", "11", "set b.config.storage.replication.factor to 3"),
        ({"checkpoint": _SEPARATOR}, "warning", "19",
         "write the same replication.policy.separator for each connector of the flow"),
        ({"source": _SEPARATOR, "checkpoint": _SEPARATOR}, None, "", ""),
        ({"source": _IDENTITY}, "warning", "17",
         "write the same replication.policy.class for each connector of the flow"),
        ({"source": "replication.policy.separator: ."}, None, "", ""),
        ({"source": _SEPARATOR, "checkpoint": _IDENTITY}, "warning", "19",
         "write the same replication.policy.class for each connector of the flow"),
        ({"source": _IDENTITY, "checkpoint": f"{_IDENTITY}}}\n      heartbeatConnector:\n        config: {{"}, None,
         "", ""),
        ({"connect": ""}, "error", "5", "write connectCluster: b"),
        ({"connect": "null"}, "error", "5", "write connectCluster: b"),
    ],
)  # fmt: skip
def test_what_a_resource_says_of_its_clusters_and_connectors_together_is_judged(
    tmp_path: Path, given: dict[str, str], severity: str | None, line: str, fix: str
) -> None:
    found = wrong(judged(tmp_path, resource(**given), "m.yaml"))
    assert [(f.severity, f.where.rpartition(":")[2], f.fix) for f in found] == (
        [(severity, line, fix)] if severity else []
    )
    assert "None" not in "".join(f.message for f in found)


@pytest.mark.parametrize("connect", ["a", "b", ""])
def test_mirrors_of_several_targets_are_one_finding(tmp_path: Path, connect: str) -> None:
    back = "    - {sourceCluster: b, targetCluster: a, sourceConnector: {tasksMax: 4}, topicsPattern: x}\n"
    (file := tmp_path / "m.yaml").write_text(resource(connect) + back)
    judgements, _ = review([file])
    found = {(f.where.rpartition(":")[2], f.message, f.fix) for one in judgements for f in wrong(one)}
    assert found == {
        ("21", "the mirrors of one KafkaMirrorMaker2 have one target, and these have b and a",
         "write a second resource for the other")}  # fmt: skip


def test_the_offset_syncs_at_the_target_are_lost_with_a_broker_of_it(tmp_path: Path) -> None:
    text = f"{FLOW}a->b.offset-syncs.topic.location=target\noffset-syncs.topic.replication.factor=1\n"
    (found,) = wrong(judged(tmp_path, text))
    assert found.message.endswith("losing a broker of b loses what group offsets are translated with")


def test_a_heap_that_holds_the_buffers_of_all_tasks_needs_no_note(tmp_path: Path) -> None:
    def noted(heap: str) -> list[str]:
        (tmp_path / "mm2.env").write_text(f"KAFKA_HEAP_OPTS=-Xmx{heap}\n")
        (tmp_path / "mm2.properties").write_text(FLOW.replace("=4", "=48"))
        (one,), _ = review([tmp_path / "mm2.properties", tmp_path / "mm2.env"])
        return [f.fix for f in one.findings if f.rule == "mirror.heap" and "all workers" in f.message]

    (fix,) = noted("1g")
    assert fix == "raise the heap (-Xmx), or set a smaller buffer.memory, where the target may stall"
    assert noted("2g") == []


@pytest.mark.parametrize(
    ("clusters", "title"),
    [
        ("${NAMES}", "a to b"),
        ("${env:NAMES}", "a to b"),
        ("a, ${OTHER}", "a to b"),
        ("${SRC}, ${DST}", "${SRC} to ${DST}"),
    ],
)
def test_of_names_that_are_put_in_later_the_keys_are_those_of_the_file(
    tmp_path: Path, clusters: str, title: str
) -> None:
    text = FLOW.replace("clusters=a,b", f"clusters={clusters}")
    if title.startswith("$"):
        text = text.replace("\na", "\n${SRC}").replace("\nb", "\n${DST}").replace("->b", "->${DST}")
    one = judged(tmp_path, text)
    assert (one.title.rpartition(", ")[2], wrong(one)) == (title, [])
    misspelt = judged(tmp_path, f"{text}b.bootstrap.server=b:9092\n")
    assert all("bootstrap.servers" not in f.message for f in wrong(misspelt))


def test_an_unset_heap_of_a_classic_mirror_holds_no_buffer_as_large(tmp_path: Path) -> None:
    start = (
        "kafka-mirror-maker.sh --consumer.config consumer.properties --producer.config producer.properties"
    )
    (tmp_path / "mm.service").write_text(f"[Service]\nExecStart=/opt/kafka/bin/{start}\n")
    (tmp_path / "consumer.properties").write_text(
        "bootstrap.servers=a:1\ngroup.id=g\nauto.offset.reset=earliest\n"
    )

    def heaps(buffer: int) -> list[str]:
        (tmp_path / "producer.properties").write_text(f"bootstrap.servers=b:1\nbuffer.memory={buffer}\n")
        (one,), _ = review(
            [tmp_path / f for f in ("mm.service", "consumer.properties", "producer.properties")]
        )
        return [f.message for f in wrong(one) if f.rule == "mirror.heap"]

    (said,) = heaps(300 << 20)
    assert said.endswith(
        "300 MiB while the target takes nothing, 300 in buffers of producers, and its heap is 256 MiB"
    )
    assert heaps(64 << 20) == []


def test_connectors_of_a_flow_that_name_copies_differently_are_found(tmp_path: Path) -> None:
    connectors = [
        {"connector.class": f"org.apache.kafka.connect.mirror.Mirror{part}Connector", "tasks.max": "4",
         "source.cluster.alias": "a", "target.cluster.alias": "b", "source.cluster.bootstrap.servers": "a:9092",
         "target.cluster.bootstrap.servers": "b:9092", **more}
        for part, more in (("Source", {}), ("Checkpoint", {"replication.policy.separator": "_"}))
    ]  # fmt: skip
    text = json.dumps({str(number): {"config": one} for number, one in enumerate(connectors)})
    (found,) = wrong(judged(tmp_path, text, "connectors.json"))
    assert "is _ for MirrorCheckpointConnector and . for MirrorSourceConnector" in found.message


def test_a_resource_is_spoken_of_by_its_own_fields(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = judged(tmp_path, resource(), "m.yaml")
    assert one.version_why.startswith("its spec.version is 4.1.0")
    assert not [row.key for row in one.rows if row.key.startswith("KAFKA_")]


def test_what_makes_a_long_link_faster_comes_before_where_workers_listen(tmp_path: Path) -> None:
    one = judged(tmp_path, FLOW, workload=("round_trip_ms=80", "largest_topic_partitions=48"))
    keys = [row.key for row in chosen(one.rows, full=False)]
    assert "status.storage.replication.factor" not in keys  # as many as by default
    assert keys.index("a.consumer.receive.buffer.bytes") < keys.index("listeners")


@pytest.mark.parametrize(
    ("name", "says"), [("rtt", "round_trip_ms"), ("round_trip", "did you mean round_trip_ms?")]
)
def test_a_number_of_another_name_is_answered_with_those_that_there_are(
    tmp_path: Path, name: str, says: str
) -> None:
    with pytest.raises(ReviewError) as error:
        judged(tmp_path, FLOW, workload=(f"{name}=80",))
    assert says in str(error.value)
    assert "kafka_rest_workload" not in str(error.value)
    assert ("mirror_maker_flows" in str(error.value)) is (name == "rtt")


def test_each_time_of_a_restore_says_what_is_restored() -> None:
    stores = [{"name": "s", "kind": "key_value", "partitions": 8, "keys": 10**8, "record_bytes": 100}]
    plan = make_plan(streams(2, stores=stores))
    said = [f.message for f in plan.findings if "restores its" in f.message]
    said += [s.because for of in plan.services.values() for one in of["streams_app"] for s in one.settings
             if s.key == "num.standby.replicas"]  # fmt: skip
    assert any("while a host is away" in one for one in said)
    assert any("one of 2 instances" in one for one in said)
