"""The figures of the report as plain Plotly documents; colours come from the page, light or dark."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final

from spark_checks.checks.latency import CURVE
from spark_checks.job import Audit

#: Distinct for the colour-blind, and readable on white and on near-black (Okabe and Ito's palette).
_COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
#: More points than a screen has pixels only slow it down.
_MOST_POINTS: Final = 2_000
_BAND: Final = "rgba(213, 94, 0, 0.16)"
_UUID: Final = re.compile(r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
#: A member that joins again has another id: more of them than this are told by touch alone.
_MOST_NAMED: Final = 12
_ROW_PX: Final = 190


def timeline(audit: Audit) -> dict[str, Any]:
    """Return rows over one time axis: rate by interface, ack p99, lag by group; restarts as bands."""
    run = audit.evidence.run
    warm = run.warm_up_us / 1e6
    series: Mapping[str, Mapping[str, Any]] = defaultdict(dict, {r.name: r.series for r in audit.results})
    colours = {name: _COLOURS[n % len(_COLOURS)] for n, name in enumerate(_names(audit))}
    rows: list[tuple[str, list[dict[str, Any]]]] = []
    for via, counts in sorted(series["throughput"].get("by_via", {}).items()):
        points = _filled([[second, count] for second, count in counts])
        rows.append((f"{via}<br>records/s", [_line(via, points, warm, colours[via])]))
    seconds = series["latency"].get("by_second", {})
    if seconds:
        lines = [
            _line(f"{via} ack p99", [[s, p99] for s, _, p99 in points], warm, colours[via])
            for via, points in sorted(seconds.items())
        ]
        rows.append(("ack p99<br>ms (log)", lines))
    lags = series["rebalance"].get("lag", {})
    if lags:
        lines = [_line(f"lag {name}", points, warm, colours[name]) for name, points in sorted(lags.items())]
        rows.append(("lag<br>records", lines))
    layout: dict[str, Any] = {
        "height": _ROW_PX * max(len(rows), 1) + 90,
        "xaxis": {"title": {"text": "seconds since the load began"}, "anchor": f"y{len(rows) or ''}"},
        "shapes": _bands(audit),
        "annotations": [],
    }
    traces = []
    for number, (title, lines) in enumerate(rows):
        axis = "y" if number == 0 else f"y{number + 1}"
        top = 1 - number / len(rows)
        key = axis.replace("y", "yaxis")
        layout[key] = {
            "title": {"text": title},
            "domain": [top - 1 / len(rows) + 0.035, top - 0.01],
            "type": "log" if "log" in title else "linear",
            "rangemode": "tozero",
            "minallowed": None if "log" in title else 0,
        }
        traces += [trace | {"yaxis": axis} for trace in lines]
    for restart in audit.restarts:
        begin = (restart.begin_us - run.started_us) / 1e6
        text = {"text": restart.name, "x": begin, "y": 1.0, "xref": "x", "yref": "paper", "textangle": -28}
        layout["annotations"].append(
            text | {"showarrow": False, "xanchor": "left", "yanchor": "bottom", "font": {"size": 11}}
        )
    ended = (run.measured_until_us - run.started_us) / 1e6
    for at, words in ((warm, "steady from here"), (ended, "load ends")):
        line = {"type": "line", "xref": "x", "yref": "paper", "x0": at, "x1": at, "y0": 0, "y1": 1}
        layout["shapes"].append(line | {"line": {"width": 1, "dash": "dot", "color": "#888"}, "name": words})
    return {"data": traces, "layout": layout}


def memory(audit: Audit) -> dict[str, Any]:
    """Return the memory of each Streams instance over time, a row an instance, its plan as level lines."""
    series = next((r.series for r in audit.results if r.name == "memory"), {})
    told: Mapping[str, Mapping[str, list[list[float]]]] = series.get("memory", {})
    layout: dict[str, Any] = {
        "height": (_ROW_PX + 40) * max(len(told), 1) + 90,
        "xaxis": {"title": {"text": "seconds since the load began"}, "anchor": f"y{len(told) or ''}"},
    }
    traces = []
    for number, (name, lines) in enumerate(sorted(told.items())):
        axis = "y" if number == 0 else f"y{number + 1}"
        top = 1 - number / len(told)
        layout[axis.replace("y", "yaxis")] = {
            "title": {"text": f"{name}<br>MiB"},
            "domain": [top - 1 / len(told) + 0.035, top - 0.01],
            "rangemode": "tozero",
        }
        first = {"yaxis": axis, "showlegend": number == 0}
        for colour, (label, points) in zip(_COLOURS, lines.items(), strict=False):
            traces.append(_line(label, points, 0, colour) | first | {"legendgroup": label})
        ends = [lines["RSS"][0][0], lines["RSS"][-1][0]]
        for label, mib in series.get("bounds", {}).get(name, {}).items():
            line = {"color": "#888", "width": 1.5, "dash": "dash" if "limit" in label else "dot"}
            level = {"type": "scatter", "mode": "lines", "name": label, "x": ends, "y": [mib, mib]}
            traces.append(level | {"line": line, "legendgroup": label} | first)
    return {"data": traces, "layout": layout}


def ownership(audit: Audit) -> dict[str, Any]:
    """Return a bar for each partition of each group in the colour of its owner; a gap is without an owner."""
    found: list[Mapping[str, Any]] = next(
        (r.series.get("ownership", []) for r in audit.results if r.name == "rebalance"), []
    )
    rows = list(dict.fromkeys((one["group"], one["place"]) for one in found))
    traces = []
    for number, consumer in enumerate(dict.fromkeys(one["consumer"] for one in found)):
        mine = [one for one in found if one["consumer"] == consumer]
        traces.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": _short(consumer),
                "y": [[one["group"] for one in mine], [one["place"] for one in mine]],
                "base": [one["from_s"] for one in mine],
                "x": [round(one["until_s"] - one["from_s"], 3) for one in mine],
                "marker": {"color": _COLOURS[number % len(_COLOURS)]},
                "hovertemplate": f"%{{base:,.1f}} s, for %{{x:,.1f}} s: {_short(consumer)}",
            }
        )
    layout: dict[str, Any] = {
        "height": 22 * len(rows) + 150,
        "barmode": "overlay",
        "bargap": 0.25,
        "hovermode": "closest",
        "xaxis": {"title": {"text": "seconds since the load began"}},
        "yaxis": {
            "title": {"text": "partition, by group"},
            "autorange": "reversed",
            "tickfont": {"size": 10},
        },
        "showlegend": len(traces) <= _MOST_NAMED,
        "shapes": _bands(audit),
    }
    return {"data": traces, "layout": layout}


def _short(consumer: str) -> str:
    """Leave out of a member's id the 36 digits that tell a person nothing."""
    return _UUID.sub("", consumer)


def _bands(audit: Audit) -> list[dict[str, Any]]:
    """Return the restarts as bands behind a chart over time."""
    run = audit.evidence.run
    found = []
    for restart in audit.restarts:
        begin = (restart.begin_us - run.started_us) / 1e6
        end = ((restart.end_us or run.measured_until_us) - run.started_us) / 1e6
        band = {"type": "rect", "xref": "x", "yref": "paper", "x0": begin, "x1": end, "y0": 0, "y1": 1}
        found.append(band | {"fillcolor": _BAND, "line": {"width": 0}, "layer": "below"})
    return found


def percentiles(audit: Audit) -> dict[str, Any]:
    """Return latency by percentile, a line an interface and stage."""
    curves: Mapping[str, Any] = next(
        (r.series.get("curve", {}) for r in audit.results if r.name == "latency"), {}
    )
    names = ["least" if p == 0 else "most" if p == 100 else f"p{p:g}" for p in CURVE]
    dashes = {"ack": "solid", "append": "dot", "delivery": "dash"}
    colours = {name: _COLOURS[n % len(_COLOURS)] for n, name in enumerate(_names(audit))}
    traces = []
    for name, points in sorted(curves.items()):
        via, _, stage = name.partition(" ")
        traces.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": name,
                "x": names,
                "y": [max(round(ms, 3), 0.001) for _, ms in points],
                "line": {"color": colours[via], "dash": dashes.get(stage, "solid"), "width": 2},
                "hovertemplate": "%{x}: %{y:,.2f} ms",
            }
        )
    layout = {
        "height": 380,
        "xaxis": {"title": {"text": "percentile of records"}, "type": "category"},
        "yaxis": {"title": {"text": "ms from intended send (log)"}, "type": "log"},
    }
    return {"data": traces, "layout": layout}


def batch_fill(audit: Audit) -> dict[str, Any]:
    """Return the batches of each mirror flow by the time that they took to fill, as shares of all."""
    return _histogram(audit, "fill", "classes_ms", "filled within, ms", "up to %{x} ms: %{y:.1f} percent")


def batch_compression(audit: Audit) -> dict[str, Any]:
    """Return the sampled batches of each flow and codec by how many times smaller they became."""
    return _histogram(audit, "compression", "classes", "times smaller", "up to %{x} times: %{y:.1f} percent")


def _histogram(audit: Audit, name: str, classes: str, axis: str, hover: str) -> dict[str, Any]:
    found: Mapping[str, Any] = next((r.series.get(name, {}) for r in audit.results if r.name == "mirror"), {})
    ends = [*(f"{end:,}" for end in found.get(classes, ())), "more"]
    traces = [
        {
            "type": "bar",
            "name": flow,
            "x": ends,
            "y": [round(100 * count / sum(counts), 2) for count in counts],
            "marker": {"color": _COLOURS[number % len(_COLOURS)]},
            "hovertemplate": hover,
        }
        for number, (flow, counts) in enumerate(sorted(found.get("batches", {}).items()))
    ]
    layout = {
        "height": 320,
        "xaxis": {"title": {"text": axis}, "type": "category"},
        "yaxis": {"title": {"text": "percent of the batches"}, "rangemode": "tozero"},
    }
    return {"data": traces, "layout": layout}


def _names(audit: Audit) -> list[str]:
    """Interfaces and then groups; a group takes its interface's colour where there is one of each."""
    run = audit.evidence.run
    vias = sorted({producer.via for producer in run.producers.values()})
    return [*vias, *sorted(run.watched_groups())]


def _line(name: str, points: list[list[float]], shift: float, colour: str) -> dict[str, Any]:
    thinned = _thin(points)
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": [round(second + shift, 3) for second, _ in thinned],
        "y": [value for _, value in thinned],
        "line": {"color": colour, "width": 1.8},
        "hovertemplate": "%{x:,.0f} s: %{y:,.1f}",
    }


def _filled(points: list[list[float]]) -> list[list[float]]:
    """Put a zero where a second had no record: a line drawn over a gap would hide it."""
    known = {int(second): count for second, count in points}
    return [[s, known.get(s, 0)] for s in range(min(known), max(known) + 1)] if known else []


def _thin(points: list[list[float]]) -> list[list[float]]:
    """Keep at most the points that a screen can show, the extreme one of each stretch."""
    step = -(-len(points) // _MOST_POINTS)
    if step <= 1:
        return points
    middle = sorted(value for _, value in points)[len(points) // 2]
    parts = [points[n : n + step] for n in range(0, len(points), step)]
    return [max(part, key=lambda point: abs(point[1] - middle)) for part in parts]
