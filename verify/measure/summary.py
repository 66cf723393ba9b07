"""What a measurement comes to: the audit's sums as a report, a vars file for the plan, and a table."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from kedge.evidence.levels import Levels
from spark_checks.checks import partition_rates
from spark_checks.engine.readers import open_evidence
from spark_checks.job import Audit, Auditor
from spark_checks.report import documents
from spark_checks.results import Result
from verify.measure.page import page

RECOMMENDATIONS: Final = "report/recommendations.yml"


def summarize(run_dir: Path, out: Path | None = None) -> Result:
    """Have the audit do the sums of a measurement; leaves report/ in the run's folder.

    ``out`` is where the recommendations go too.

    Raises EvidenceError when the evidence cannot be read.
    """
    folder = run_dir / "report"
    folder.mkdir(parents=True, exist_ok=True)
    with Auditor(folder / "spark.log", driver_memory="1g") as auditor:
        evidence = open_evidence(auditor.start(), str(run_dir / "evidence"))
        begin = time.monotonic()
        result = partition_rates.check(evidence, Levels())
        took = round(time.monotonic() - begin, 2)
        seconds = {result.name: took, "all": took}
        audit = Audit(evidence.run.run_id, result.verdict, (result,), evidence, (), None, seconds)
        documents.write(audit, str(folder))
        (folder / "report.html").write_text(page(result, evidence.run.run_id), encoding="utf-8")
    if out is not None:
        shutil.copyfile(run_dir / RECOMMENDATIONS, out)
    return result


def show(console: Console, result: Result, run_dir: Path, out: Path | None = None) -> None:
    """Print the curve, what ended it, and the number of partitions that each target needs."""
    measured = result.measured
    if not measured:
        console.print(result.because, highlight=False)
        return
    title = (
        f"{measured['record_bytes']} bytes, {measured['codec']}, acks={measured['acks']}, "
        f"copies: {measured['replication']}, clients: {measured['clients']}"
    )
    table = Table(title=title, title_justify="left")
    for column in ("partitions", "produced MB/s", "spread", "consumed MB/s", "spread"):
        table.add_column(column, justify="right")
    production, consumption = measured["production"], measured["consumption"]
    for count, rate in production["curve_mb_per_s"].items():
        table.add_row(count, f"{rate:,.1f}", f"{production['curve_spread'][count]:.0%}",
                      f"{consumption['curve_mb_per_s'].get(count, 0):,.1f}",
                      f"{consumption['curve_spread'].get(count, 0):.0%}")  # fmt: skip
    console.print(table)
    for name in ("production", "consumption"):
        curve = measured[name]
        end = f"stops at {curve['stops_at']} partitions" if curve["stops_at"] else "still grows at its end"
        console.print(f"{name}: {end}; limited by {curve['limited_by']}", highlight=False, soft_wrap=True)
    for target in measured["targets"]:
        console.print(
            f"topic {target['topic']}: {target['target_mb_per_s']:g} MB/s x growth {target['growth']:g} "
            "needs "
            f"{target['needed_partitions']} partitions",
            highlight=False,
            soft_wrap=True,
        )
    console.print(f"{result.verdict}: {result.because}", highlight=False, markup=False, soft_wrap=True)
    if result.recommendations:
        console.print(f"for the plan: {out or run_dir / RECOMMENDATIONS}", highlight=False, soft_wrap=True)
    console.print(f"report: {run_dir / 'report' / 'report.html'}", highlight=False, soft_wrap=True)
