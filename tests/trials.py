"""What tests of trials ask for: settings and a load of two hosts of proxies, and an outcome in a line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from kedge.evidence.writing import rows_to_columns, write_table
from verify.trials.settings import TrialSettings, read_settings
from verify.trials.trial import TrialResult

LOAD: dict[str, Any] = {
    "run_id": "r",
    "cluster": "leaf",
    "bootstrap_servers": "b:9092",
    "kafka": {"topic": "k", "records_per_s": 9000},
    "rest": {"topic": "t", "url": "http://b", "records_per_s": 5000, "records_per_request": 50},
}
_ROLE = Path(__file__).parent.parent / "roles/trials/defaults/main.yml"
DEFAULTS: dict[str, Any] = {
    name.removeprefix("trials_"): value
    for name, value in yaml.safe_load(_ROLE.read_text(encoding="utf-8")).items()
}
SETTINGS: dict[str, Any] = {
    **DEFAULTS,
    "command": ["ansible-playbook", "-i", "INV"],
    "service": "kafka_rest",
    "instances": {"rest1": ["8082", "8083"], "rest2": ["8082", "8083"]},
}


def settings(**more: Any) -> TrialSettings:
    return read_settings(json.dumps({**SETTINGS, **more}))


def outcome(number: int, load: float = 1000, *, passed: bool = True, **more: Any) -> TrialResult:
    given = {
        "condition": "healthy",
        "kind": "full",
        "because": "" if passed else "slow",
        "audited": True,
        **more,
    }
    return TrialResult(number, given.pop("condition"), load, given.pop("kind"), passed, given.pop("because"), 60.0,
                   "2026-11-22T10:00:00Z", f"{number:03d}", **given)  # fmt: skip


def write_samples(folder: Path, used: Sequence[float]) -> None:
    """Write the samples of a proxy's process: its seconds of processor time at each second."""
    rows = [
        {
            "host": "rest1",
            "service": "kafka_rest",
            "instance": "8082",
            "at_us": second * 1_000_000,
            "rss_bytes": 300 * 2**20,
            "cpu_us": int(seconds * 1_000_000),
            "fds": 10,
        }
        for second, seconds in enumerate(used)
    ]
    write_table(folder / "evidence", "processes", "watch", rows_to_columns("processes", rows))
