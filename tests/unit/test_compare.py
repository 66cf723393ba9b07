"""Two runs beside each other: what differs by more than the noise is better or worse, the rest is the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kedge.trials.figures import COLLAPSED, asked_otherwise, collapsed, compare
from spark_checks.command import main


def run(
    p99: float = 20.0, rate: float = 50_000.0, lost: int = 0, offered: float = 50_000.0, gap: float = 1.0
) -> dict[str, Any]:
    def check(name: str, measured: dict[str, Any], anomalies: dict[str, Any] | None = None) -> dict[str, Any]:
        return {"name": name, "verdict": "pass", "measured": measured, "anomalies": anomalies or {}}

    kafka = {"mean_records_per_s": rate, "offered_records_per_s": offered, "records": 100}
    anomalies = {"lost": {"count": lost, "examples": []}} if lost else {}
    return {
        "run_id": "r",
        "verdict": "fail" if lost else "pass",
        "checks": [
            check("delivery", {"acked": 100}, anomalies),
            check("throughput", {"window_s": 60, "kafka": kafka}),
            check("latency", {"kafka": {"ack_p99_ms": p99}, "clock_error_ms": 0.2}),
            check("rebalance", {"restarts": 4, "produce_gap_s": gap, "by_restart": []}),
        ],
    }


def changes(before: list[dict[str, Any]], after: list[dict[str, Any]], noise: float = 0.1) -> dict[str, str]:
    found = compare({"after": [(before, after)]}, noise)["after"]
    return {one.name: one.change for one in found if one.change != "same"}


P99, RATE = "latency.kafka.ack_p99_ms", "throughput.kafka.mean_records_per_s"


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ([run()], [run()], {}),
        ([run(p99=20)], [run(p99=21)], {}),
        ([run(p99=20)], [run(p99=30)], {P99: "worse"}),
        ([run(p99=20)], [run(p99=10)], {P99: "better"}),
        ([run(rate=50_000)], [run(rate=40_000)], {RATE: "worse"}),
        ([run(rate=40_000)], [run(rate=50_000)], {RATE: "better"}),
        # Two repetitions come in this order by chance in one of three cases, however far they lie apart.
        ([run(p99=20), run(p99=21)], [run(p99=43), run(p99=44)], {}),
        ([run(p99=20 + n) for n in range(5)], [run(p99=25 + n) for n in range(5)], {P99: "worse"}),
        ([run(p99=20 + 3 * n) for n in range(5)], [run(p99=21 + 3 * n) for n in range(5)], {}),
        ([run(rate=100 + n) for n in range(5)], [run(rate=90 + n) for n in range(5)], {RATE: "worse"}),
        # One lost record needs no statistics.
        ([run(), run(), run()], [run(), run(), run(lost=1)], {"anomalies.delivery.lost": "worse"}),
        # One lost record is worse, whatever the noise.
        ([run()], [run(lost=1)], {"anomalies.delivery.lost": "worse"}),
        ([run(lost=3)], [run()], {"anomalies.delivery.lost": "better"}),
        # What both runs have is a count like any other measure.
        ([run(lost=100)], [run(lost=105)], {}),
        ([run(lost=100)], [run(lost=150)], {"anomalies.delivery.lost": "worse"}),
    ],
)
def test_what_differs_by_more_than_the_noise_got_better_or_worse(
    before: list[dict[str, Any]], after: list[dict[str, Any]], expected: dict[str, str]
) -> None:
    assert changes(before, after) == expected


def test_of_repetitions_the_median_and_the_99th_percentile_of_latencies_are_judged() -> None:
    """A percentile more would make it harder to tell a difference in these."""
    before = {
        f"{of}_{end}_ms": 20.0 for of in ("ack", "delivery") for end in ("p50", "p95", "p99", "p999", "max")
    }

    def side(by: float) -> list[dict[str, Any]]:
        documents = [run() for _ in range(5)]
        for number, one in enumerate(documents):
            one["checks"][2]["measured"] = {"rest": {name: ms + number + by for name, ms in before.items()}}
        return documents

    found = compare({"after": [(side(0), side(10))]})["after"]
    assert {one.name.rpartition(".")[2] for one in found if one.change == "worse"} == {
        "ack_p50_ms", "ack_p99_ms", "delivery_p50_ms", "delivery_p99_ms",
    }  # fmt: skip


def test_several_sides_share_one_chance_of_a_false_alarm() -> None:
    """What is enough for one side alone is not, once it is one of many that were looked at."""
    base, slow = [run(p99=20 + n) for n in range(4)], [run(p99=30 + n) for n in range(4)]

    def changed(sides: int) -> set[str]:
        found = compare({str(n): [(base, slow)] for n in range(sides)})
        return {one.change for many in found.values() for one in many if one.name == P99}

    assert changed(1) == {"worse"}
    assert changed(2) == {"same"}


def test_a_check_that_lost_its_level_is_named_and_is_not_worse(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before, after = run(), run()
    after["checks"][2]["verdict"] = after["verdict"] = "measured"
    for name, document in (("a", before), ("b", after)):
        (tmp_path / f"{name}.json").write_text(json.dumps(document))
    assert main(["compare", str(tmp_path / "a.json"), str(tmp_path / "b.json")]) == 0
    said = capsys.readouterr().out
    assert "not the same levels: latency was pass and is measured" in said
    assert "r measured" in said


def test_a_load_that_was_not_the_same_is_named() -> None:
    assert asked_otherwise([run()], [run(offered=40_000)]) == [
        "throughput.kafka.offered_records_per_s was 50,000 and is 40,000"
    ]
    assert asked_otherwise([run()], [run(offered=49_900)]) == []


def write(folder: Path, name: str, document: Any) -> str:
    report = folder / name / "report"
    report.mkdir(parents=True)
    (report / "verdicts.json").write_text(json.dumps(document))
    return str(folder / name)


def test_the_command_says_what_got_worse_and_how_noise_was_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    one, two = write(tmp_path, "one", run()), write(tmp_path, "two", run(p99=40))
    assert main(["compare", one, two]) == 1
    out = capsys.readouterr().out
    assert P99 in out
    assert "+100.0%" in out
    assert "10% of the value was taken for it" in out
    assert main(["compare", two, f"{one},{one}/report"]) == 0
    assert "10% of the value was taken for it" in capsys.readouterr().out
    # Fewer repetitions than could ever show a difference are said to be.
    assert main(["compare", f"{one},{two}", f"{two},{one}"]) == 0
    assert "repeat both sides more often" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["", "[]", '{"run_id": 1}'])
def test_what_is_no_verdict_is_refused_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    good, bad = write(tmp_path, "good", run()), write(tmp_path, "bad", {})
    file = Path(bad) / "report" / "verdicts.json"
    file.write_text(text)
    assert main(["compare", good, bad]) == 2
    line = capsys.readouterr().err
    assert line.startswith(f"error: {file}: is no verdicts.json")
    assert line.count("\n") == 1
    assert main(["compare", good, str(tmp_path / "nowhere")]) == 2
    assert f"{tmp_path / 'nowhere'}: no verdicts.json there" in capsys.readouterr().err


def test_latency_of_an_applications_outputs_is_judged() -> None:
    def document(p99: float) -> dict[str, Any]:
        measured = {"joins": {"due_records": 100, "latency_p99_ms": p99}}
        check = {"name": "outputs", "verdict": "pass", "measured": measured, "anomalies": {}}
        return {"run_id": "r", "verdict": "pass", "checks": [check]}

    blocks = [([document(10), document(11)], [document(20), document(21)])] * 4
    (figure,) = [one for one in compare({"b": blocks})["b"] if one.chance is not None]
    assert (figure.name, figure.change) == ("outputs.joins.latency_p99_ms", "worse")


@pytest.mark.parametrize(
    ("step", "name"),
    [
        ("ready", "rebalance.until_ready_s"),
        ("start", "rebalance.until_ready_s"),
        ("drain", "rebalance.steps_s.drain"),
        ("control", "rebalance.steps_s.control"),
        # It is asked for how long a canary instance soaks.
        ("hold", None),
    ],
)
def test_the_steps_of_restarts_and_their_time_until_ready_are_compared(step: str, name: str | None) -> None:
    def document(number: int, more: float) -> dict[str, Any]:
        usual = {"drain": 2.0, "stop": 1.0, "start": 0.1, "ready": 7.0, "hold": 5.0, "control": 2.5}
        rows = [{"steps_s": {**usual, step: usual[step] + more + number * 0.01 + n}} for n in range(2)]
        check = {"name": "rebalance", "verdict": "pass", "measured": {"by_restart": rows}, "anomalies": {}}
        return {"run_id": "r", "verdict": "pass", "checks": [check]}

    blocks = [([document(0, 0), document(1, 0)], [document(0, 4), document(1, 4)])] * 4
    changed = {one.name: one.change for one in compare({"b": blocks})["b"] if one.change != "same"}
    assert changed == ({name: "worse"} if name else {})
    back = {"b": [(two, one) for one, two in blocks]}
    changed = {one.name: one.change for one in compare(back)["b"] if one.change != "same"}
    assert changed == ({name: "better"} if name else {})


def test_a_restart_without_its_steps_is_compared_by_what_it_has() -> None:
    """An instance that did not become ready has no such time, and a run without restarts no steps."""

    def document(rows: list[dict[str, Any]]) -> dict[str, Any]:
        check = {"name": "rebalance", "verdict": "pass", "measured": {"by_restart": rows}, "anomalies": {}}
        return {"run_id": "r", "verdict": "pass", "checks": [check]}

    stopped = document([{"steps_s": {"stop": 2.0}}, {}])
    found = compare({"b": [([stopped], [stopped])]})["b"]
    assert [(one.name, one.before) for one in found] == [("rebalance.steps_s.stop", (2.0,))]


def test_a_side_that_collapses_looks_no_better_for_what_it_did_not_survive() -> None:
    """Quick while it lasts: of its repetitions that went on, each was quicker than any of the other side."""
    base = [run(p99=20, rate=100, gap=2), run(p99=21, rate=101, gap=2.1)]
    lasted = run(p99=10, rate=110, gap=1)
    without = changes_of([(base, [lasted])] * 6)
    assert (without[P99], without[RATE], without["rebalance.produce_gap_s"]) == ("better",) * 3
    assert changes_of([(base, [lasted, collapsed("r")])] * 6) == {}
    # In the figures stands how many did.
    found = compare({"b": [(base, [lasted, collapsed("r")])] * 6})["b"]
    fell = next(one for one in found if one.name == COLLAPSED)
    assert (sum(fell.before), sum(fell.after)) == (0, 6)


def test_a_side_that_always_collapses_is_worse_and_better_in_nothing() -> None:
    base = [run(p99=20, rate=100), run(p99=21, rate=99, lost=1)]
    always = [collapsed("a"), collapsed("b")]
    found = changes_of([(base, always)] * 6)
    # What nobody looked for is not lost no more.
    assert found == {COLLAPSED: "worse", "anomalies.delivery.lost": "gone"}
    assert changes_of([(always, base)] * 6)[COLLAPSED] == "better"


def changes_of(blocks: list[Any]) -> dict[str, str]:
    return {one.name: one.change for one in compare({"b": blocks})["b"] if one.change != "same"}
