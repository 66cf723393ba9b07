"""What was measured last: scale.json, and scale.md with the same as tables."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

RESULT: Final = Path(__file__).with_name("scale.json")
WAYS: Final = {
    "audit": "audit (delivery, producer to topic)",
    "duckdb": "DuckDB, anti-join and duplicates",
    "every": "DuckDB, twelve questions of the checks",
    "spark": "the same joins in Spark",
    "whole": "the audit with every check",
}


def keep(part: Mapping[str, Any]) -> None:
    """Lay a part over what was kept, write both files."""
    kept = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    today = datetime.now(UTC).strftime("%Y-%m-%d")
    if "sizes" in part:
        sizes = kept.setdefault("sizes", {})
        for size, found in part["sizes"].items():
            sizes[size] = sizes.get(size, {}) | found
    if "sizes" in part or "machine" not in kept:
        kept["machine"] = {"cores": os.cpu_count(), "python": platform.python_version(), "date": today}
    kept |= {key: {**value, "date": today} for key, value in part.items() if key != "sizes"}
    RESULT.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    RESULT.with_suffix(".md").write_text(tables(kept), encoding="utf-8")


def tables(kept: Mapping[str, Any]) -> str:
    """Return the tables, Markdown."""
    sizes = sorted(kept.get("sizes", {}), key=int)
    lines = [
        f"On {kept['machine']['cores']} cores, {kept['machine']['date']}: `python -m lab.bench.audit.scale "
        f"{' '.join(sizes)}`. Seconds from the files to the answer (median), peak memory with all children.",
        "",
        "| | " + " | ".join(f"{size} million" for size in sizes) + " |",
        "|---|" + "---|" * len(sizes),
    ]
    for way, name in WAYS.items():
        cells = []
        for size in sizes:
            one = kept["sizes"][size].get(way)
            cells.append(f"{one['seconds']:.1f} s, {one['peak_gb']:.1f} GB" if one else "not run")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    if "kafka" in kept:
        one = kept["kafka"]
        lines += [
            "",
            f"Reading from Kafka (`python -m lab.bench.audit.kafka`, {one['date']}): {one['records']:,} "
            f"records of {one['record_bytes']} bytes in {one['seconds']:.1f} s, "
            f"{one['records_per_s']:,} a second; "
            f"of both cores the broker beside it used {one['share_of_cores_broker']:.0%}.",
        ]
    if "cluster" in kept:
        one = kept["cluster"]
        lines += [
            "",
            f"A standalone cluster of two workers (`python -m lab.bench.audit.cluster`, {one['date']}): "
            f"{one['millions']} million records in {one['cluster_s']} s, in `local[2]` in {one['local_s']}: "
            f"{one['ratio']} times ({one['ratios'][0]} to {one['ratios'][1]}, {one['rounds']} rounds).",
        ]
    return "\n".join(lines) + "\n"
