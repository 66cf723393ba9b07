"""Whether a Streams application made of every record what it should."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kedge.evidence.levels import Levels
from kedge.evidence.run import Application
from spark_checks.engine.anomalies import add, first
from spark_checks.engine.application_outputs import KINDS, outputs_of
from spark_checks.engine.readers import Evidence
from spark_checks.results import Anomaly, Figure, Result, concluded


def check(evidence: Evidence, levels: Levels) -> Result:
    """Each record of an application's input against the outputs that carry its identity, exactly.

    An application makes ``per_record`` outputs of a record, each with the record's own value under a key of
    its own; so equal keys are one output, and different keys are different ones.

    - missing: an output that is due and is not there, or whose value is not the record's.
    - duplicated: an output that came again. At least once allows it: reported, judged only with a level, or
      where the application promises exactly once. A record that is in the input twice is left out of it.
    - unexpected: an output beyond those due for its record, or of no record of the input.

    Latency goes from a record's intended send time to the append of its last output, over the records
    intended in the steady window, where the output topic has the broker's times. It compares the clocks of
    two hosts: their error is told by the latency check.

    Without the topics, their offsets, or a record in the input nothing is known. So it is where retention or
    compaction took records of either topic. Damaged values in the input are no records of the run.
    """
    run = evidence.run
    audited = run.audited_applications()
    if not audited:
        return Result("outputs", "unknown", "run.json names no application with an output")
    if not evidence.has("records"):
        because = "the topics were not read: no records table, and the cluster could not be asked"
        return Result("outputs", "unknown", because)
    problems: list[str] = []
    doubts: list[str] = []
    measured: dict[str, Any] = {}
    anomalies: dict[str, Anomaly] = {}
    figures: list[Figure] = []
    made_by = outputs_of(evidence)
    for app in audited:
        made = made_by[app.name]
        allowed = levels.outputs.model_dump()
        if app.exactly_once and allowed["duplicated"] is None:
            allowed["duplicated"] = 0
        found, latency = made.anomalies, made.latency
        totals = {
            **made.totals,
            "outputs_of_a_record": app.per_record,
            "exactly_once": app.exactly_once,
            **{kind: found.get(kind, Anomaly(0)).count for kind in KINDS},
        }
        assert app.input is not None
        assert app.output is not None
        unseen = run.doubts_about(app.input, app.output)
        if not totals["input_records"]:
            unseen.append(f"{app.name}: the input holds no record of the run, so nothing was due")
        doubts += unseen
        measured[app.name] = {**totals, **latency}
        figures += _figures(app, totals, latency, allowed)
        if allowed["p99_ms"] is not None and not latency:
            doubts.append(f"{app.name}: no latency, as its output topic has no times of the broker")
        elif allowed["p99_ms"] is not None and latency["latency_p99_ms"] > allowed["p99_ms"]:
            problems.append(
                f"{app.name}: the 99th percentile of the latency is {latency['latency_p99_ms']:,.0f} ms, "
                f"the level is {allowed['p99_ms']:g} ms"
            )
        anomalies = add(anomalies, found)
        for kind, anomaly in found.items():
            level = allowed[kind]
            # A topic that was not seen whole explains each kind.
            if not unseen and level is not None and anomaly.count > level:
                where = first(anomaly, "producer", "seq")
                problems.append(f"{app.name}: {anomaly.count:,} outputs {kind}{where}")
    due = sum(one["due_records"] for one in measured.values())
    missing = sum(one["missing"] for one in measured.values())
    fine = f"{missing:,} missing of {due:,} outputs due"
    return concluded("outputs", problems, doubts, fine, figures, measured=measured, anomalies=anomalies)


def _figures(
    app: Application, totals: dict[str, Any], latency: Mapping[str, float], allowed: dict[str, Any]
) -> list[Figure]:
    due = totals["due_records"]
    counts = [
        Figure(f"{app.name} outputs {kind}", totals[kind], allowed[kind], key=f"outputs.{kind}",
               of=due if kind == "missing" else None)
        for kind in KINDS
    ]  # fmt: skip
    p99 = latency.get("latency_p99_ms")
    if p99 is None and allowed["p99_ms"] is None:
        return counts
    return [*counts, Figure(f"{app.name} p99", p99, allowed["p99_ms"], "ms", key="outputs.p99_ms")]
