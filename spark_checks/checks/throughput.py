"""Whether the acknowledged rate was met, over the whole steady window."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from pyspark.sql import functions as F

from kedge.evidence.levels import Levels
from kedge.evidence.run import REST_INSTANCE
from spark_checks.engine.anomalies import listed
from spark_checks.engine.facts import ledger_by
from spark_checks.engine.percentiles import rank
from spark_checks.engine.readers import Evidence
from spark_checks.engine.time_bins import BIN_US
from spark_checks.rebalance.restarts import Restart, read_restarts
from spark_checks.results import Figure, Result, concluded


def check(evidence: Evidence, levels: Levels) -> Result:
    """Acknowledged records per second, by interface (Kafka protocol, REST) and REST instance.

    Counted by the time of the acknowledgement, in whole seconds of the steady window: from the end of the
    warm-up until the load stops. The level is met when the records acknowledged in the window divided by its
    length reach it, and no second without any acknowledgement lies outside of a restart. Beside the mean
    stands the sustained rate: the 5th percentile of the seconds, empty ones included. When the generators
    offered less than the level, and what they offered was acknowledged, nothing is known of the level:
    unknown. Times are those of the generators' own clock.
    """
    run = evidence.run
    seconds = int(run.measured_s)
    acked = ledger_by(evidence, "via", "instance", "outcome", "acked_s").where("outcome = 'acked'")
    rows = acked.select("via", "instance", "acked_s", "records", "bytes").collect()
    window = ledger_by(evidence, "via", "intended_s").where(f"intended_s >= 0 and intended_s < {seconds}")
    offered: dict[str, int] = dict(window.groupBy("via").agg(F.sum("records")).collect())
    by_via: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    by_instance: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    volume: dict[str, int] = defaultdict(int)
    for row in rows:
        by_via[row["via"]][row["acked_s"]] += row["records"]
        if 0 <= row["acked_s"] < seconds:
            volume[row["via"]] += row["bytes"]
            if row["instance"]:
                by_instance[row["via"]][row["instance"]] += row["records"]
    restarts = read_restarts(evidence.rows("actions"), run)
    problems: list[str] = []
    doubts: list[str] = []
    measured: dict[str, Any] = {}
    shown: list[Figure] = []
    empty: list[dict[str, Any]] = []
    for via in sorted({*by_via, *(producer.via for producer in run.producers.values())}):
        figures = rates([by_via[via].get(n, 0) for n in range(seconds)])
        figures["offered_records_per_s"] = round(offered.get(via, 0) / max(seconds, 1), 1)
        figures["mean_bytes_per_s"] = round(volume[via] / max(seconds, 1), 1)
        if via != "kafka":
            figures["by_instance_records_per_s"] = {
                name: round(count / max(seconds, 1), 1) for name, count in sorted(by_instance[via].items())
            }
        measured[via] = figures
        if via == REST_INSTANCE:
            # It asks whether each answers: most seconds have no record.
            continue
        gaps = unexplained(by_via[via], seconds, restarts, run.measured_from_us)
        empty += [{"via": via, "second": gap} for gap in gaps]
        target = getattr(levels.throughput, via).records_per_s if via in ("kafka", "rest") else None
        problem, doubt = _against(via, target, figures, len(gaps)) if target else ("", "")
        key = f"throughput.{via}.records_per_s"
        rate = figures["mean_records_per_s"]
        shown.append(Figure(via, rate, target, "/s", key=key, least=True, doubtful=bool(doubt)))
        if gaps:
            shown.append(Figure(f"{via} seconds without a record", len(gaps), 0 if target else None))
        if target:
            figures["share_of_level"] = round(rate / target, 3)
        problems += [problem] if problem else []
        doubts += [doubt] if doubt else []
    if not rows or seconds < 1:
        doubts.append("no record was acknowledged in a steady window of a second or more")
    short = [
        f"{via} {figures['mean_records_per_s']:,.0f}/s"
        for via, figures in measured.items()
        if via != REST_INSTANCE
    ]
    # Rates first: they are what was asked for.
    shown.sort(key=lambda one: not one.least)
    return concluded(
        "throughput",
        problems,
        doubts,
        f"{'; '.join(short)} over {seconds} s",
        shown,
        measured={"window_s": seconds, **measured},
        anomalies=listed("empty_second", empty),
        series={"by_via": {via: sorted(counts.items()) for via, counts in by_via.items()}},
    )


def _against(via: str, target: float, figures: dict[str, Any], gaps: int) -> tuple[str, str]:
    """Return what is wrong or doubtful of one interface against its level; empty where nothing is."""
    mean, offered = figures["mean_records_per_s"], figures["offered_records_per_s"]
    if not figures["records"]:
        return "", f"{via}: no acknowledged record, so no rate against {target:,.0f}/s"
    if mean < target:
        text = f"{via}: {mean:,.0f} records/s, the level is {target:,.0f}"
        if offered < target and mean >= 0.99 * offered:
            return "", f"{text}; only {offered:,.0f} were offered"
        return text, ""
    return (f"{via}: {gaps} seconds without an acknowledgement outside of restarts" if gaps else ""), ""


def rates(counts: list[int]) -> dict[str, Any]:
    """Return mean, 5th percentile (nearest rank), least and most of the seconds, records per second."""
    ordered = sorted(counts) or [0]
    return {
        "records": sum(counts),
        "mean_records_per_s": round(sum(ordered) / len(ordered), 1),
        "sustained_p5_records_per_s": ordered[rank(len(ordered), 5) - 1],
        "least_records_per_s": ordered[0],
        "most_records_per_s": ordered[-1],
    }


def unexplained(counts: dict[int, int], seconds: int, restarts: list[Restart], from_us: int) -> list[int]:
    """Return the seconds of the window without a record that no restart covers."""
    gaps = []
    for second in range(seconds):
        begin = from_us + second * BIN_US
        covered = any(r.begin_us < begin + BIN_US and begin < r.until_us for r in restarts)
        if not counts.get(second) and not covered:
            gaps.append(second)
    return gaps
