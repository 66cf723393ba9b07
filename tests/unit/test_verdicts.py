"""What checks answer, in words: a level for each figure or none, a line a check, and what a run comes to."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast
from xml.etree import ElementTree

import pytest
import yaml
from rich.console import Console

from spark_checks.checks import latency as latency_check
from spark_checks.command import _STATUS
from spark_checks.job import Audit
from spark_checks.rebalance.restarts import Restart
from spark_checks.report import documents, terminal
from spark_checks.report.answer import answer
from spark_checks.results import (
    Anomaly,
    Earlier,
    Figure,
    Recommendation,
    Result,
    Verdict,
    compose,
    concluded,
    judge,
    rounded,
)

ACK = Figure("kafka ack p99", 182.34, 500, "ms", key="latency.kafka.ack_p99_ms")
LOST = Figure("lost", 0, 0, key="delivery.lost", of=4_912_332)
RATE = Figure("kafka", 50_112.4, 50_000, "/s", key="throughput.kafka.records_per_s", least=True)


@pytest.mark.parametrize(
    ("figure", "verdict", "words"),
    [
        (ACK, "pass", "kafka ack p99 182 ms of 500 ms allowed"),
        (replace(ACK, value=3301.7), "fail", "kafka ack p99 3,302 ms of 500 ms allowed"),
        (replace(ACK, level=None), "measured", "kafka ack p99 182 ms"),
        (replace(ACK, value=None), "unknown", "kafka ack p99 not measured of 500 ms allowed"),
        (replace(ACK, doubtful=True), "unknown", "kafka ack p99 182 ms of 500 ms allowed"),
        # What three digits do not tell from the level is told with more of them.
        (replace(ACK, value=500.04), "fail", "kafka ack p99 500.04 ms of 500 ms allowed"),
        (LOST, "pass", "0 lost of 4,912,332"),
        (replace(LOST, value=3), "fail", "3 lost of 4,912,332, 0 allowed"),
        (replace(LOST, value=3, level=5), "pass", "3 lost of 4,912,332, 5 allowed"),
        (Figure("redelivered", 26_330, None), "measured", "26,330 redelivered"),
        (Figure("duplicated", 2, 1), "fail", "2 duplicated of 1 allowed"),
        (RATE, "pass", "kafka 50,112/s of 50,000/s asked"),
        (replace(RATE, value=43_377.2), "fail", "kafka 43,377/s of 50,000/s asked"),
        (Figure("restarts", 3, 4, least=True), "fail", "3 restarts of 4 asked"),
        (Figure("delay", 0.0, 0.0, "s"), "pass", "delay 0 s of 0 s allowed"),
        (Figure("t needs", 7, 6, "partitions", said="t needs 7 of 6"), "fail", "t needs 7 of 6"),
    ],
)
def test_a_figure_says_what_was_measured_against_which_level(
    figure: Figure, verdict: Verdict, words: str
) -> None:
    assert (figure.verdict, figure.words()) == (verdict, words)


@pytest.mark.parametrize(
    ("value", "beside", "text"),
    [
        (0.1234, None, "0.123"),
        (29_400.6, None, "29,401"),
        (499.996, 500.0, "499.996"),
        (12.0, 12.0, "12"),
        (1e-9, 0.0, "1e-09"),
    ],
)
def test_a_figure_has_as_many_digits_as_it_takes(value: float, beside: float | None, text: str) -> None:
    assert rounded(value, beside) == text


@pytest.mark.parametrize(
    ("verdicts", "whole"),
    [
        (["pass", "measured"], "pass"),
        (["measured", "measured"], "measured"),
        (["measured", "unknown"], "unknown"),
        (["measured", "unknown", "fail"], "fail"),
        ([], "unknown"),
    ],
)
def test_what_was_only_measured_counts_neither_for_nor_against(
    verdicts: list[Verdict], whole: Verdict
) -> None:
    assert compose(verdicts) == whole


def test_without_a_level_nothing_passes_and_what_is_wrong_still_counts() -> None:
    assert judge([], [], "fine", judged=True) == ("pass", "fine")
    assert judge([], [], "fine", judged=False) == ("measured", "no level given; fine")
    assert judge([], ["not seen"], "fine", judged=False) == ("unknown", "not seen")
    assert judge(["gone"], [], "fine", judged=False) == ("fail", "gone")
    free = replace(ACK, level=None)
    assert concluded("latency", [], [], "fine", [ACK, free]).verdict == "pass"
    assert concluded("latency", [], [], "fine", [free]).verdict == "measured"
    assert concluded("latency", [], [], "fine", [free], judged=True).verdict == "pass"


def test_a_pipeline_is_green_only_where_something_was_judged() -> None:
    assert _STATUS == {"pass": 0, "fail": 1, "unknown": 1, "measured": 3}


def of(*results: Result) -> Audit:
    verdict = compose(result.verdict for result in results)
    return Audit("r", verdict, results, cast(Any, None), (), None, {"all": 1.0})


def latency(verdict: Verdict, figures: Sequence[Figure], because: str = "because") -> Result:
    return Result("latency", verdict, because, figures=tuple(figures))


UNJUDGED = latency("measured", [replace(ACK, level=None)], "no level given; kafka ack p99 182.3 ms")


def shown(*results: Result) -> list[str]:
    text = io.StringIO()
    terminal.show(of(*results), Console(file=text, width=40))
    return text.getvalue().splitlines()


def test_the_summary_has_a_line_a_check_with_figures_and_levels_in_columns() -> None:
    delivery = Result("delivery", "pass", "all there", figures=(LOST,))
    throughput = Result("throughput", "fail", "kafka: 43,377 records/s, the level is 50,000",
                        figures=(replace(RATE, value=43_377.2),))  # fmt: skip
    assert shown(delivery, throughput, UNJUDGED) == [
        "Audit of run r",
        "pass      delivery    0 lost of 4,912,332",
        "fail      throughput  kafka 43,377/s of 50,000/s asked",
        "measured  latency     kafka ack p99 182 ms; no level given",
        "throughput: kafka: 43,377 records/s, the level is 50,000",
        "verdict: fail",
    ]


def test_the_report_opens_with_whether_to_go_on_what_got_worse_and_what_to_do() -> None:
    delivery = Result("delivery", "pass", "all there", figures=(LOST,))
    good = answer(of(delivery, UNJUDGED))
    assert (good.safe, good.next) == ("Yes", ("Go on",))
    assert good.why == "0 lost of 4,912,332 records; delivery passed; latency had no level."
    assert good.worse == (
        "There is no earlier run of the same subject to compare with; no level was missed.",
    )
    slow = Recommendation("more partitions", "too few", "kafka_topics", [])
    short = replace(RATE, value=43_377.2)
    rate = Result("throughput", "fail", "too few", figures=(short,), recommendations=(slow,))
    restart = Restart(1, "rest1", "kafka_rest", "8082", 0, 1, 1)
    bad = answer(replace(of(delivery, rate), restarts=(restart,)))
    assert bad.safe == "No"
    assert bad.why.startswith("throughput failed; 0 lost")
    assert bad.worse[0] == "throughput: kafka 43,377/s of 50,000/s asked: 13% less than asked"
    assert bad.next == (
        "If clients suffer, go back: rollback.yml -e service=kafka_rest",
        "Read below what throughput found",
        "more partitions (kafka_topics)",
        "What the recommendations would change: plan.yml -e @recommendations.yml",
    )


@pytest.mark.parametrize(
    ("verdict", "safe", "next_"),
    [
        ("unknown", "Not known", "See below which evidence latency lacked, and verify again"),
        ("measured", "Not judged", "Set the levels that you need in service_levels: recommendations.yml has "
                                   "what was measured"),
    ],
)  # fmt: skip
def test_a_run_without_a_judgement_says_what_it_lacks(verdict: Verdict, safe: str, next_: str) -> None:
    said = answer(of(latency(verdict, [])))
    assert (said.safe, said.next) == (safe, (next_,))


def test_what_is_worse_than_in_earlier_runs_is_named_with_its_share() -> None:
    before = Earlier(12, 120.0, 100.0, 150.0)
    said = answer(of(latency("pass", [replace(ACK, earlier=before)])))
    assert said.worse == (
        "latency: kafka ack p99 182 ms, worse than in each of the last 12 runs: 52% more than their median",
    )
    assert said.next == ("Go on, and watch what got worse",)
    unlike = answer(of(latency("pass", [replace(ACK, value=130, earlier=before)])))
    assert unlike.worse == ("No figure is worse than in each of the last 12 runs.",)


def test_a_run_of_which_nothing_was_judged_says_so() -> None:
    assert shown(UNJUDGED)[-1].startswith("verdict: measured: no check had a level, so nothing was judged")


def test_a_figure_without_a_level_is_marked_beside_one_that_has_a_level() -> None:
    result = latency("pass", [ACK, Figure("rest ack p99", 9.0, None, "ms")])
    assert (
        terminal.summary(result, 90) == "kafka ack p99 182 ms of 500 ms allowed; rest ack p99 9 ms (no level)"
    )


def test_what_decided_the_verdict_comes_first() -> None:
    result = latency("fail", [ACK, replace(ACK, what="rest ack p99", value=900)])
    assert terminal.summary(result, 90).startswith("rest ack p99 900 ms of 500 ms allowed; kafka ack")
    # A reason that is no figure's is said in its own words.
    unready = Result("rebalance", "fail", "rest1 8082 did not become ready again", figures=(ACK,))
    assert terminal.summary(unready, 90) == "rest1 8082 did not become ready again"


def test_what_does_not_fit_is_counted() -> None:
    costs = [Figure(f"{what} stall", 2.16, 5, "s") for what in ("produce", "consume", "third", "fourth")]
    said = terminal.summary(Result("rebalance", "pass", "fine", figures=tuple(costs)), 78)
    assert said == "produce stall 2.16 s of 5 s allowed; consume stall 2.16 s of 5 s allowed; +2"


def test_verdicts_tell_each_figure_with_its_level() -> None:
    document = json.loads(json.dumps(documents.verdicts(of(latency("pass", [ACK, RATE])))))
    assert document["checks"][0]["figures"][0] == {
        "what": "kafka ack p99",
        "value": 182.34,
        "unit": "ms",
        "level": 500,
        "verdict": "pass",
        "service_level": "latency.kafka.ack_p99_ms",
    }


def test_what_a_clock_cannot_tell_is_neither_above_its_level_nor_below() -> None:
    slo = {"rest": {"append_p99_ms": 100, "ack_p99_ms": 100}}
    for append, shifted in ((90, True), (100.5, False)):
        measured = {"rest": {"append_p99_ms": append, "ack_p99_ms": 200}}
        figures = latency_check._figures(slo, measured)
        shown, problems, doubts = latency_check._against(figures, 1.0, shifted=shifted)
        assert [one.key for one in shown if one.doubtful] == ["latency.rest.append_p99_ms"]
        assert (len(problems), len(doubts)) == (1, 1)


def test_in_junit_what_was_only_measured_is_skipped_with_the_reason() -> None:
    failed = Result("delivery", "fail", "3 lost", anomalies={"lost": Anomaly(3)}, figures=(LOST,))
    suite = ElementTree.fromstring(documents.junit(of(failed, UNJUDGED)))
    assert {key: suite.get(key) for key in ("tests", "failures", "errors", "skipped")} == {
        "tests": "2", "failures": "1", "errors": "0", "skipped": "1"
    }  # fmt: skip
    skipped = suite.find("testcase[@name='latency']/skipped")
    assert skipped is not None
    assert (skipped.get("message") or "").startswith("no level given")
    values = [one.get("value") for one in suite.iter("property")]
    assert values == ["pass: 0 lost of 4,912,332", "measured: kafka ack p99 182 ms"]


def test_recommendations_name_the_levels_that_would_have_it_judged() -> None:
    text = documents.recommendations(of(Result("delivery", "pass", "fine", figures=(LOST,)), UNJUDGED))
    assert "#   service_levels.latency.kafka.ack_p99_ms: kafka ack p99 182 ms\n" in text
    assert "delivery.lost" not in text
    assert yaml.safe_load(text) == {"recommended": {}}


#: What a proxy may send in a header: line ends of YAML and of text, a terminal's escape, what XML forbids.
_FOREIGN = "r\x85evil: 1\n---\nmore: 2\u2028x\u2029y\r\x1b[31m\x00\u202e\ud800"


def hostile() -> Audit:
    said = replace(UNJUDGED.figures[0], what=_FOREIGN)
    return replace(
        of(
            Result(
                "spread",
                "fail",
                _FOREIGN,
                anomalies={"uneven": Anomaly(1, ({"instance": _FOREIGN},))},
                figures=(replace(LOST, what=_FOREIGN),),
                recommendations=(
                    Recommendation(_FOREIGN, _FOREIGN, effect=_FOREIGN),
                    Recommendation(_FOREIGN, _FOREIGN, "advice", _FOREIGN[:-1], _FOREIGN),
                ),
            ),
            replace(UNJUDGED, figures=(said,), because=_FOREIGN),
        ),
        run_id=_FOREIGN,
    )


def test_nothing_that_a_proxy_says_ends_a_comment_of_the_recommendations() -> None:
    text = documents.recommendations(hostile())
    assert list(yaml.safe_load_all(text)) == [{"recommended": {"advice": _FOREIGN[:-1]}}]
    assert all(
        line.lstrip().startswith(("#", "---", "recommended:", "advice:")) for line in text.splitlines()
    )


def test_junit_is_xml_whatever_a_proxy_says() -> None:
    suite = ElementTree.fromstring(documents.junit(hostile()).encode())
    failure = suite.find("testcase/failure")
    assert failure is not None
    assert "\\x85evil" in (failure.get("message") or "")
    assert failure.text is not None
    assert len(failure.text.splitlines()) == 1


def test_no_escape_of_a_proxy_reaches_the_terminal() -> None:
    shown = io.StringIO()
    terminal.show(hostile(), Console(file=shown, width=100, color_system=None))
    assert not [c for c in shown.getvalue() if not c.isprintable() and c != "\n"]
