"""A canary's windows: each a small run in a folder of its own, kept while there is room."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from kedge.evidence.canary import (
    WINDOWS,
    CanaryConfig,
    Window,
    WindowResult,
    folders,
    read_result,
    read_window,
    write_result,
    write_window,
)
from kedge.evidence.load_state import ENOUGH, OF_CANARY
from kedge.evidence.writing import write_json
from verify.process import now_us, start_module

#: How much longer a load may go on than its window where the next one does not come up.
GRACE_S: Final = 60.0
_NO_PANDAS: Final = Path(__file__).with_name("no_pandas")
#: What a passed window keeps.
_KEPT: Final = frozenset({"window.json", "verdict.json"})


class RunningWindow:
    """A window whose load runs; ``turn`` is the topics and groups that it has."""

    def __init__(self, config: CanaryConfig, home: Path, turn: int) -> None:
        self.turn = turn
        self.load = config.loads[turn]
        self._window = Window(run_id=_free_name(home), began_us=now_us())
        self.folder = home / WINDOWS / self._window.run_id
        self.folder.mkdir(parents=True)
        try:
            self.process = self._start(config)
        except OSError:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise
        self._sent_from: float | None = None
        self.why = ""
        self.planned: set[str] = set()

    def _start(self, config: CanaryConfig) -> subprocess.Popen[bytes]:
        write_window(self.folder, self._window)
        timing = {"run_id": self.run_id, "min_s": config.window_s, "max_s": config.window_s + GRACE_S}
        write_json(self.folder / "load.json", self.load.model_dump(mode="json") | timing)
        path = os.pathsep.join(filter(None, [str(_NO_PANDAS), os.environ.get("PYTHONPATH", "")]))
        environment = {"KEDGE_PARENT_PID": str(os.getpid()), "PYTHONPATH": path, OF_CANARY: "1"}
        log = self.folder / "load.log"
        return start_module("verify.load", "--run-dir", self.folder, log=log, environment=environment)

    @property
    def run_id(self) -> str:
        """The name of the run."""
        return self._window.run_id

    def sends(self) -> bool:
        """Return whether its load is past its warm-up; from then on its time counts."""
        if self._sent_from is None:
            with suppress(OSError, ValueError, LookupError):
                state = json.loads((self.folder / "load.state").read_text(encoding="utf-8"))
                # One that failed is past nothing.
                if state["phase"] in ("running", "draining", "done"):
                    self._sent_from = time.monotonic()
        return self._sent_from is not None

    def sent_s(self) -> float:
        """Return for how many seconds it has sent past its warm-up."""
        return 0.0 if self._sent_from is None else time.monotonic() - self._sent_from

    def enough(self) -> None:
        """Have the load send no more, read to its end, and end."""
        with suppress(OSError):
            (self.folder / ENOUGH).touch()

    def forget(self) -> str:
        """Remove a window that has sent nothing that counts, and return why, once its load has ended."""
        _, why = _ended(self.folder, self.process.returncode)
        shutil.rmtree(self.folder, ignore_errors=True)
        return why

    def broken(self, why: str) -> None:
        """Note what makes this window unknown; the first reason stays."""
        self.why = self.why or why

    def close(self) -> Window:
        """Write down how the window ended, once its load has; raises OSError, and may be tried again."""
        sent_until_us, lacks = _ended(self.folder, self.process.returncode)
        why = self.why or lacks
        self._window = self._window.model_copy(
            update={
                "state": "broken" if why else "closed",
                "why": why,
                "ended_us": sent_until_us or now_us(),
                "planned": sorted(self.planned),
            }
        )
        write_window(self.folder, self._window)
        return self._window


def sending(window: RunningWindow) -> bool:
    """Return whether a window sends now; one that has ended cannot be closed while the disk is full."""
    return window.sends() and window.process.poll() is None


def _free_name(home: Path) -> str:
    at = time.time()
    while True:
        name = datetime.fromtimestamp(at, UTC).strftime("%Y%m%dT%H%M%SZ")
        if not (home / WINDOWS / name).exists():
            return name
        at += 1


def _ended(folder: Path, status: int | None) -> tuple[int | None, str]:
    """Return until when a load sent, and why its evidence is not whole; empty where it is."""
    try:
        if status != 0:
            said = json.loads((folder / "load.state").read_text(encoding="utf-8")).get("message")
            return None, f"the load ended with status {status}: {said or 'see load.log'}"
        run = json.loads((folder / "evidence" / "run.json").read_text(encoding="utf-8"))
        return int(run["measured_until_us"]), "" if run["ended_us"] is not None else "the load has no end"
    except (OSError, ValueError, LookupError, TypeError) as error:
        return None, f"the load left no evidence: {error}"


def left_behind(home: Path) -> None:
    """Note of windows that run no more, because the canary ended, that they are broken; raises OSError."""
    for folder in folders(home):
        window = read_window(folder)
        if window is None and read_result(folder) is None:
            began = _began_us(folder)
            window = Window(run_id=folder.name, began_us=began)
        if window is not None and window.state == "running":
            why = "the canary ended while this window ran"
            write_window(folder, window.model_copy(update={"state": "broken", "why": why, "ended_us": None}))


def _began_us(folder: Path) -> int:
    with suppress(ValueError):
        return int(datetime.strptime(f"{folder.name[:16]}+0000", "%Y%m%dT%H%M%SZ%z").timestamp() * 1e6)
    return 0


def last_end_us(home: Path) -> int | None:
    """Return when the last window ended, by its own word or by when its load last told its state."""
    for folder in reversed(folders(home)):
        window = read_window(folder)
        if window is not None and window.ended_us:
            return window.ended_us
        with suppress(OSError):
            return int((folder / "load.state").stat().st_mtime * 1e6)
    return None


def note_hole(home: Path, from_us: int, until_us: int, planned: Iterable[str] = (), reason: str = "") -> None:
    """Note that nothing was sent for a while, as a window that is unknown; raises OSError."""
    seconds = (until_us - from_us) / 1e6
    name = _free_name(home) + "-hole"
    folder = home / WINDOWS / name
    folder.mkdir(parents=True, exist_ok=True)
    why = f"nothing was sent for {seconds:.1f} s{': ' * bool(reason)}{reason}"
    write_window(
        folder,
        Window(
            run_id=name,
            state="hole",
            began_us=from_us,
            ended_us=until_us,
            why=why,
            planned=sorted(planned),
        ),
    )


def prune(home: Path, config: CanaryConfig) -> None:
    """Have verdict and figures of all windows kept, evidence of those that did not pass, within the bounds.

    Windows beyond ``keep_windows`` go, the oldest first. Evidence beyond ``keep_mib`` goes, the oldest first,
    that of windows which nobody has audited too: they become unknown.
    """
    there = [folder for folder in folders(home) if not _runs(folder)]
    for folder in there[: max(0, len(there) - config.keep_windows)]:
        shutil.rmtree(folder, ignore_errors=True)
    left, bytes_left = there[-config.keep_windows :], int(config.keep_mib * (1 << 20))
    for folder in reversed(left):
        result = read_result(folder)
        if result is not None and result.verdict in ("pass", "measured"):
            _empty(folder)
            continue
        bytes_left -= sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        if bytes_left < 0:
            if result is None and (window := read_window(folder)) is not None:
                write_result(folder, unaudited(window, "its evidence had to go before it was audited"))
            _empty(folder)


def unaudited(window: Window, why: str) -> WindowResult:
    """Return what is known of a window that the audit's checks did not judge: nothing."""
    return WindowResult(window=window, verdict="unknown", because=[why], audited_us=now_us())


def _runs(folder: Path) -> bool:
    window = read_window(folder)
    return window is not None and window.state == "running"


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        if path.name in _KEPT:
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with suppress(OSError):
                path.unlink()
