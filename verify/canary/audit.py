"""The audit of a canary: each window that has ended gets its verdict, and its figures join the history."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import yaml

from kedge.evidence.canary import (
    CanaryConfig,
    CanaryError,
    Window,
    WindowResult,
    folders,
    read_config,
    read_result,
    read_window,
    write_result,
)
from kedge.evidence.secrets import merged
from spark_checks.__main__ import conclude, settled
from spark_checks.job import Auditor
from verify.canary.windows import prune, unaudited
from verify.process import now_us

#: What runs on the host goes first, the canary's load among it.
_LOWEST: Final = 19
#: In the folder of a window whose audit began.
_BEGUN: Final = "audit.begun"


def run(config_folder: Path, home: Path, master: str, memory: str | None = None) -> int:
    """Audit what is to be audited; return 0, also where a verdict is no pass.

    Raises:
        CanaryError, OSError: when the canary's folder cannot be read or written.
    """
    config, home = read_config(config_folder), home.resolve()
    os.nice(_LOWEST)
    with _alone(home):
        audit_windows(config, home, master, memory)
    return 0


@contextmanager
def _alone(home: Path) -> Iterator[None]:
    """Keep a second audit of the same windows out; raises CanaryError where one is at work."""
    with (home / ".audit.lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CanaryError(f"another audit of {home} is at work") from None
        yield


def audit_windows(config: CanaryConfig, home: Path, master: str, memory: str | None) -> None:
    """Give each window that has ended its verdict, the oldest first; raises OSError."""
    due = [(folder, window) for folder in folders(home) if (window := _due(folder)) is not None]
    # Spark starts with the first window that has something to audit.
    with Auditor(home / "audit.log", master, memory) as auditor:
        for folder, window in due:
            result = _audit(config, home, auditor, folder, window)
            write_result(folder, result)
            print(
                f"{window.run_id}: {result.verdict}{': ' * bool(result.because)}{'; '.join(result.because)}"
            )
    prune(home, config)


def _due(folder: Path) -> Window | None:
    window = read_window(folder)
    return window if window and window.state != "running" and read_result(folder) is None else None


def _audit(config: CanaryConfig, home: Path, auditor: Auditor, folder: Path, window: Window) -> WindowResult:
    if window.state != "closed":
        return unaudited(window, window.why)
    # One that ends the audit, by its memory or its time, must not do so again and again.
    begun = folder / _BEGUN
    if begun.exists():
        return unaudited(window, f"its audit was killed, by its memory or its time; see {home / 'audit.log'}")
    begun.touch()
    levels, log = folder / "slo.yml", home / "audit.log"
    levels.write_text(yaml.safe_dump(levels_of(config, window), sort_keys=False), encoding="utf-8")
    report, began = folder / "report", time.monotonic()
    places, history = (str(folder / "evidence"), str(levels), str(report)), str(home / "history")
    if settled(lambda: conclude(auditor, *places, history=history), log) == 2:
        return unaudited(window, f"the audit broke off; see {log}")
    said = json.loads((report / "verdicts.json").read_text(encoding="utf-8"))
    return result_of(window, said).model_copy(update={"audit_s": round(time.monotonic() - began, 1)})


def levels_of(config: CanaryConfig, window: Window) -> dict[str, Any]:
    """Return the levels of a window: those of a restart where a change was announced, else the steady ones.

    No restart is asked for: whose end a canary would see is not known to it.
    """
    own = config.levels if window.planned else merged(config.levels, config.steady)
    return merged(own, {"rebalance": {"min_restarts": 0}})


def result_of(window: Window, said: Mapping[str, Any]) -> WindowResult:
    """Return the verdict of a window from verdicts.json."""
    others = [check for check in said["checks"] if check["verdict"] not in ("pass", "measured")]
    keys = ("what", "value", "unit", "level", "verdict")
    return WindowResult(
        window=window,
        verdict=said["verdict"],
        because=[f"{check['name']} is {check['verdict']}: {check['because']}" for check in others],
        anomalies={
            kind: int(about["count"])
            for check in said["checks"]
            for kind, about in check["anomalies"].items()
        },
        figures=[
            {"check": check["name"], **{key: figure[key] for key in keys}}
            for check in said["checks"]
            for figure in check["figures"]
        ],
        audited_us=now_us(),
    )
