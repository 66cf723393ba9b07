"""Eager, cooperative and consumer-protocol groups on a real broker: each leaves evidence of who owned what."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from lab.bench.rebalance.trial import PROTOCOLS

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.long,
    pytest.mark.timeout(300),
    pytest.mark.usefixtures("jars"),
]


def test_each_protocol_is_told_from_the_others_by_what_it_takes_away(tmp_path: Path) -> None:
    runs, out = tmp_path / "runs", tmp_path / "out"
    # In a process of its own, as a person has it: its clients' threads may still wait for the broker that is gone.
    command = [
        sys.executable,
        "-m",
        "lab.bench.rebalance",
        "--members",
        "2",
        "--restarts",
        "1",
        "--pause",
        "4",
    ]
    done = subprocess.run(
        [*command, "--runs", str(runs), "--out", str(out)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    groups = json.loads((out / "results.json").read_text())["groups"]
    assert {name: group["gives_away"] for name, group in groups.items()} == {
        "eager": "all at once",
        "cooperative": "some",
        "consumer": "some",
    }
    assert {name: (group["protocol"], group["assignor"]) for name, group in groups.items()} == {
        "eager": ("classic", "range"),
        "cooperative": ("classic", "cooperative-sticky"),
        "consumer": ("consumer", ""),
    }
    assert groups["eager"]["most_taken_away"] == groups["eager"]["partitions"] == 12
    assert "eager: classic range" in (out / "report.md").read_text()

    (run,) = runs.iterdir()
    owned = ds.dataset(run / "evidence" / "assignments", format="parquet").to_table().to_pandas()
    for name in PROTOCOLS:
        mine = owned[owned["group"] == name]
        assert set(mine["partition"]) == set(range(12))
        assert {f"{name}-0", f"{name}-1"} == set(mine["consumer"])
    page = (run / "report" / "report.html").read_text()
    assert "How groups revoked their partitions" in page
    assert all(f"<td>{name}</td>" in page for name in PROTOCOLS)
