"""What the audit leaves beside its report: verdicts.json, junit.xml, recommendations.yml."""

from __future__ import annotations

import json
import textwrap
from dataclasses import asdict
from typing import Any, Final
from xml.etree import ElementTree

import yaml

from kedge.evidence.printable import plain
from kedge.evidence.release import VERDICTS_SCHEMA, VERSION
from kedge.plan.inventory.recommendations import NAME, laid_over
from spark_checks.engine.files import write_text
from spark_checks.job import Audit
from spark_checks.results import Result


def verdicts(audit: Audit) -> dict[str, Any]:
    """Return the document of verdicts.json."""
    return {
        "schema": VERDICTS_SCHEMA,
        "kit": VERSION,
        "run_id": audit.run_id,
        "verdict": audit.verdict,
        "checks": [
            {
                "name": result.name,
                "verdict": result.verdict,
                "slo": result.slo,
                "figures": [
                    {
                        "what": figure.what,
                        "value": figure.value,
                        "unit": figure.unit,
                        "level": figure.level,
                        "verdict": figure.verdict,
                        "service_level": figure.key or None,
                    }
                    | ({"earlier": asdict(figure.earlier)} if figure.earlier else {})
                    for figure in result.figures
                ],
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
        "timings_s": audit.seconds,
    }


def write(audit: Audit, out: str) -> None:
    """Write verdicts.json, junit.xml and recommendations.yml into a folder that exists, on whatever store.

    Raises:
        EvidenceError: when the store does not take one.
    """
    spark, text = audit.evidence.session, json.dumps(verdicts(audit), indent=2, ensure_ascii=False)
    write_text(spark, f"{out}/junit.xml", junit(audit))
    write_text(spark, f"{out}/recommendations.yml", recommendations(audit))
    write_text(spark, f"{out}/verdicts.json", f"{text}\n")


def junit(audit: Audit) -> str:
    """Return one test case a check: fail is a failure, unknown an error, measured is skipped.

    The figures of a check are the properties of its case.
    """
    counts = [result.verdict for result in audit.results]
    suite = ElementTree.Element(
        "testsuite",
        name=plain(f"kedge audit {audit.run_id}"),
        tests=str(len(counts)),
        failures=str(counts.count("fail")),
        errors=str(counts.count("unknown")),
        skipped=str(counts.count("measured")),
        time=str(audit.seconds["all"]),
    )
    for result in audit.results:
        seconds = str(audit.seconds.get(result.name, 0))
        case = ElementTree.SubElement(suite, "testcase", classname="kedge", name=result.name, time=seconds)
        if result.figures:
            properties = ElementTree.SubElement(case, "properties")
            for figure in result.figures:
                said = plain(f"{figure.verdict}: {figure.words()}")
                ElementTree.SubElement(properties, "property", name=plain(figure.what), value=said)
        if result.verdict == "measured":
            ElementTree.SubElement(case, "skipped", message=plain(result.because))
        tag = {"fail": "failure", "unknown": "error"}.get(result.verdict)
        if tag:
            because = plain(result.because)
            problem = ElementTree.SubElement(case, tag, message=because, type=result.verdict)
            problem.text = "\n".join(example_lines(result))
    ElementTree.indent(suite)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(suite, "unicode") + "\n"


def recommendations(audit: Audit) -> str:
    """Return a vars file: what to set below ``recommended``, each variable with its reasons above it.

    Advice without a variable is a comment, and so are the levels that would have what was measured judged.
    """
    advice: list[str] = []
    reasons: dict[str, list[str]] = {}
    given = [(result.name, one) for result in audit.results for one in result.recommendations]
    for name, one in given:
        # Nothing of a proxy's or a topic's ends the comment: the file is one for ansible-playbook -e.
        said = f"# {plain(f'{name}: {one.advice}: {one.because}')}.\n"
        said += f"# Expected: {plain(one.effect)}.\n" if one.effect else ""
        (advice if one.variable is None else reasons.setdefault(one.variable, [])).append(said)
    values = laid_over([{one.variable: one.value} for _, one in given if one.variable is not None])
    parts = [
        f"# Recommended after run {plain(audit.run_id)} (verdict {audit.verdict}). What it would change:\n"
        "#   ansible-playbook -i INV plan.yml -e @THIS_FILE\n",
        *advice,
        *_not_judged(audit),
        f"---\n{NAME}:{'' if values else ' {}'}\n",
    ]
    for variable, value in values.items():
        shown = yaml.safe_dump({variable: value}, sort_keys=False, width=1000)
        parts.append(textwrap.indent("".join(reasons[variable]) + shown, "  "))
    return "".join(parts)


def _not_judged(audit: Audit) -> list[str]:
    """Return a comment of the checks that were only measured, with the levels that they lack."""
    lines = [
        f"#   service_levels.{figure.key}: {plain(figure.found())}\n"
        for result in audit.results
        if result.verdict == "measured"
        for figure in result.figures
        if figure.key
    ]
    return ["# Measured and not judged, for want of a level:\n", *lines] if lines else []


#: Of each kind of anomaly, as text; the report has those of spark_checks/engine/anomalies.py.
_EXAMPLES: Final = 3


def example_lines(result: Result) -> list[str]:
    """Return the first examples of each anomaly, one a line."""
    lines = []
    for kind, anomaly in result.anomalies.items():
        for example in anomaly.examples[:_EXAMPLES]:
            shown = ", ".join(
                f"{key} {value}" for key, value in example.items() if not isinstance(value, list)
            )
            lines.append(f"{kind}: {plain(shown)}")
        if anomaly.count > _EXAMPLES:
            lines.append(f"{kind}: {anomaly.count:,} in all")
    return lines
