"""The report of a measurement: one page that works offline, the curve first."""

from __future__ import annotations

from html import escape
from typing import Final

import plotly.graph_objects as go

from spark_checks.results import Result

_COLOURS: Final = {"production": "#0072B2", "consumption": "#D55E00"}
_STYLE: Final = (
    "body{font:15px system-ui;max-width:60rem;margin:2rem auto;padding:0 1rem} "
    "td,th{padding:.2rem 1rem;text-align:right}"
)


def page(result: Result, run_id: str) -> str:
    """Return the page of a measurement's result."""
    measured = result.measured
    title = f"Partitions measured: {run_id}"
    parts = [f"<h1>{escape(title)}</h1><p><b>{result.verdict}</b>: {escape(result.because)}</p>"]
    if measured:
        conditions = ", ".join(f"{key.replace('_', ' ')} {measured[key]}" for key in
                               ("record_bytes", "codec", "acks", "replication", "clients"))  # fmt: skip
        parts += [f"<p>{escape(conditions)}</p>", _figure(result), *_lines(result)]
    parts.append(f"<h2>What was measured</h2><p>{escape(result.definition)}</p>")
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{_STYLE}</style><body>{''.join(parts)}</body></html>\n"
    )


def _figure(result: Result) -> str:
    figure = go.Figure()
    for name, colour in _COLOURS.items():
        curve = result.measured[name]
        counts = list(curve["curve_mb_per_s"])
        rates = list(curve["curve_mb_per_s"].values())
        error = [curve["curve_spread"][count] * curve["curve_mb_per_s"][count] / 2 for count in counts]
        figure.add_scatter(x=counts, y=rates, name=name, mode="lines+markers", line={"color": colour},
                           error_y={"type": "data", "array": error})  # fmt: skip
    figure.update_layout(xaxis={"title": "partitions", "type": "category"}, height=420,
                         yaxis={"title": "MB/s", "rangemode": "tozero"})  # fmt: skip
    html: str = figure.to_html(full_html=False, include_plotlyjs=True)
    return html


def _lines(result: Result) -> list[str]:
    lines = []
    for name in _COLOURS:
        curve = result.measured[name]
        end = (
            f"stops growing at {curve['stops_at']} partitions"
            if curve["stops_at"]
            else "still grows at its end"
        )
        lines.append(
            f"<p>{name}: one partition {curve['one_mb_per_s']:,.1f} MB/s (spread {curve['spread']:.0%} of "
            f"{curve['repetitions']} repetitions); the curve {end}; limited by "
            f"{escape(curve['limited_by'])}</p>"
        )
    rows = "".join(
        f"<tr><td>{escape(t['topic'])}</td><td>{t['target_mb_per_s']:g}</td><td>{t['growth']:g}</td>"
        f"<td>{t['needed_partitions']}</td></tr>"
        for t in result.measured["targets"]
    )
    if rows:
        head = "<tr><th>topic</th><th>target MB/s</th><th>growth</th><th>partitions needed</th></tr>"
        lines.append(f"<h2>Targets</h2><table>{head}{rows}</table>")
    return lines
