"""What the audit leaves behind beside its report: verdicts.json, junit.xml, recommendations.yml, a table."""

from __future__ import annotations

import json
import textwrap
from dataclasses import asdict
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import yaml
from rich.console import Console
from rich.table import Table

from sizing.inventory.recommendations import NAME, laid_over
from spark_checks.job import Audit
from spark_checks.results import Result

_STYLES = {"pass": "bold green", "fail": "bold red", "unknown": "bold yellow"}


def verdicts(audit: Audit) -> dict[str, Any]:
    """Return the document of verdicts.json."""
    return {
        "run_id": audit.run_id,
        "verdict": audit.verdict,
        "checks": [
            {
                "name": result.name,
                "verdict": result.verdict,
                "slo": result.slo,
                "measured": result.measured,
                "anomalies": {
                    kind: {"count": anomaly.count, "examples": list(anomaly.examples)}
                    for kind, anomaly in result.anomalies.items()
                },
                "because": result.because,
                "recommendations": [asdict(one) for one in result.recommendations],
            }
            for result in audit.results
        ],
    }


def write(audit: Audit, out: Path) -> None:
    """Write verdicts.json, junit.xml and recommendations.yml into a folder that exists."""
    text = json.dumps(verdicts(audit), indent=2, ensure_ascii=False)
    (out / "verdicts.json").write_text(text + "\n", encoding="utf-8")
    (out / "junit.xml").write_text(junit(audit), encoding="utf-8")
    (out / "recommendations.yml").write_text(recommendations(audit), encoding="utf-8")


def junit(audit: Audit) -> str:
    """Return one test case a check: fail is a failure, unknown an error."""
    counts = [result.verdict for result in audit.results]
    suite = ElementTree.Element(
        "testsuite",
        name=f"kedge audit {audit.run_id}",
        tests=str(len(counts)),
        failures=str(counts.count("fail")),
        errors=str(counts.count("unknown")),
        time=str(audit.seconds["all"]),
    )
    for result in audit.results:
        seconds = str(audit.seconds.get(result.name, 0))
        case = ElementTree.SubElement(suite, "testcase", classname="kedge", name=result.name, time=seconds)
        tag = {"fail": "failure", "unknown": "error"}.get(result.verdict)
        if tag:
            problem = ElementTree.SubElement(case, tag, message=result.because, type=result.verdict)
            problem.text = "\n".join(_lines(result))
    ElementTree.indent(suite)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(suite, "unicode") + "\n"


def recommendations(audit: Audit) -> str:
    """Return a vars file: what to set below ``recommended``, each variable with its reasons above it.

    Advice without a variable is a comment.
    """
    advice: list[str] = []
    reasons: dict[str, list[str]] = {}
    given = [(result.name, one) for result in audit.results for one in result.recommendations]
    for name, one in given:
        said = f"# {name}: {one.advice}: {one.because}.\n"
        said += f"# Expected: {one.effect}.\n" if one.effect else ""
        (advice if one.variable is None else reasons.setdefault(one.variable, [])).append(said)
    values = laid_over([{one.variable: one.value} for _, one in given if one.variable is not None])
    parts = [
        f"# Recommended after run {audit.run_id} (verdict {audit.verdict}). What it would change:\n"
        "#   ansible-playbook -i INV plan.yml -e @THIS_FILE\n",
        *advice,
        f"---\n{NAME}:{'' if values else ' {}'}\n",
    ]
    for variable, value in values.items():
        shown = yaml.safe_dump({variable: value}, sort_keys=False, width=1000)
        parts.append(textwrap.indent("".join(reasons[variable]) + shown, "  "))
    return "".join(parts)


def show(audit: Audit, console: Console) -> None:
    """Print the verdict table."""
    table = Table(title=f"Audit of run {audit.run_id}", title_justify="left", expand=False)
    for column in ("verdict", "check", "measured", "because"):
        table.add_column(column, overflow="fold")
    for result in audit.results:
        same = result.verdict == "pass" or result.because == result.short
        table.add_row(
            f"[{_STYLES[result.verdict]}]{result.verdict}[/]",
            result.name,
            result.short,
            "within its service level" if same else result.because,
        )
    console.print(table)
    for result in audit.results:
        for line in _lines(result) if result.verdict != "pass" else []:
            console.print(f"  {line}", highlight=False, markup=False, soft_wrap=True)
    console.print(f"verdict: [{_STYLES[audit.verdict]}]{audit.verdict}[/]")


def _lines(result: Result) -> list[str]:
    """Return the first examples of each anomaly, one a line."""
    lines = []
    for kind, anomaly in result.anomalies.items():
        for example in anomaly.examples[:3]:
            shown = ", ".join(
                f"{key} {value}" for key, value in example.items() if not isinstance(value, list)
            )
            lines.append(f"{kind}: {shown}")
        if anomaly.count > 3:
            lines.append(f"{kind}: {anomaly.count:,} in all")
    return lines
