"""The report of a measurement: one page that works offline, the curve first."""

from __future__ import annotations

from typing import Any, Final

import plotly.graph_objects as go

from spark_checks.report.charts import COLOURS, document
from spark_checks.report.page import embedded, environment, plotly
from spark_checks.results import Result

_CURVES: Final = ("production", "consumption")
_CONDITIONS: Final = ("record_bytes", "codec", "acks", "replication", "clients")


def page(result: Result, run_id: str) -> str:
    """Return the page of a measurement's result; where nothing came of it, the page says why alone."""
    measured = result.measured
    curves = {name: measured[name] for name in _CURVES} if measured else {}
    return (
        environment("verify.measure")
        .get_template("page.html.j2")
        .render(
            result=result,
            run_id=run_id,
            conditions={key: measured[key] for key in _CONDITIONS} if measured else {},
            curves=curves,
            targets=measured["targets"] if measured else [],
            figures_json=embedded({"curve": _figure(curves)} if curves else {}),
            plotly=plotly(),
        )
    )


def _figure(curves: dict[str, Any]) -> dict[str, Any]:
    figure = go.Figure()
    for (name, curve), colour in zip(curves.items(), COLOURS, strict=False):
        rates = curve["curve_mb_per_s"]
        error = [curve["curve_spread"][count] * rate / 2 for count, rate in rates.items()]
        figure.add_scatter(
            x=list(rates),
            y=list(rates.values()),
            name=name,
            mode="lines+markers",
            line={"color": colour},
            error_y={"type": "data", "array": error},
        )
    figure.update_layout(
        xaxis={"title": "partitions", "type": "category"},
        yaxis={"title": "MB/s", "rangemode": "tozero"},
        height=420,
    )
    return document(figure)
