"""What a review says of mirrors: patterns, intervals, where they begin, and numbers that nobody gave."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kedge.plan.findings import Finding
from kedge.review.command import review
from kedge.review.judging import Judgement
from kedge.review.showing import chosen

FLOW = (
    "clusters=a,b\na.bootstrap.servers=a:9092\nb.bootstrap.servers=b:9092\na->b.enabled=true\ntasks.max=4\n"
)


@pytest.fixture(autouse=True)
def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask for nothing: each question costs a plan."""
    monkeypatch.setattr("kedge.review.judging._asks", lambda *_: ())


def judged(folder: Path, workload: tuple[str, ...] = (), **files: str) -> Judgement:
    """Return the review of one process in these files."""
    paths = [folder / f"{name}.properties" for name in files]
    for path, text in zip(paths, files.values(), strict=True):
        path.write_text(text)
    (judgement,), _ = review(paths, workload=workload)
    return judgement


def wrong(judgement: Judgement) -> list[Finding]:
    return [f for f in judgement.findings if f.severity != "note"]


@pytest.mark.parametrize(
    ("clusters", "found"),
    [("a b", True), ("a, b", False), (" a ,b,", False), ("${A} ${B}", False)],
)
def test_clusters_that_no_comma_parts_are_one_name(tmp_path: Path, clusters: str, *, found: bool) -> None:
    text = FLOW.replace("clusters=a,b", f"clusters={clusters}")
    told = [(f.severity, f.where.rpartition(":")[2], f.fix) for f in wrong(judged(tmp_path, mm2=text))]
    assert told == ([("error", "1", "write clusters = a, b")] if found else [])


@pytest.mark.parametrize(
    ("line", "severity", "fix"),
    [
        ("topics=*", "error", "write topics = .*"),
        ("a->b.topics=orders,*", "error", "write a->b.topics = orders,.*"),
        ("groups.exclude=[a", "error", "correct groups.exclude"),
        ("topics=orders payments", "error", "write topics = orders, payments"),
        ("topics=a, orders payments", "error", "write topics = a, orders, payments"),
        ("a->b.topics.exclude=x y", "warning", "write a->b.topics.exclude = x, y"),
        ("topics=orders, payments", None, ""),
        ("tasks.max=8", "warning", "take one of the two lines out"),
        ("max.tasks=8", "warning", "did you mean tasks.max?"),
        ("tasks.max=4", None, ""),
        ("topics=orders-*", "warning", "write topics = orders-.*"),
        ("refresh.topics.interval.seconds=-1", "warning",
         "take refresh.topics.interval.seconds out, for 10 minutes"),
        ("refresh.topics.interval.seconds=0", "error", "take refresh.topics.interval.seconds out, for 10 minutes"),
        ("topics=orders.*,(?<a>x)\\\\p{Alpha}", None, ""),
        ("refresh.topics.interval.seconds=30", None, ""),
        ("refresh.topics.enabled=false", "warning", "take refresh.topics.enabled out"),
        ("a.max.poll.records=5000", "warning", "write a.consumer.max.poll.records"),
        ("b.batch.size=5000", "warning", "write b.producer.batch.size"),
        ("a.request.timeout.ms=5000", None, ""),
        ("offset-syncs.topic.location=target\nemit.offset-syncs.enabled=false", "error",
         "take offset-syncs.topic.location out"),
    ],
)  # fmt: skip
def test_what_no_connector_compiles_or_looks_for_is_found(
    tmp_path: Path, line: str, severity: str | None, fix: str
) -> None:
    found = wrong(judged(tmp_path, mm2=f"{FLOW}{line}\n"))
    assert [(f.severity, f.fix, f.where.rpartition(":")[2]) for f in found] == (
        [(severity, fix, "6")] if severity else []
    )


def test_one_line_with_one_fix_is_one_finding(tmp_path: Path) -> None:
    (file := tmp_path / "mm2.properties").write_text(f"{FLOW}b->a.enabled=true\ntopics=*\n")
    found = [f for judgement in review([file])[0] for f in wrong(judgement)]
    assert [f.where.rpartition(":")[2] for f in found] == ["7"]


@pytest.mark.parametrize(
    ("reset", "said"), [("auto.offset.reset=latest\n", "is latest: "), ("", "is latest by default: ")]
)
def test_a_classic_mirror_that_begins_at_the_end_is_found(tmp_path: Path, reset: str, said: str) -> None:
    consumer = f"bootstrap.servers=a:9092\ngroup.id=m\n{reset}"
    found = wrong(judged(tmp_path, consumer=consumer, producer="bootstrap.servers=b:9092\nacks=all\n"))
    assert [f.fix for f in found if said in f.message] == ["write auto.offset.reset: earliest"]


def test_a_buffer_is_not_held_against_partitions_that_nobody_said(tmp_path: Path) -> None:
    text = f"{FLOW}tasks.max=2\nb.producer.buffer.memory=40000000\nb.producer.batch.size=10000000\n"
    unsaid = judged(tmp_path, mm2=text)
    assert not [f for f in wrong(unsaid) if f.rule == "mirror.producer.buffer"]
    (row,) = [row for row in unsaid.rows if row.key == "b.producer.buffer.memory"]
    assert "1 of 12 partitions of the target (--workload largest_topic_partitions)" in row.because
    said = judged(tmp_path, ("largest_topic_partitions=12",), mm2=text)
    assert [f.where.rpartition(":")[2] for f in wrong(said) if f.rule == "mirror.producer.buffer"] == ["7"]


def test_a_session_that_brokers_refuse_is_said_once(tmp_path: Path) -> None:
    text = "bootstrap.servers=k:9092\ngroup.id=g\nkey.deserializer=o.D\nsession.timeout.ms=4000\n"
    assert [f.fix for f in wrong(judged(tmp_path, consumer=text))] == [
        "take session.timeout.ms out, for its default, 45000"
    ]


@pytest.mark.parametrize(
    ("line", "row", "today"),
    [
        ("b.offset.storage.replication.factor=1", "b.offset.storage.replication.factor", "1"),
        ("a->b.replication.factor=1", "a->b.replication.factor", "1"),
        ("a->b.replication.factor=1\nreplication.factor=2", "a->b.replication.factor", "1"),
        ("b.replication.factor=1", "replication.factor", None),
    ],
)
def test_a_key_that_stands_under_a_flow_or_a_cluster_is_set(
    tmp_path: Path, line: str, row: str, today: str | None
) -> None:
    rows = {one.key: one.today for one in judged(tmp_path, mm2=f"{FLOW}{line}\n").rows}
    assert rows[row] == today
    assert row.count(".") == 1 or row.partition(".")[2] not in rows


def test_a_factor_that_is_left_to_the_brokers_is_no_difference(tmp_path: Path) -> None:
    rows = judged(tmp_path, mm2=f"{FLOW}replication.factor=-1\n").rows
    assert not [row for row in rows if row.key == "replication.factor"]


def test_options_of_a_classic_mirror_have_their_own_names(tmp_path: Path) -> None:
    judgement = judged(
        tmp_path,
        consumer="bootstrap.servers=a:9092\ngroup.id=m\n",
        producer="bootstrap.servers=b:9092\ncompression.type=zstd\n",
    )
    shown = chosen(judgement.rows, full=False)
    assert not [row.key for row in shown if "MIRROR_" in row.key or row.key.startswith("--")]
    assert "--num.streams" in {row.key for row in judgement.rows}


def test_of_a_configuration_that_was_not_given_no_default_is_said(tmp_path: Path) -> None:
    command = "kafka-mirror-maker.sh --consumer.config c.config --producer.config p.config --num.streams {}\n"
    (script := tmp_path / "mirror.sh").write_text(command.format(1))
    (judgement,), _ = review([script])
    assert not wrong(judgement)
    script.write_text(command.format(4))
    (judgement,), _ = review([script])
    assert [f.rule for f in wrong(judgement)] == ["mirror.streams"]


@pytest.mark.parametrize(
    "text",
    [
        FLOW.replace("clusters=a,b", "clusters=${NAMES}"),
        FLOW.replace("enabled=true", "enabled=${ON}"),
        FLOW.replace("=a:9092", "=${A}:9092").replace("=b:9092", "=${B}:9092"),
        FLOW.replace("=a:9092", "=<a-host>:9092").replace("=b:9092", "=<b-host>:9092"),
        re.sub(r"\b([ab])(?=[.,>\n-])", r"<\1-name>", FLOW),
    ],
)
def test_clusters_and_flows_that_are_named_later_are_not_missed(tmp_path: Path, text: str) -> None:
    assert not [f for f in wrong(judged(tmp_path, mm2=text)) if f.rule == "mirror.flows"]
