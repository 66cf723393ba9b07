"""What a tried load has to meet: the service levels of its trial, its rate, how far behind it may be."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal

from kedge.evidence.levels import Levels, read_levels
from spark_checks.job import Auditor
from spark_checks.report import documents
from spark_checks.report import page as report

#: The least share of the intended rate that counts as sustained, beside a request at either end.
SUSTAINED: Final = 0.97
#: A load this far behind what it was to send does not catch up: the trial ends.
BEHIND_S: Final = 5.0
#: More than one of a hundred late records is too many for a 99th percentile, whatever the rest is; a little
#: more, since requests at the edges of the steady seconds are in them or not.
LATE_SHARE: Final = 0.011


def levels_of(
    given: Levels, way: Literal["kafka", "rest"], sent: Mapping[str, Any], seconds: float, *, restarts: bool
) -> dict[str, Any]:
    """Return the levels of a trial: those that were given, the rate of what is ``sent``, and its restart."""
    # As given: a check is asked for by its levels.
    levels = given.model_dump(exclude_unset=True)
    # A producer's request that the steady seconds cut is in them or not: of small loads that is much.
    cut = sent.get("records_per_request", 1) * sent.get("producers", 1) / seconds
    # An interface that sends nothing has no latency: its levels do not apply.
    if latency := levels.get("latency"):
        levels["latency"] = {name: value for name, value in latency.items() if name == way}
    levels["throughput"] = {
        way: {"records_per_s": max(0.0, round(SUSTAINED * sent["records_per_s"] - cut, 1))}
    }
    if restarts:
        levels["rebalance"] = {**levels.get("rebalance", {}), "min_restarts": 1}
    else:
        levels["rebalance"] = {"min_restarts": 0}
    return levels


def judge(auditor: Auditor, folder: Path, *, report_too: bool) -> tuple[str, str, dict[str, Any]]:
    """Audit a trial; return verdict, why, and the document of verdicts.json.

    Raises:
        EvidenceError: when the evidence cannot be read, or the audit's Java ended twice by itself.
    """
    out = folder / "report"
    out.mkdir(exist_ok=True)
    found = auditor.audit(str(folder / "evidence"), read_levels(folder / "slo.yml"))
    documents.write(found, str(out))
    if report_too:
        (out / "report.html").write_text(report.render(found), encoding="utf-8")
    bad = [f"{r.name}: {r.because}" for r in found.results if r.verdict in ("fail", "unknown")]
    return found.verdict, "; ".join(bad), documents.verdicts(found)
