"""report.html: one file that works offline, verdict first, then why."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import resources
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from spark_checks.job import Audit
from spark_checks.report import charts, subject
from spark_checks.report.answer import answer
from spark_checks.report.terminal import summary

#: Suffixes of measured keys and the units that they stand for, longest first.
_UNITS = (
    ("_records_per_s", "records/s"),
    ("_bytes_per_s", "bytes/s"),
    ("_records", "records"),
    ("_mib", "MiB"),
    ("_ms", "ms"),
    ("_s", "s"),
)

#: Letters of a check's figures in the table of verdicts: two lines of it.
_SUMMARY = 220


def render(audit: Audit) -> str:
    """Return the page."""
    page = environment("spark_checks.report")
    page.filters["prose"] = prose
    page.filters["summary"] = lambda result: summary(result, _SUMMARY)
    run = audit.evidence.run
    drawn = {
        "timeline": charts.timeline(audit),
        "ownership": charts.ownership(audit),
        "latency-chart": charts.percentiles(audit),
        "memory-chart": charts.memory(audit),
        "fill-chart": charts.batch_fill(audit),
        "compression-chart": charts.batch_compression(audit),
    }
    rebalance = audit.result("rebalance").measured
    return page.get_template("page.html.j2").render(
        audit=audit,
        answer=answer(audit),
        run=run,
        head=subject.head(run),
        lasted=(run.measured_until_us - run.started_us) / 1e6,
        traffic=audit.result("traffic").measured,
        restarts=rebalance.get("by_restart", []),
        figures_json=embedded(drawn),
        drawn=drawn,
        groups=rebalance.get("by_group", {}),
        plotly=plotly(),
    )


def environment(package: str) -> Environment:
    """Return the templates of a package; its pages share a frame and macros with that of an audit."""
    templates = Environment(
        loader=ChoiceLoader([PackageLoader(package, ""), PackageLoader("spark_checks.report", "")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {"figures": figures, "number": number, "table": columns}
    return templates


def plotly() -> str:
    """Return the library that draws, to stand in a page that works offline."""
    return resources.files("plotly").joinpath("package_data/plotly.min.js").read_text(encoding="utf-8")


def figures(measured: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Return (what, value with unit) of a measured tree; tables of their own are left out."""
    found = []
    for key, value in measured.items():
        if key in ("by_group", "not_judged"):
            continue
        if isinstance(value, Mapping):
            suffix = next((suffix for suffix, _ in _UNITS if key.endswith(suffix)), "")
            label = f"{prefix}{key.removesuffix(suffix).replace('_', ' ')}: "
            found += figures({f"{k}{suffix}": v for k, v in value.items()}, label)
        elif not isinstance(value, list):
            suffix, unit = next(((s, u) for s, u in _UNITS if key.endswith(s)), ("", ""))
            label = key.removesuffix(suffix).replace("_", " ") or key
            found.append((f"{prefix}{label}", f"{number(value)} {unit}".strip()))
    return found


def number(value: Any) -> str:
    """Return a value as people read it: thousands apart, no digits without meaning."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and not value.is_integer():
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.2f}"
    return f"{value:,.0f}" if isinstance(value, (int, float)) else str(value)


def columns(examples: tuple[Mapping[str, Any], ...]) -> dict[str, Any]:
    """Return header and rows of examples, whose columns may differ."""
    names = list(dict.fromkeys(name for example in examples for name in example))
    return {
        "names": [name.replace("_", " ") for name in names],
        "rows": [[_cell(example.get(name)) for name in names] for example in examples],
    }


def prose(text: str) -> list[dict[str, Any]]:
    """Split a docstring into paragraphs and lists."""
    parts: list[dict[str, Any]] = []
    for paragraph in text.split("\n\n"):
        lines = paragraph.splitlines()
        if lines and lines[0].startswith("- "):
            items: list[str] = []
            for line in lines:
                if line.startswith("- "):
                    items.append(line[2:])
                else:
                    items[-1] += " " + line.strip()
            parts.append({"items": [item.partition(":") for item in items]})
        else:
            parts.append({"text": " ".join(line.strip() for line in lines)})
    return parts


def _cell(value: Any) -> str:
    if isinstance(value, Mapping):
        return " ".join(str(part) for part in value.values())
    if isinstance(value, list):
        return "; ".join(_cell(part) for part in value)
    return "" if value is None else str(value)


def embedded(value: Any) -> str:
    """Return JSON that may stand inside of a script element."""
    return json.dumps(value).replace("<", "\\u003c")
