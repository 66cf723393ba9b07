"""The result as one picture: throughput and RSS over the bound, and RSS over time."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from playwright.sync_api import Error, sync_playwright

from lab.bench.streams.cases import is_large

_INK: Final = "#444"
_STOCK, _BOUNDED, _PLAN, _OTHER = "#D55E00", "#0072B2", "#009E73", "#888888"
_SIZE: Final = (900, 380)


def figure(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return a Plotly document of what was measured of the parts curve and time."""
    curve = result.get("curve", {}).get("cases", {})
    points = _points(curve, large=False)
    others = _points(curve, large=True)
    every = sorted(points + others)
    bounds = [bound for bound, *_ in points]
    traces = [
        _line(
            "with buffers of 16 MiB: records/s",
            [bound for bound, *_ in others],
            [rate for _, rate, *_ in others],
            _OTHER,
            "y",
        ),
        _line("bounded: records/s", bounds, [rate for _, rate, *_ in points], _BOUNDED, "y"),
        _line("RSS", [bound for bound, *_ in every], [rss for *_, rss, _ in every], _OTHER, "y2", "dash"),
        _line("planned limit", [b for b, *_ in every], [limit for *_, limit in every], _PLAN, "y2", "dot"),
    ]
    if "records_per_s" in curve.get("defaults", {}) and every:
        ends = [every[0][0], every[-1][0]]
        traces.append(
            _line("defaults: records/s", ends, [curve["defaults"]["records_per_s"]] * 2, _STOCK, "y", "dash")
        )
    for name, about in result.get("time", {}).get("cases", {}).items():
        seconds = [at for at, _ in about.get("rss_over_time", [])]
        rss = [mib for _, mib in about.get("rss_over_time", [])]
        colour = _STOCK if name.startswith("defaults") else _BOUNDED if name == "planned" else _OTHER
        traces.append(
            _line(f"{name}: RSS over time", seconds, rss, colour, "y3") | {"xaxis": "x2", "mode": "lines"}
        )
        if limit := about.get("planned_rss_mib"):
            line = _line("", [seconds[0], seconds[-1]], [limit, limit], _PLAN, "y3", "dot")
            traces.append(line | {"xaxis": "x2", "mode": "lines", "showlegend": False})
    return {"data": traces, "layout": _layout()}


def _points(curve: Mapping[str, Any], *, large: bool) -> list[tuple[int, int, int, int]]:
    """Return bound, records/s, RSS and planned RSS, with small write buffers or with those of 16 MiB."""
    return sorted(
        (about["bound_mib"], about["records_per_s"], about["rss_mib"], about["planned_rss_mib"])
        for name, about in curve.items()
        if "bound_mib" in about and is_large(name) == large and "rss_mib" in about
    )


def _layout() -> dict[str, Any]:
    def axis(title: str, **more: Any) -> dict[str, Any]:
        return {"title": {"text": title}, "gridcolor": "#ddd", "rangemode": "tozero", **more}

    return {
        "width": _SIZE[0],
        "height": _SIZE[1],
        "paper_bgcolor": "#fff",
        "plot_bgcolor": "#fff",
        "font": {"color": _INK, "family": "sans-serif", "size": 11},
        "margin": {"l": 60, "r": 20, "t": 10, "b": 90},
        "legend": {"orientation": "h", "y": -0.22},
        "xaxis": axis("bound of RocksDB, MiB", domain=[0, 0.46], anchor="y2"),
        "yaxis": axis("records/s", domain=[0.55, 1]),
        "yaxis2": axis("RSS, MiB", domain=[0, 0.45], anchor="x"),
        "xaxis2": axis("seconds", domain=[0.56, 1], anchor="y3"),
        "yaxis3": axis("RSS, MiB", domain=[0, 1], anchor="x2"),
    }


def _line(
    name: str, x: list[Any], y: list[Any], colour: str, axis: str, dash: str = "solid"
) -> dict[str, Any]:
    line = {"color": colour, "dash": dash, "width": 2}
    place = {"yaxis": axis, "xaxis": "x"}
    return {"type": "scatter", "mode": "lines+markers", "name": name, "x": x, "y": y, "line": line} | place


def draw(result: Mapping[str, Any], path: Path) -> str:
    """Write the picture as SVG; return why that could not be, or nothing."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        return "there is no chromium to draw with"
    script = resources.files("plotly").joinpath("package_data/plotly.min.js").read_text(encoding="utf-8")
    try:
        with sync_playwright() as playwright:
            running = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
            page = running.new_page()
            page.set_content("<div id='plot'></div>")
            page.add_script_tag(content=script)
            url = page.evaluate(
                "(f) => Plotly.newPlot('plot', f.data, f.layout)"
                ".then((plot) => Plotly.toImage(plot, {format: 'svg', width: f.size[0], height: f.size[1]}))",
                {**figure(result), "size": _SIZE},
            )
            running.close()
    except Error as error:
        return str(error).splitlines()[0]
    path.write_text(unquote(str(url).partition(",")[2]) + "\n", encoding="utf-8")
    return ""
