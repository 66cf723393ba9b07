"""Whether a Streams application made of every record what it should."""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from evidence.levels import Levels, given
from evidence.run import Application, Run
from spark_checks.engine.anomalies import tally
from spark_checks.engine.facts import applied, at_place
from spark_checks.engine.readers import Evidence
from spark_checks.results import Anomaly, Figure, Result, judge, judged

KINDS: Final = ("missing", "duplicated", "unexpected")
_ID: Final = ["application", "producer", "seq"]


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
    run, records, slo = evidence.run, evidence.table("records"), given(levels.outputs)
    audited = run.audited_applications()
    if not audited:
        return Result("outputs", "unknown", "run.json names no application with an output", slo=slo)
    if records is None:
        because = "the topics were not read: no records table, and the cluster could not be asked"
        return Result("outputs", "unknown", because, slo=slo)
    problems: list[str] = []
    doubts: list[str] = []
    measured: dict[str, Any] = {}
    anomalies: dict[str, Anomaly] = {}
    figures: list[Figure] = []
    for app in audited:
        allowed = levels.outputs.model_dump()
        if app.exactly_once and allowed["duplicated"] is None:
            allowed["duplicated"] = 0
        rows = _by_record(records, app).persist()
        totals = _totals(rows, app)
        found = tally(_findings(rows, app), _ID) if any(totals[kind] for kind in KINDS) else {}
        rows.unpersist()
        assert app.input is not None
        assert app.output is not None
        unseen = run.doubts_about(app.input, app.output)
        if not totals["input_records"]:
            unseen.append(f"{app.name}: the input holds no record of the run, so nothing was due")
        doubts += unseen
        latency = _latency(records, app, run)
        measured[app.name] = totals | latency
        figures += _figures(app, totals, latency, allowed)
        if allowed["p99_ms"] is not None and not latency:
            doubts.append(f"{app.name}: no latency, as its output topic has no times of the broker")
        elif allowed["p99_ms"] is not None and latency["latency_p99_ms"] > allowed["p99_ms"]:
            problems.append(
                f"{app.name}: the 99th percentile of the latency is {latency['latency_p99_ms']:,.0f} ms, "
                f"the level is {allowed['p99_ms']:g} ms"
            )
        for kind, anomaly in found.items():
            before = anomalies.get(kind, Anomaly(0))
            anomalies[kind] = Anomaly(before.count + anomaly.count, before.examples + anomaly.examples)
            level = allowed[kind]
            # A topic that was not seen whole explains each kind.
            if not unseen and level is not None and anomaly.count > level:
                first = anomaly.examples[0]
                problems.append(
                    f"{app.name}: {anomaly.count:,} outputs {kind} (first: producer {first['producer']}, "
                    f"seq {first['seq']})"
                )
    due = sum(one["due_records"] for one in measured.values())
    missing = sum(one["missing"] for one in measured.values())
    short = f"{missing:,} missing of {due:,} outputs due"
    verdict, because = judge(problems, doubts, short, judged=judged(figures))
    return Result(
        "outputs",
        verdict,
        because,
        slo=slo,
        measured=measured,
        anomalies=anomalies,
        figures=tuple(figures),
    )


def _figures(
    app: Application, totals: dict[str, Any], latency: dict[str, float], allowed: dict[str, Any]
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


def _by_record(records: DataFrame, app: Application) -> DataFrame:
    """Return a row a record: copies in the input, outputs, and how many of them are different.

    Two shuffles of every record of both topics by its identity, of a few numbers each: outputs are counted by
    key first, as a count of distinct keys would do.
    """
    assert app.input is not None
    assert app.output is not None
    ours = records.where(F.col("producer").isNotNull() & F.col("crc_ok"))
    value = ["producer", "seq", "crc"]
    inputs = ours.where(at_place(app.input)).groupBy(*value).agg(F.count(F.lit(1)).alias("copies"))
    by_key = ours.where(at_place(app.output)).groupBy(*value, "key_hash").agg(F.count(F.lit(1)).alias("n"))
    outputs = by_key.groupBy(*value).agg(F.sum("n").alias("outputs"), F.count(F.lit(1)).alias("different"))
    joined = inputs.join(outputs, value, "full").na.fill(0, ["copies", "outputs", "different"])
    due = F.when(F.col("copies") > 0, app.per_record).otherwise(0)
    again = F.when(F.col("copies") == 1, F.col("outputs") - F.col("different")).otherwise(0)
    return joined.select(
        F.lit(app.name).alias("application"),
        "producer",
        "seq",
        "copies",
        "outputs",
        due.alias("due"),
        F.greatest(due - F.col("different"), F.lit(0)).alias("missing"),
        again.alias("duplicated"),
        F.greatest(F.col("different") - due, F.lit(0)).alias("unexpected"),
    )


def _latency(records: DataFrame, app: Application, run: Run) -> dict[str, float]:
    window = F.col("intended_us").between(run.measured_from_us, run.measured_until_us)
    took = F.greatest(F.col("received_us") - F.col("intended_us"), F.lit(0)) / 1000
    row = (
        applied(records, app)
        .where(window)
        .agg(F.percentile_approx(took, [0.5, 0.99], 10_000).alias("p"), F.max(took).alias("most"))
        .first()
    )
    if row is None or row["most"] is None:
        return {}
    names = ("latency_p50_ms", "latency_p99_ms", "latency_max_ms")
    return {name: round(ms, 1) for name, ms in zip(names, (*row["p"], row["most"]), strict=True)}


def _totals(rows: DataFrame, app: Application) -> dict[str, Any]:
    sums = [F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in ("outputs", "due", *KINDS)]
    row = rows.agg(F.count_if(F.col("copies") > 0).alias("inputs"), *sums).first()
    assert row is not None
    return {
        "input_records": row["inputs"],
        "due_records": row["due"],
        "output_records": row["outputs"],
        "outputs_of_a_record": app.per_record,
        "exactly_once": app.exactly_once,
        **{kind: row[kind] for kind in KINDS},
    }


def _findings(rows: DataFrame, app: Application) -> DataFrame:
    """Return a row a record and kind, which counts as often as outputs are concerned."""
    kinds = F.array(*(F.struct(F.lit(k).alias("kind"), F.col(k).alias("_times")) for k in KINDS))
    shown = rows.withColumn("found", F.explode(kinds)).where("found._times > 0")
    return shown.select("found.kind", *_ID, "copies", "outputs", "due", "found._times")
