"""report.html of trials: what was found, latency over load, and every trial."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any, Final

from kedge.plan.service import LoadTest
from kedge.trials.bottleneck import STOLEN, said
from kedge.trials.figures import Compared
from kedge.trials.table import row
from spark_checks.report.charts import COLOURS, document, figure
from spark_checks.report.page import embedded, environment, number, plotly
from verify.trials.settings import TrialSettings
from verify.trials.trial import TrialResult

_BADGES: Final = {"better": "pass", "worse": "fail", "same": "measured", "new": "unknown", "gone": "unknown"}


def slug(text: str) -> str:
    """Return a name that a folder may have."""
    return re.sub(r"[^A-Za-z0-9.-]+", "-", Path(text).stem if "/" in text else text)


def of_capacity(
    run_dir: Path, settings: TrialSettings, answers: Sequence[tuple[str, str]], done: Sequence[TrialResult]
) -> str:
    """Return the page of a search; ``answers`` are what is carried and what the limit was, in words."""
    lines = list(settings.conditions)
    return _page(
        run_dir,
        settings,
        done,
        _over_load(done, lines, settings.test),
        title="What the hosts sustain",
        answers=list(answers),
    )


def of_comparison(
    run_dir: Path,
    settings: TrialSettings,
    variants: Sequence[str],
    found: Mapping[str, Sequence[Compared]],
    sure: Mapping[str, str],
    failed: Sequence[str],
    done: Sequence[TrialResult],
) -> str:
    """Return the page of a comparison: every variant against the first; ``failed`` names failed trials."""
    return _page(
        run_dir,
        settings,
        done,
        _over_trials(done, variants, settings.test),
        title=f"{', '.join(variants)} on the same load",
        chart_title="Latency of each load test",
        compared={
            variant: [(_BADGES[one.change], row(one)) for one in many if one.chance is not None]
            for variant, many in found.items()
        },
        base=variants[0],
        sure=sure,
        failed=list(failed),
    )


def _page(
    run_dir: Path, settings: TrialSettings, done: Sequence[TrialResult], latency: dict[str, Any], **more: Any
) -> str:
    given = {
        "run_id": run_dir.name,
        "service": settings.service,
        "hosts": settings.hosts,
        "minutes": round(sum(one.took_s for one in done) / 60),
        "answers": [],
        "compared": {},
        "base": "",
        "sure": {},
        "failed": [],
        "stolen": stolen(done),
        "p99_title": settings.test.axis,
        "chart_title": "Latency over load",
        "trials": [_trial(run_dir, one, settings.test) for one in done],
        "figures_json": embedded({"latency-load": latency}),
        "plotly": plotly(),
    }
    return environment("verify.trials").get_template("page.html.j2").render(**{**given, **more})


def stolen(done: Sequence[TrialResult]) -> str:
    """Say how much of the processors a hypervisor took, from trial to trial; nothing where it is little."""
    shares = [one.figures["stolen_share"] for one in done if "stolen_share" in one.figures]
    if max(shares, default=0.0) < STOLEN:
        return ""
    return (
        f"a hypervisor took {min(shares):.0%} to {max(shares):.0%} of a host's processors' time for other "
        "machines: load tests differ by as much"
    )


def _trial(run_dir: Path, one: TrialResult, test: LoadTest) -> dict[str, Any]:
    p99 = one.figures.get(test.figure)
    because = "" if one.passed else f"{one.because[:300]}; {said(one.limit)}"
    report = f"trials/{one.folder}/report/report.html"
    own = one.figures.get("generator_own_share")
    return {
        "number": one.number,
        "verdict": "pass" if one.passed else "fail" if one.judged else "unknown",
        "condition": one.condition,
        "kind": one.kind,
        "load": f"{one.load:,.0f}",
        "p99": "" if p99 is None else number(p99),
        "own": "" if own is None else f"{own:.0%}",
        "because": because,
        "report": f"../{report}" if (run_dir / report).exists() else "",
    }


def _over_load(done: Sequence[TrialResult], conditions: Sequence[str], test: LoadTest) -> dict[str, Any]:
    """Return p99 over intended load, a line a condition, through the trials that were audited."""
    traces = []
    for condition, colour in zip(conditions, cycle(COLOURS), strict=False):
        audited = _audited(done, test)
        mine = sorted((one for one in audited if one.condition == condition), key=lambda one: one.load)
        traces.append(
            {
                "mode": "lines+markers",
                "name": condition,
                "x": [one.load for one in mine],
                "y": _p99_ms(mine, test),
                "marker": {"symbol": ["circle" if one.passed else "x" for one in mine], "size": 9},
                "line": {"color": colour, "width": 2},
                "hovertemplate": "%{x:,.0f} records/s: p99 %{y:,.1f} ms",
            }
        )
    return _chart(traces, 420, "intended records/s; a cross did not meet the levels", test.axis)


def _over_trials(done: Sequence[TrialResult], variants: Sequence[str], test: LoadTest) -> dict[str, Any]:
    """Return p99 of each trial that was audited, in the order of time, a colour a variant."""
    traces = []
    for variant, colour in zip(variants, cycle(COLOURS), strict=False):
        mine = [one for one in _audited(done, test) if one.kind == variant]
        traces.append(
            {
                "mode": "markers",
                "name": variant,
                "x": [one.number for one in mine],
                "y": _p99_ms(mine, test),
                "marker": {"color": colour, "size": 10},
                "hovertemplate": "load test %{x}: p99 %{y:,.1f} ms",
            }
        )
    return _chart(traces, 360, "load test, in the order of time", test.axis)


def _audited(done: Sequence[TrialResult], test: LoadTest) -> list[TrialResult]:
    return [one for one in done if test.figure in one.figures]


def _p99_ms(audited: Sequence[TrialResult], test: LoadTest) -> list[float]:
    """Return what a logarithmic axis can show."""
    return [max(one.figures[test.figure], 0.001) for one in audited]


def _chart(traces: Sequence[dict[str, Any]], height: int, along: str, up: str) -> dict[str, Any]:
    drawn = figure(
        height=height,
        hovermode="closest",
        xaxis_title_text=along,
        yaxis={"title": {"text": f"{up} (log)"}, "type": "log"},
    )
    for trace in traces:
        drawn.add_scatter(**trace)
    return document(drawn)
