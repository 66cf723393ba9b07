"""``python -m verify.load.agent``: runs processes of a load on a host of the group load_generator.

It reads on its standard input what to run, JSON by lines, and tells on its standard output what the processes
count; when they have ended, their evidence and logs follow, a line with name and size before each file.
verify.load starts it over SSH.
It ends its processes and itself when its input ends, or when nothing has come for a while:
no load outlives who asked for it.
"""

from __future__ import annotations

import base64
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import FrameType
from typing import Any, Final, NoReturn

from kedge.deploy.generator_bundle import code
from kedge.evidence.border.load_generator import LOG_BYTES
from kedge.evidence.load_options import read_load
from verify.load.actors import workers
from verify.load.board import Board
from verify.process import AHEAD, end_all, last_line, leave, start_module

#: What stands in load.json for the folder of the files that came with it.
FOLDER: Final = "//of-the-generator//"
CLOCK: Final = "clock"
CODE: Final = "code"
END: Final = "end"
FILE: Final = "file"
BYTES: Final = "bytes"
#: Whoever leads the load says something at least every REPEAT_S; after SILENCE_S it is taken for lost.
REPEAT_S: Final = 1.0
SILENCE_S: Final = 20.0
_TELL_S: Final = 0.1

Lines = queue.SimpleQueue[str | None]


class _Input:
    """What comes, and when something last did."""

    def __init__(self) -> None:
        self.lines: Lines = queue.SimpleQueue()
        self.heard = time.monotonic()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in sys.stdin:
            self.heard = time.monotonic()
            self.lines.put(line.strip())
        self.lines.put(None)

    def watch(self) -> None:
        """End this process when nothing comes any more, also where nobody reads what it tells."""
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while time.monotonic() - self.heard < SILENCE_S:
            time.sleep(_TELL_S)
        os.kill(os.getpid(), signal.SIGTERM)


def main() -> int:
    """Answer, run what is asked for, and send its evidence; 0 when all of it ended in order."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end)
    told, version = _Input(), code()
    while (asked := told.lines.get()) == CLOCK:
        _tell({CLOCK: time.time_ns() // 1000, CODE: version})
    if asked is None:
        return 0
    told.watch()
    with tempfile.TemporaryDirectory(prefix="kedge-load-") as folder:
        return _run(json.loads(asked), Path(folder), told.lines)


def _end(number: int, _frame: FrameType | None) -> NoReturn:
    """End in order: the folder of the run, with what it holds of others' secrets, goes."""
    raise SystemExit(128 + number)


def _tell(what: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def _run(wanted: dict[str, Any], folder: Path, lines: Lines) -> int:
    """Run the processes in a folder that goes with them; ``wanted`` is what Generator.begin sends."""
    (folder / "load.json").write_text(wanted["load"].replace(FOLDER, str(folder)), encoding="utf-8")
    for name, content in wanted["files"].items():
        (folder / name).write_bytes(base64.b64decode(content))
    os.environ |= {"KEDGE_SECRETS": json.dumps(wanted["secrets"]), AHEAD: str(wanted["ahead_us"])}
    plan = workers(read_load(folder))
    board = Board(folder, [actor for actors in plan.values() for actor in actors], create=True)
    for name in ("evidence", "logs"):
        (folder / name).mkdir()
    running: dict[str, subprocess.Popen[bytes]] = {}
    mine = [actor for name in wanted["workers"] for actor in plan[name]]
    try:
        for name in wanted["workers"]:
            log = folder / "logs" / f"{name}.log"
            running[name] = start_module("verify.load.worker", folder, name, os.getpid(), log=log)
        while not _ended(running, board, mine, folder):
            try:
                said = lines.get(timeout=_TELL_S)
            except queue.Empty:
                continue
            if said is None:
                return 1
            if said == END:
                end_all(running.values())
            else:
                board.head[:] = json.loads(said)
    finally:
        end_all(running.values())
    _send_files(folder)
    return 0


def _send_files(folder: Path) -> None:
    """Send what writers have finished: a file that was being written is hidden.

    So are lists of files: whoever takes the files counts their rows.
    """
    for name in ("evidence", "logs"):
        for path in sorted((folder / name).rglob("[!._]*")):
            if path.is_file():
                size = path.stat().st_size
                # Of a long log the end says what it came to.
                kept = min(size, LOG_BYTES) if name == "logs" else size
                with path.open("rb") as file:
                    file.seek(size - kept)
                    _tell({FILE: str(path.relative_to(folder)), BYTES: kept})
                    shutil.copyfileobj(file, sys.stdout.buffer)
    _tell({FILE: "", BYTES: 0})


def _ended(
    running: Mapping[str, subprocess.Popen[bytes]], board: Board, mine: Iterable[str], folder: Path
) -> bool:
    """Tell what is counted, which processes have ended, and why those did that should not have."""
    statuses = {name: process.poll() for name, process in running.items()}
    over = all(status is not None for status in statuses.values())
    _tell(
        {
            "cells": {actor: board.cells(actor).tolist() for actor in mine},
            "ended": {name: status for name, status in statuses.items() if status is not None},
            "said": {name: last_line(folder / "logs" / f"{name}.log") for name, s in statuses.items() if s},
            "over": over,
        }
    )
    return over


if __name__ == "__main__":
    # A thread still reads the input: an orderly end would wait for it.
    try:
        leave(main())
    except SystemExit as ended:
        # Nobody may read what is left to say.
        os._exit(int(ended.code or 0))
