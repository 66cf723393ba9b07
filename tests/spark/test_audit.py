"""The whole audit on made-up evidence: it passes when good, and names the one record that was taken away."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any, Literal, NamedTuple
from xml.etree import ElementTree

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import yaml
from playwright.sync_api import Browser, sync_playwright
from pyspark.sql import SparkSession
from rich.console import Console

from kedge.evidence.errors import EvidenceError
from kedge.evidence.levels import DeliveryLevels, Levels
from kedge.evidence.run import DeployedService, Machine, Subject
from kedge.setup import packages as machine
from spark_checks.checks import partitions
from spark_checks.command import main
from spark_checks.engine import session
from spark_checks.job import Audit, audit
from spark_checks.report import documents, terminal
from spark_checks.report import page as report
from spark_checks.report.history import beside_earlier, figures_of
from spark_checks.results import Earlier, Figure, Recommendation, Result, Verdict, more_partitions
from tests.faults.synthetic import STARTED_US, write_evidence, write_file, write_table
from tests.spark.frames import scanned

pytestmark = pytest.mark.spark

LEVELS = {
    "throughput": {"rest": {"records_per_s": 9}},
    "latency": {"rest": {"delivery_p99_ms": 100}},
    "rebalance": {"produce_gap_s": 5, "consume_stall_s": 15, "not_stable_s": 1.2, "min_restarts": 2},
    "memory": {},
}


class Audited(NamedTuple):
    """An audit, and the rows that it read of each table."""

    done: Audit
    read: Counter[str]


@pytest.fixture(scope="module")
def audited(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Audited:
    folder = tmp_path_factory.mktemp("good")
    write_evidence(folder, 11_000, mirrored=True)
    application(folder, seconds=20)
    with scanned(spark) as read:
        done = audit(spark, str(folder), Levels.model_validate(LEVELS))
    return Audited(done, read)


def application(folder: Path, seconds: int) -> None:
    """Add what an application told of its memory, a sample a second, and its plan."""
    who = {"host": "h1", "service": "streams-app", "instance": "copies-0"}
    at = [STARTED_US + second * 1_000_000 for second in range(seconds + 1)]
    write_table(folder, "rocksdb", who | {"at_us": at, "rss_bytes": 100 << 20, "heap_bytes": 50 << 20})
    planned = ["200M", "-Xmx100m"]
    keys = {"key": ["MemoryMax", "KAFKA_HEAP_OPTS"], "file": "unit", "planned": planned, "running": planned}
    write_table(folder, "settings", who | keys, "application-0")


@pytest.fixture(scope="module")
def passed(audited: Audited) -> Audit:
    return audited.done


def test_good_evidence_passes_every_check(passed: Audit) -> None:
    wanted = dict.fromkeys(("delivery", "throughput", "latency", "rebalance"), "pass")
    # Nobody gave a level of zombies.
    wanted |= {"zombies": "measured", "mirror": "pass", "settings": "pass", "partitions": "pass"}
    wanted["memory"] = "pass"
    assert {result.name: result.verdict for result in passed.results} == wanted
    for result in passed.results:
        assert result.verdict in {figure.verdict for figure in result.figures}, result.name
        assert {figure.verdict for figure in result.figures} <= {"pass", "measured"}, result.name
    assert passed.verdict == "pass"
    assert not [result.anomalies for result in passed.results if result.anomalies]


def test_a_table_is_read_a_few_times(audited: Audited) -> None:
    """What several checks need is summed up once and kept: passes over each table, by Spark's counters."""
    whole = {name: audited.done.evidence.need(name).count() for name in audited.read}
    passes = {name: rows / whole[name] for name, rows in audited.read.items()}
    # The ledger once for sums, times to the acknowledgement, and grains. Of records the mirror has two more.
    assert passes["ledger"] <= 3
    assert passes["records"] <= 5.1
    assert passes["deliveries"] <= 4
    # What was sampled is kept as it is read.
    sampled = ("end_offsets", "group_states", "assignments", "rocksdb")
    assert {name: passes[name] for name in sampled} == dict.fromkeys(sampled, 1)


def test_an_audit_keeps_nothing_in_its_session(spark: SparkSession, tmp_path: Path) -> None:
    """Spark takes equal plans for one: files that were written again would be answered from what it kept."""
    write_evidence(tmp_path, 1_100)
    kept = {*spark.sparkContext._jsc.getPersistentRDDs()}
    assert lost(audit(spark, str(tmp_path), Levels())) == 0
    file = next((tmp_path / "records").glob("*.parquet"))
    whole = pq.read_table(file)
    write_file(file, whole.slice(3))
    assert lost(audit(spark, str(tmp_path), Levels())) == 3
    write_file(file, pa.concat_tables([whole, whole]))
    with pytest.raises(EvidenceError):
        audit(spark, str(tmp_path), Levels())
    assert {*spark.sparkContext._jsc.getPersistentRDDs()} <= kept
    assert spark._jsparkSession.sharedState().cacheManager().isEmpty()


def lost(done: Audit) -> int:
    found = done.results[0].anomalies.get("lost")
    return found.count if found else 0


def test_verdicts_have_the_shape_that_others_read(passed: Audit) -> None:
    document = json.loads(json.dumps(documents.verdicts(passed)))
    assert set(document) == {"schema", "kit", "run_id", "verdict", "checks", "timings_s"}
    keys = {"name", "verdict", "slo", "figures", "measured", "anomalies", "because", "recommendations"}
    assert all(set(check) == keys for check in document["checks"])


def test_the_report_stands_alone_and_says_what_was_counted(passed: Audit) -> None:
    page = report.render(passed)
    own = page[: page.index("<script>")]
    assert not re.search(r"(src|href)=[\"']?(https?:)?//", own)
    assert "lost [lost-write]" in own.replace("</b>", "").replace("<b>", "")
    figures = json.loads(page.split('id="figures">')[1].split("</script>")[0])
    bands = [shape for shape in figures["timeline"]["layout"]["shapes"] if shape["type"] == "rect"]
    assert len(bands) == len(passed.restarts) == 2
    layout = figures["timeline"]["layout"]
    rows = [axis for key, axis in layout.items() if key.startswith("yaxis")]
    assert all(axis["title"]["text"] for axis in rows)
    assert layout["xaxis" if len(rows) == 1 else f"xaxis{len(rows)}"]["title"]["text"]


def test_the_head_of_the_report_says_what_was_tested_and_what_is_not_recorded(passed: Audit) -> None:
    before = report.render(passed).partition('id="verdicts"')[0]
    assert "not recorded" in before.partition('id="tested"')[2]
    about = Subject(
        plan="0123456789abcdef",
        services=[DeployedService(service="kafka_rest", distribution="confluent", version="8.3.1",
                                hosts=["rest1", "rest2"], instances=4)],
        machines=[Machine(hosts=["rest1", "rest2"], load=True, cores=2, memory_mib=24105)],
    )  # fmt: skip
    run = passed.evidence.run.model_copy(update={"subject": about})
    page = report.render(replace(passed, evidence=replace(passed.evidence, run=run)))
    head = page.partition('id="tested"')[2].partition("</section>")[0]
    for said in (
        run.run_id,
        "kafka_rest: confluent 8.3.1, 4 instances on rest1, rest2",
        "one machine with 2 cores, 23.5 GiB",
        "fingerprint 0123456789abcdef",
    ):
        assert said in head


def test_a_producer_that_run_json_lacks_is_drawn_too(passed: Audit) -> None:
    run = passed.evidence.run
    mine = {number: one for number, one in run.producers.items() if one.via == "kafka"}
    lacking = replace(passed.evidence, run=run.model_copy(update={"producers": mine}))
    assert "rest ack p99" in report.render(replace(passed, evidence=lacking))


def run_of(one: Audit, number: int, ms: float | None = None, verdict: Verdict = "pass", **run: Any) -> Audit:
    """Return an audit as one of another run, the latency of whose first figure is given."""
    start = one.evidence.run.started_us + number * 1_000_000
    other = one.evidence.run.model_copy(update={"run_id": f"2026-{number}", "started_us": start, **run})
    figure = Figure("ack p99", ms, 100, "ms", doubtful=verdict == "unknown")
    return replace(
        one,
        evidence=replace(one.evidence, run=other),
        results=(Result("latency", verdict, "", figures=(figure,)),),
    )


def noted(audits: Iterable[Audit], history: Path) -> None:
    """Write what the audits would have noted."""
    rows = [row for one in audits for row in figures_of(one)]
    pq.write_to_dataset(pa.Table.from_pylist(rows), str(history), partition_cols=["run_id"])


def test_a_figure_stands_beside_earlier_runs_of_its_subject(passed: Audit, tmp_path: Path) -> None:
    first = beside_earlier(run_of(passed, 10, 90), str(tmp_path))
    assert first.results[0].figures[0].earlier is None
    # Another audit of a run takes the place of the one before.
    beside_earlier(run_of(passed, 10, 10), str(tmp_path))
    # Neither what nobody knows, nor another subject, nor a later run is looked back at.
    noted(
        [
            *(run_of(passed, number, number) for number in range(11, 15)),
            run_of(passed, 15, 1, "unknown"),
            run_of(passed, 16, 2, subject=Subject(services=[DeployedService(service="mirror_maker")])),
            run_of(passed, 30, 99),
        ],
        tmp_path,
    )
    worse = beside_earlier(run_of(passed, 20, 15), str(tmp_path))
    (figure,) = worse.results[0].figures
    assert figure.earlier == Earlier(5, 12, 10, 14)
    assert figure.before() == "12 ms in the last 5 runs (10 to 14)"
    assert figure.worse_than_before
    assert not replace(figure, value=14).worse_than_before
    assert "worse than in each of them" in report.render(worse)
    assert documents.verdicts(worse)["checks"][0]["figures"][0]["earlier"]["runs"] == 5
    terminal.show(worse, Console(file=(printed := StringIO()), width=200))
    assert "12 ms in the last 5 runs (10 to 14), worse than in each of them" in printed.getvalue()


def test_no_more_than_the_last_twenty_runs_are_looked_back_at(passed: Audit, tmp_path: Path) -> None:
    noted([run_of(passed, number, number) for number in range(22)], tmp_path)
    found = beside_earlier(run_of(passed, 22, 5), str(tmp_path))
    assert found.results[0].figures[0].earlier == Earlier(20, 11.5, 2, 21)


def test_a_history_that_cannot_be_read_is_named(passed: Audit, tmp_path: Path) -> None:
    (tmp_path / "run_id=1").mkdir()
    (tmp_path / "run_id=1" / "part-0.parquet").write_text("no Parquet")
    with pytest.raises(EvidenceError, match=r"part-0\.parquet: cannot be read as Parquet"):
        beside_earlier(run_of(passed, 1, 1), str(tmp_path))


def test_what_was_only_measured_is_not_green(passed: Audit) -> None:
    page = report.render(passed)
    section = page.partition('<section id="zombies">')[2].partition("</section>")[0]
    assert '<span class="badge measured">measured</span> zombies' in section
    assert "none given" in section
    assert 'class="badge pass"' not in section


def test_a_run_without_levels_ends_with_a_status_of_its_own(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(session, "start", lambda *_, **__: spark)
    monkeypatch.setattr(SparkSession, "stop", lambda _: None)
    write_evidence(tmp_path / "evidence", 11_000)
    slo = tmp_path / "slo.yml"
    none = dict.fromkeys(DeliveryLevels.model_fields)
    slo.write_text(yaml.safe_dump({"delivery": none, "settings": {"different": None}}))
    # What is not known stays unknown, level or not.
    arguments = ["--evidence", str(tmp_path / "evidence"), "--slo", str(slo), "--out", str(tmp_path / "out")]
    monkeypatch.setattr(partitions, "_target", lambda *_: 0.0)
    assert main(arguments) == 3
    assert "verdict: measured: no check had a level" in capsys.readouterr().out
    assert json.loads((tmp_path / "out" / "verdicts.json").read_text())["verdict"] == "measured"


def test_one_missing_record_fails_the_command_and_is_named(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command in this process: tests/kafka and tests/e2e start it as one of its own."""
    monkeypatch.setattr(session, "start", lambda *_, **__: spark)
    monkeypatch.setattr(SparkSession, "stop", lambda _: None)
    evidence, out = tmp_path / "evidence", tmp_path / "report"
    write_evidence(evidence, 11_000)
    file = next((evidence / "records").glob("rest-*.parquet"))
    table = pq.read_table(file)
    gone = table.filter(pc.equal(table["seq"], 123)).to_pylist()[0]
    write_file(file, table.filter(pc.not_equal(table["seq"], 123)))
    slo = tmp_path / "slo.yml"
    slo.write_text("rebalance: {min_restarts: 2}\n")
    status = main(["--evidence", str(evidence), "--slo", str(slo), "--out", str(out)])
    printed = capsys.readouterr().out
    assert status == 1, printed
    place = {key: gone[key] for key in ("producer", "seq", "topic", "partition", "offset")}
    line = "lost: " + ", ".join(f"{key} {value}" for key, value in place.items())
    assert line in printed
    document = json.loads((out / "verdicts.json").read_text())
    assert document["verdict"] == "fail"
    (lost,) = document["checks"][0]["anomalies"].values()
    assert lost["count"] == 1
    assert place.items() <= lost["examples"][0].items()
    suite = ElementTree.parse(out / "junit.xml").getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("7", "1", "0")
    # Nobody gave a level of latency, throughput or zombies.
    assert suite.get("skipped") == "3"
    assert (out / "report.html").stat().st_size > 1_000_000
    assert "acks=all" in (out / "recommendations.yml").read_text()


def test_recommendations_are_one_mapping_with_the_reasons_above(passed: Audit) -> None:
    def flow(name: str) -> Recommendation:
        return Recommendation(
            "follow the fill times", f"of {name}", "mirror_maker_flows", {name: {"fill_ms_p95": 1}}
        )

    more = Recommendation("Give orders 6", "one carried 1", *more_partitions("orders", "leaf", 6))
    advice = Recommendation("Produce with acks=all", "1 is gone")
    results = [replace(passed.results[0], name=name, recommendations=given) for name, given in
               (("mirror", (flow("logs"), flow("metrics"))), ("partitions", (more, advice)))]  # fmt: skip
    text = documents.recommendations(replace(passed, results=tuple(results)))
    assert yaml.safe_load(text)["recommended"] == {
        "mirror_maker_flows": {"logs": {"fill_ms_p95": 1}, "metrics": {"fill_ms_p95": 1}},
        "kafka_topics": [{"name": "orders", "cluster": "leaf", "partitions": 6}],
    }
    lines = text.splitlines()
    at = lines.index("  mirror_maker_flows:")
    assert lines[at - 2 : at] == [
        f"  # mirror: follow the fill times: of {name}." for name in ("logs", "metrics")
    ]
    assert "# partitions: Produce with acks=all: 1 is gone." in lines
    assert yaml.safe_load(documents.recommendations(passed)) == {"recommended": {}}


@pytest.fixture
def browser() -> Iterator[Browser]:
    program = machine.browser()
    if program is None:
        pytest.skip("no Chromium is installed: make test-fast")
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.mark.parametrize(
    ("scheme", "width"), [("light", 1280), ("dark", 1280), ("light", 390)], ids=["light", "dark", "phone"]
)
def test_a_browser_draws_the_report_without_a_word_or_a_request(
    passed: Audit, tmp_path: Path, browser: Browser, scheme: Literal["light", "dark"], width: int
) -> None:
    file = tmp_path / "report.html"
    file.write_text(report.render(passed), encoding="utf-8")
    page = browser.new_page(color_scheme=scheme, viewport={"width": width, "height": 900})
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(file.as_uri())
    page.wait_for_function("document.querySelectorAll('.plot .main-svg').length > 0")
    drawn = page.evaluate(
        "[...document.querySelectorAll('.plot')].filter(plot => plot.offsetParent)"
        ".map(plot => [plot.id, plot.querySelectorAll('.trace path').length])"
    )
    assert {"timeline", "ownership", "latency-chart"} <= {name for name, _ in drawn}
    assert all(paths for _, paths in drawn), drawn
    assert said == []
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
    # Only tables and charts may be moved sideways, never the page.
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == ("rgb(20, 23, 27)" if scheme == "dark" else "rgb(255, 255, 255)")
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 720, "height": 900})
    # What lies outside of a table's frame can be reached on a screen, not on paper.
    wide = (
        "[...document.querySelectorAll('.wide')].filter(box => box.scrollWidth > box.clientWidth + 1).length"
    )
    assert page.evaluate(wide) == 0
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert len(page.pdf()) > 20_000
