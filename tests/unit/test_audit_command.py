"""The command of the playbook that waits for the load, collects and audits: what it does before the audit."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from kedge.evidence.levels import Levels
from kedge.evidence.load_options import LoadError
from kedge.evidence.load_state import await_phase
from kedge.evidence.load_state import main as await_command
from kedge.evidence.run import parse_run
from kedge.evidence.writing import EvidenceWriter
from spark_checks.command import settled
from spark_checks.engine.files import on_this_machine
from spark_checks.engine.session import configured
from spark_checks.job import Auditor
from verify.audit import main, sample, warm_up

RUN: dict[str, Any] = {
    "run_id": "r",
    "started_us": 1,
    "ended_us": None,
    "warm_up_us": 0,
    "measured_until_us": None,
    "topics": [{"cluster": "agg", "topic": "t", "partitions": 2, "start_offsets": {"0": 5, "1": 0}}],
}
STATE: dict[str, Any] = {"group": "g", "state": "Stable", "members": 1, "assigned": 2}


def state(run_dir: Path, phase: str, message: str = "") -> None:
    document = {"phase": phase, "acked": 1200, "failed": 0, "delivered": 7, "message": message}
    (run_dir / "load.state").write_text(json.dumps(document))


def test_a_phase_is_reached_by_a_later_one_as_well(tmp_path: Path) -> None:
    state(tmp_path, "draining")
    assert await_phase(tmp_path, "running", 1, print)["acked"] == 1200


def test_what_nobody_thought_of_is_no_verdict_and_one_line_says_where_it_broke(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "spark.log"
    log.write_text("of Spark\n")

    def broken() -> int:
        raise KeyError("rest")

    assert settled(lambda: 1, log) == 1
    assert settled(broken, log) == 2
    line = capsys.readouterr().err
    assert line == f"error: the audit broke off: KeyError: 'rest'; see {log}\n"
    assert log.read_text().startswith("of Spark\nTraceback")
    assert settled(broken, tmp_path / "nowhere" / "spark.log") == 2
    assert "spark.log cannot be written: No such file" in capsys.readouterr().err


def test_what_breaks_off_without_a_log_is_told_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    def broken() -> int:
        raise KeyError("rest")

    assert settled(broken, None) == 2
    said = capsys.readouterr().err
    assert said.startswith("Traceback")
    assert said.endswith("error: the audit broke off: KeyError: 'rest'; see above\n")


def test_what_spark_is_configured_with_is_read_as_spark_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert configured() == {}
    (tmp_path / "spark-defaults.conf").write_text(
        "# spark.ui.port 1\n\nspark.master  spark://h:7077 \n spark.ui.enabled=true\nspark.a: -Db=c -Dd\n"
    )
    assert configured() == {
        "spark.master": "spark://h:7077",
        "spark.ui.enabled": "true",
        "spark.a": "-Db=c -Dd",
    }


@pytest.mark.parametrize(
    ("uri", "here"),
    [
        ("runs/a b", "runs/a b"),
        ("/a", "/a"),
        ("file:///a%20b", "/a b"),
        ("file:/a", "/a"),
        ("s3a://a/b", None),
    ],
)
def test_a_place_is_one_of_this_machine_or_another_stores(uri: str, here: str | None) -> None:
    assert on_this_machine(uri) == (None if here is None else Path(here))


def test_the_load_is_waited_for(tmp_path: Path) -> None:
    state(tmp_path, "running")
    later = threading.Timer(0.3, state, args=(tmp_path, "done"))
    later.start()
    assert await_phase(tmp_path, "done", 30, print)["phase"] == "done"


@pytest.mark.parametrize(
    ("phase", "message"),
    [
        ("failed", r"the load failed: no disk; see .*load\.log"),
        ("running", r"still running after 0 s; see .*load\.log"),
    ],
)
def test_a_load_that_does_not_come_to_its_end_is_an_error(tmp_path: Path, phase: str, message: str) -> None:
    state(tmp_path, phase, "no disk")
    with pytest.raises(LoadError, match=message):
        await_phase(tmp_path, "done", 0, print)


def test_a_playbook_waits_for_a_phase_and_its_last_line_says_why_it_does_not_come(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state(tmp_path, "running")
    assert await_command([str(tmp_path), "running", "0"]) == 0
    state(tmp_path, "failed", "no\ndisk")
    assert await_command([str(tmp_path), "running", "0"]) == 2
    said = capsys.readouterr().out.splitlines()[-1]
    assert said == f"the load failed: no disk; see {tmp_path}/load.log. No instance was touched"


def test_of_running_evidence_the_first_rows_of_each_writer_are_sampled(tmp_path: Path) -> None:
    evidence, copy = tmp_path / "evidence", tmp_path / "copy"
    for name in ("one", "two"):
        writer = EvidenceWriter(evidence, "group_states", name, rotate_s=0)
        for at_us in range(3):
            writer.append({**STATE, "at_us": [at_us] * 5_000})
        writer.flush()
    (evidence / "run.json").write_text(json.dumps(RUN))
    copy.mkdir()
    sample(evidence, copy)
    assert sorted(path.name for path in (copy / "group_states").iterdir()) == [
        "one-0.parquet",
        "two-0.parquet",
    ]
    rows = pq.read_table(copy / "group_states" / "one-0.parquet")
    assert rows.num_rows == 1_000
    assert set(rows["at_us"].to_pylist()) == {0}
    run = parse_run((copy / "run.json").read_text(), "run.json")
    assert run.topics[0].end_offsets == {0: 205, 1: 200}
    assert run.complete


@pytest.mark.parametrize(
    ("phase", "audits"),
    [(None, 1), ("starting", 1), ("warming", 1), ("running", 1), ("draining", 0), ("done", 0), ("failed", 0)],
)
def test_a_little_is_audited_only_while_the_load_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, phase: str | None, audits: int
) -> None:
    if phase is not None:
        state(tmp_path, phase)
    (tmp_path / "slo.yml").write_text("{}")
    sampled: list[Path] = []
    monkeypatch.setattr("verify.audit.sample", lambda _evidence, copy: sampled.append(copy))
    auditor = NoSpark()
    warm_up(auditor, tmp_path)
    assert auditor.audited == [str(copy) for copy in sampled]
    assert len(auditor.audited) == audits


class NoSpark(Auditor):
    """An auditor that starts no Java, and keeps what it was to audit."""

    def __init__(self) -> None:
        super().__init__()
        self.audited: list[str] = []

    def start(self) -> Any:
        return None

    def audit(self, uri: str, _levels: Levels, _say: Callable[[str], None] = print) -> Any:
        self.audited.append(uri)


def test_a_load_that_failed_ends_the_command_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    state(tmp_path, "failed", "no\ndisk")
    monkeypatch.setattr("verify.audit.warm_up", lambda _auditor, _run_dir: None)
    monkeypatch.setattr("verify.audit.os.nice", lambda _by: 0)
    assert main(["--run-dir", str(tmp_path), "--inventory", "none", "--wait-s", "1"]) == 2
    assert "the load failed: no disk" in capsys.readouterr().err
