"""The figures of the report as Plotly documents; colours come from the page, light or dark."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from spark_checks.checks.latency import CURVE
from spark_checks.engine.time_bins import MOST_POINTS
from spark_checks.job import Audit

#: Distinct for the colour-blind, and readable on white and on near-black (Okabe and Ito's palette).
COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_BAND: Final = "rgba(213, 94, 0, 0.16)"
_GREY: Final = "#888"
_UUID: Final = re.compile(r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
#: A member that joins again has another id: more of them than this are told by touch alone.
_MOST_NAMED: Final = 12
_ROW_PX: Final = 190


def _time(audit: Audit) -> str:
    return f"seconds since the {'load' if audit.evidence.run.loaded else 'watch'} began"


def timeline(audit: Audit) -> dict[str, Any]:
    """Return rows over one time axis: rate, ack p99, lag, and what others felt; restarts as bands."""
    run = audit.evidence.run
    warm = run.warm_up_us / 1e6
    colours = {name: COLOURS[n % len(COLOURS)] for n, name in enumerate(_names(audit))}
    rows: list[tuple[str, list[go.Scatter]]] = []
    for via, counts in sorted(audit.result("throughput").series.get("by_via", {}).items()):
        points = _filled([[second, count] for second, count in counts])
        rows.append((f"{via}<br>records/s", [_line(via, points, warm, colours[via])]))
    seconds = audit.result("latency").series.get("by_second", {})
    if seconds:
        lines = [
            _line(f"{via} ack p99", [[s, p99] for s, _, p99 in points], warm, colours[via])
            for via, points in sorted(seconds.items())
        ]
        rows.append(("ack p99<br>ms (log)", lines))
    lags = audit.result("rebalance").series.get("lag", {})
    if lags:
        lines = [_line(f"lag {name}", points, warm, colours[name]) for name, points in sorted(lags.items())]
        rows.append(("lag<br>records", lines))
    traffic = audit.result("traffic").series
    rows += _traffic(audit, traffic)
    drawn = _rows_over_time(rows, _ROW_PX, _time(audit))
    _mark_restarts(drawn, audit, named=True)
    until = (run.measured_until_us - run.started_us) / 1e6
    for at in (warm, until) if run.loaded else (traffic.get("usual_s", until),):
        drawn.add_shape(
            {"type": "line", "x0": at, "x1": at, "y0": 0, "y1": 1, "yref": "paper"},
            line={"width": 1, "dash": "dot", "color": _GREY},
        )
    return document(drawn)


def _traffic(audit: Audit, series: Mapping[str, Any]) -> list[tuple[str, list[go.Scatter]]]:
    """Return the rows of others' traffic: rate by topic, lag by group, errors of balancers."""
    run = audit.evidence.run
    later = (run.watch.started_us - run.started_us) / 1e6 if run.watch else 0.0
    rows = []
    for key, title, before in (
        ("rate", "topics<br>records/s", ""),
        ("lag", "groups' lag<br>records", "lag "),
    ):
        lines = zip(COLOURS, sorted(series.get(key, {}).items()), strict=False)
        if drawn := [_line(f"{before}{name}", points, later, colour) for colour, (name, points) in lines]:
            rows.append((title, drawn))
    if series.get("errors"):
        rows.append(("balancers<br>errors", [_line("balancer errors", series["errors"], later, COLOURS[1])]))
    return rows


def memory(audit: Audit) -> dict[str, Any]:
    """Return the memory of each Streams instance over time, a row an instance, its plan as level lines."""
    series = audit.result("memory").series
    told: Mapping[str, Mapping[str, list[list[float]]]] = series.get("memory", {})
    rows = []
    for number, (name, lines) in enumerate(sorted(told.items())):
        traces = [
            _line(label, points, 0, colour)
            for colour, (label, points) in zip(COLOURS, lines.items(), strict=False)
        ]
        ends = [lines["RSS"][0][0], lines["RSS"][-1][0]]
        for label, mib in series.get("bounds", {}).get(name, {}).items():
            line = {"color": _GREY, "width": 1.5, "dash": "dash" if "limit" in label else "dot"}
            traces.append(go.Scatter(mode="lines", name=label, x=ends, y=[mib, mib], line=line))
        for trace in traces:
            trace.update(legendgroup=trace.name, showlegend=number == 0)
        rows.append((f"{name}<br>MiB", traces))
    return document(_rows_over_time(rows, _ROW_PX + 40, _time(audit)))


def ownership(audit: Audit) -> dict[str, Any]:
    """Return a bar for each partition of each group in the colour of its owner; a gap is without an owner."""
    found: list[Mapping[str, Any]] = audit.result("rebalance").series.get("ownership", [])
    rows = list(dict.fromkeys((one["group"], one["place"]) for one in found))
    consumers = list(dict.fromkeys(one["consumer"] for one in found))
    drawn = figure(
        height=22 * len(rows) + 150,
        barmode="overlay",
        bargap=0.25,
        hovermode="closest",
        xaxis_title_text=_time(audit),
        yaxis={"title": {"text": "partition, by group"}, "autorange": "reversed", "tickfont": {"size": 10}},
        showlegend=len(consumers) <= _MOST_NAMED,
    )
    for number, consumer in enumerate(consumers):
        mine = [one for one in found if one["consumer"] == consumer]
        drawn.add_bar(
            orientation="h",
            name=_short(consumer),
            y=[[one["group"] for one in mine], [one["place"] for one in mine]],
            base=[one["from_s"] for one in mine],
            x=[round(one["until_s"] - one["from_s"], 3) for one in mine],
            marker_color=COLOURS[number % len(COLOURS)],
            hovertemplate=f"%{{base:,.1f}} s, for %{{x:,.1f}} s: {_short(consumer)}",
        )
    _mark_restarts(drawn, audit, named=False)
    return document(drawn)


def percentiles(audit: Audit) -> dict[str, Any]:
    """Return latency by percentile, a line an interface and stage."""
    curves: Mapping[str, Any] = audit.result("latency").series.get("curve", {})
    names = ["least" if p == 0 else "most" if p == 100 else f"p{p:g}" for p in CURVE]
    dashes = {"ack": "solid", "append": "dot", "delivery": "dash"}
    colours = {name: COLOURS[n % len(COLOURS)] for n, name in enumerate(_names(audit))}
    drawn = figure(
        height=380,
        xaxis={"title": {"text": "percentile of records"}, "type": "category"},
        yaxis={"title": {"text": "ms from intended send (log)"}, "type": "log"},
    )
    for name, points in sorted(curves.items()):
        via, _, stage = name.partition(" ")
        drawn.add_scatter(
            mode="lines+markers",
            name=name,
            x=names,
            y=[max(round(ms, 3), 0.001) for _, ms in points],
            line={"color": colours[via], "dash": dashes.get(stage, "solid"), "width": 2},
            hovertemplate="%{x}: %{y:,.2f} ms",
        )
    return document(drawn)


def batch_fill(audit: Audit) -> dict[str, Any]:
    """Return the batches of each mirror flow by the time that they took to fill, as shares of all."""
    return _histogram(audit, "fill", "classes_ms", "filled within, ms", "up to %{x} ms: %{y:.1f} percent")


def batch_compression(audit: Audit) -> dict[str, Any]:
    """Return the sampled batches of each flow and codec by how many times smaller they became."""
    return _histogram(audit, "compression", "classes", "times smaller", "up to %{x} times: %{y:.1f} percent")


def _histogram(audit: Audit, name: str, classes: str, axis: str, hover: str) -> dict[str, Any]:
    found: Mapping[str, Any] = audit.result("mirror").series.get(name, {})
    drawn = figure(
        height=320,
        xaxis={"title": {"text": axis}, "type": "category"},
        yaxis={"title": {"text": "percent of the batches"}, "rangemode": "tozero"},
    )
    for number, (flow, counts) in enumerate(sorted(found.get("batches", {}).items())):
        drawn.add_bar(
            name=flow,
            x=[*(f"{end:,}" for end in found.get(classes, ())), "more"],
            y=[round(100 * count / sum(counts), 2) for count in counts],
            marker_color=COLOURS[number % len(COLOURS)],
            hovertemplate=hover,
        )
    return document(drawn)


def figure(**layout: Any) -> go.Figure:
    """Return an empty figure of this layout, without Plotly's own colours."""
    # Plotly's own template would be 7 kB a figure, and win over the page's colours.
    return go.Figure(layout=go.Layout(template={}, **layout))


def _rows_over_time(rows: list[tuple[str, list[go.Scatter]]], row_px: int, axis: str) -> go.Figure:
    """Stack (title, lines) as rows over one time axis; a title with the word log has such an axis."""
    count = max(len(rows), 1)
    drawn = make_subplots(rows=count, shared_xaxes="all", vertical_spacing=0.045 / count)
    drawn.update_layout(template={}, height=row_px * count + 90)
    drawn.update_xaxes(title_text=axis, row=count)
    for number, (title, lines) in enumerate(rows, start=1):
        drawn.add_traces(lines, rows=number, cols=1)
        drawn.update_yaxes(title_text=title, rangemode="tozero", row=number)
        if "log" in title:
            drawn.update_yaxes(type="log", row=number)
        else:
            drawn.update_yaxes(minallowed=0, row=number)
    return drawn


def _mark_restarts(drawn: go.Figure, audit: Audit, named: bool) -> None:
    """Draw the restarts as bands behind a chart over time, from its top row to its bottom one."""
    run = audit.evidence.run
    for restart in audit.restarts:
        begin = (restart.begin_us - run.started_us) / 1e6
        end = ((restart.end_us or run.measured_until_us) - run.started_us) / 1e6
        drawn.add_shape(
            {"type": "rect", "x0": begin, "x1": end, "y0": 0, "y1": 1, "yref": "paper"},
            fillcolor=_BAND,
            line_width=0,
            layer="below",
        )
        if named:
            drawn.add_annotation(
                {"text": restart.name, "x": begin, "y": 1, "yref": "paper", "textangle": -28},
                showarrow=False,
                xanchor="left",
                yanchor="bottom",
                font_size=11,
            )


def document(drawn: go.Figure) -> dict[str, Any]:
    """Return {data, layout}, as Plotly's script takes it."""
    found: dict[str, Any] = drawn.to_plotly_json()
    return found


def _short(consumer: str) -> str:
    """Leave out of a member's id the 36 digits that tell a person nothing."""
    return _UUID.sub("", consumer)


def _names(audit: Audit) -> list[str]:
    """Interfaces and then groups; a group takes its interface's colour where there is one of each."""
    run = audit.evidence.run
    # The ledger may have producers that run.json lacks.
    sent = (
        audit.result("throughput").series.get("by_via", {}),
        audit.result("latency").series.get("by_second", {}),
    )
    vias = sorted({*(producer.via for producer in run.producers.values()), *sent[0], *sent[1]})
    return [*vias, *sorted(run.watched_groups())]


def _line(name: str, points: list[list[float]], shift: float, colour: str) -> go.Scatter:
    thinned = _thin(points)
    return go.Scatter(
        mode="lines",
        name=name,
        x=[round(second + shift, 3) for second, _ in thinned],
        y=[value for _, value in thinned],
        line={"color": colour, "width": 1.8},
        hovertemplate="%{x:,.0f} s: %{y:,.1f}",
    )


def _filled(points: list[list[float]]) -> list[list[float]]:
    """Put a zero where a second had no record: a line drawn over a gap would hide it."""
    known = {int(second): count for second, count in points}
    return [[s, known.get(s, 0)] for s in range(min(known), max(known) + 1)] if known else []


def _thin(points: list[list[float]]) -> list[list[float]]:
    """Keep at most the points that a screen can show, the extreme one of each stretch."""
    step = -(-len(points) // MOST_POINTS)
    if step <= 1:
        return points
    middle = sorted(value for _, value in points)[len(points) // 2]
    parts = [points[n : n + step] for n in range(0, len(points), step)]
    return [max(part, key=lambda point: abs(point[1] - middle)) for part in parts]
