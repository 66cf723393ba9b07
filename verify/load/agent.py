"""``python -m verify.load.agent``: runs processes of a load on a host of the group load_generator.

It reads on its standard input what to run, JSON by lines, and tells on its standard output what the processes
count; when they have ended, their evidence and logs follow as a tar archive. verify.load starts it over SSH.
It ends its processes and itself when its input ends: no load outlives who asked for it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import queue
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from evidence.load import read_load
from verify.load.actors import workers
from verify.load.board import Board
from verify.process import AHEAD, end_all, leave, start_module

#: What stands in load.json for the folder of the files that came with it.
FOLDER: Final = "//of-the-generator//"
CLOCK: Final = "clock"
CODE: Final = "code"
END: Final = "end"
_TELL_S: Final = 0.1

Lines = queue.SimpleQueue[str | None]


def main() -> int:
    """Answer, run what is asked for, and send its evidence; 0 when all of it ended in order."""
    lines: Lines = queue.SimpleQueue()
    threading.Thread(target=_read, args=(lines,), daemon=True).start()
    version = code()
    while (asked := lines.get()) == CLOCK:
        _tell({CLOCK: time.time_ns() // 1000, CODE: version})
    if asked is None:
        return 0
    with tempfile.TemporaryDirectory(prefix="kedge-load-") as folder:
        return _run(json.loads(asked), Path(folder), lines)


def code() -> str:
    """Return what names the code that loads: two machines that agree in it understand one another."""
    root = Path(__file__).resolve().parents[2]
    found = hashlib.sha256()
    for file in sorted((*root.glob("evidence/*.py"), *root.glob("verify/load/*.py"))):
        found.update(file.name.encode() + file.read_bytes())
    return found.hexdigest()[:16]


def _read(lines: Lines) -> None:
    for line in sys.stdin:
        lines.put(line.strip())
    lines.put(None)


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
    running = {
        name: start_module(
            "verify.load.worker", folder, name, os.getpid(), log=folder / "logs" / f"{name}.log"
        )
        for name in wanted["workers"]
    }
    mine = [actor for name in running for actor in plan[name]]
    try:
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
    with tarfile.open(fileobj=sys.stdout.buffer, mode="w|") as archive:
        for name in ("evidence", "logs"):
            archive.add(folder / name, name)
    sys.stdout.buffer.flush()
    return 0


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
            "said": {name: _last_line(folder, name) for name, status in statuses.items() if status},
            "over": over,
        }
    )
    return over


def _last_line(folder: Path, name: str) -> str:
    lines = (folder / "logs" / f"{name}.log").read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else ""


if __name__ == "__main__":
    # A thread still reads the input: an orderly end would wait for it.
    leave(main())
