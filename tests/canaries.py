"""Windows of a canary, as tests make them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from kedge.evidence.canary import (
    CanaryConfig,
    Window,
    WindowResult,
    read_config,
    read_window,
    write_result,
    write_window,
)

LEVELS = {"latency": {"kafka": {"ack_p99_ms": 100}}}


def config(folder: Path, **values: Any) -> CanaryConfig:
    load = {"run_id": "r", "cluster": "leaf", "bootstrap_servers": "nowhere:9092"}
    loads = [
        {**load, "kafka": {"topic": f"t{turn}", "group": f"t{turn}", "records_per_s": 10}} for turn in (0, 1)
    ]
    numbers = {
        "name": "leaf",
        "window_s": 60,
        "keep_windows": 3,
        "keep_mib": 1,
        "scrape_address": "127.0.0.1",
    }
    folder.mkdir(exist_ok=True)
    (folder / "canary.yaml").write_text(yaml.safe_dump({**numbers, "scrape_port": 9464, **values}))
    (folder / "loads.json").write_text(json.dumps({"loads": loads, "levels": LEVELS, "steady": {}}))
    return read_config(folder)


def window(home: Path, name: str, kib: int = 1, **values: Any) -> Path:
    folder = home / "windows" / name
    (folder / "evidence").mkdir(parents=True)
    (folder / "evidence" / "rows.parquet").write_bytes(bytes(kib << 10))
    write_window(
        folder, Window(**{"run_id": name, "began_us": 1, "ended_us": 2, "state": "closed", **values})
    )
    return folder


def verdict(folder: Path, verdict: Any) -> None:
    own = read_window(folder)
    assert own is not None
    write_result(folder, WindowResult(window=own, verdict=verdict, audited_us=3))
