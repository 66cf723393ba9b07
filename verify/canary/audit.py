"""The audit of a canary: each window that has ended gets its verdict, and its figures join the history."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
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
from kedge.evidence.files import replace_text
from kedge.evidence.listing import INGEST
from kedge.evidence.secrets import merged
from spark_checks.command import conclude, settled
from spark_checks.job import Auditor
from verify.canary.windows import prune, unaudited
from verify.process import now_us

#: What runs on the host goes first, the canary's load among it.
_LOWEST: Final = 19
#: In the folder of a window whose audit began.
_BEGUN: Final = "audit.begun"
#: So often is tried what could not be audited, at first after a minute, then after twice as long each time:
#: four hours in all, as long as the topics still have the records.
_TRIES: Final = 9
_AGAIN_US: Final = 60_000_000
#: Runs whose figures ``history`` keeps: each audit reads all of it. Windows keep their own for longer.
_HISTORY: Final = 288
#: Of what earlier sessions of Spark logged, so many letters are kept.
_LOGGED: Final = 1 << 20


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
    if due:
        _keep_log(home / "audit.log")
    # Spark starts with the first window that has something to audit.
    with Auditor(home / "audit.log", master, memory) as auditor:
        for folder, window in due:
            result = _audit(config, home, auditor, folder, window)
            write_result(folder, result)
            print(
                f"{window.run_id}: {result.verdict}{': ' * bool(result.because)}{'; '.join(result.because)}"
            )
    prune(home, config)
    for run in sorted((home / "history").glob("run_id=*"))[:-_HISTORY]:
        shutil.rmtree(run, ignore_errors=True)


def _keep_log(log: Path) -> None:
    """Add what the last session logged to what those before it did: a new session empties its log."""
    older = log.with_name(f"{log.name}.1")
    text = "".join(one.read_text(encoding="utf-8", errors="replace") for one in (older, log) if one.exists())
    replace_text(older, text[-_LOGGED:])
    log.unlink(missing_ok=True)


def _due(folder: Path) -> Window | None:
    window, result = read_window(folder), read_result(folder)
    if window is None or window.state == "running":
        return None
    if result is None:
        return window
    again = result.again_us is not None and now_us() >= result.again_us
    return window if again and (folder / "evidence").is_dir() else None


def _audit(config: CanaryConfig, home: Path, auditor: Auditor, folder: Path, window: Window) -> WindowResult:
    if window.state != "closed":
        return unaudited(window, window.why)
    # One that ends the audit, by its memory or its time, must not do so again and again.
    begun, log = folder / _BEGUN, home / "audit.log"
    if begun.exists():
        why = f"its audit was killed, by its memory or its time; see {log}*"
        return _or_former(folder, unaudited(window, why))
    begun.touch()
    try:
        result = _judged(config, home, auditor, folder, window)
    finally:
        begun.unlink()
    # Brokers were away, or a disk was full: what the topics had may be read later, and name what is lost.
    if not (folder / "evidence" / "records" / INGEST).exists():
        before = read_result(folder)
        tries = before.tries + 1 if before else 1
        again_us = now_us() + (_AGAIN_US << tries - 1) if tries < _TRIES else None
        return _or_former(folder, result).model_copy(update={"tries": tries, "again_us": again_us})
    return result


def _or_former(folder: Path, result: WindowResult) -> WindowResult:
    """Return what an earlier try found, where another one found nothing."""
    former = read_result(folder)
    if former is None or former.verdict == "unknown" or result.verdict != "unknown":
        return result
    return former.model_copy(update={"again_us": None})


def _judged(config: CanaryConfig, home: Path, auditor: Auditor, folder: Path, window: Window) -> WindowResult:
    levels, log = folder / "slo.yml", home / "audit.log"
    levels.write_text(yaml.safe_dump(levels_of(config, window), sort_keys=False), encoding="utf-8")
    report, began = folder / "report", time.monotonic()
    places, history = (str(folder / "evidence"), str(levels), str(report)), str(home / "history")
    if settled(lambda: conclude(auditor, *places, history=history), log) == 2:
        return unaudited(window, f"the audit broke off; see {log}*")
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
