"""What comes from a host that makes load: its clock, what its processes count, and their files.

Nothing that it says is a path: a file is a table and a number of one of its own processes, and goes where
this machine puts it.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final, Protocol

from pydantic import Field, TypeAdapter

from kedge.evidence.border.untrusted import Untrusted, UntrustedError, only, parsed, read_line, shown

#: A line has the counters of one host's processes, and the last words of those that failed.
LINE_BYTES: Final = 1_000_000
#: What one host may say on its standard error, and what the log of one of its processes may hold.
LOG_BYTES: Final = 10_000_000
#: Of a file of evidence, which a writer ends after a million rows.
FILE_BYTES: Final = 500_000_000
FILES: Final = 200_000
_CHUNK: Final = 1 << 20
_CHECK_S: Final = 600
#: Letters of a process's last words.
_SAID: Final = 1_000

Text = Annotated[str, Field(max_length=10_000)]
Name = Annotated[str, Field(max_length=200)]


class ClockReading(Untrusted):
    """A host's clock (microseconds since the epoch), and what names its code."""

    clock: Annotated[int, Field(ge=0, le=2**62)]
    code: Annotated[str, Field(pattern=r"^[0-9a-z]{1,64}$")]


class Counted(Untrusted):
    """What a host's processes count, which have ended with which status, and why those did that failed."""

    cells: dict[Name, list[Annotated[int, Field(ge=-(2**53), le=2**53)]]]
    ended: dict[Name, Annotated[int, Field(ge=-64, le=255)]]
    said: dict[Name, Text]
    over: bool


class Announced(Untrusted):
    """A file that follows; none with an empty name, which is the end."""

    file: Annotated[str, Field(max_length=300)]
    bytes: Annotated[int, Field(ge=0, le=FILE_BYTES)]


_CLOCK: Final = TypeAdapter(ClockReading)
_COUNTED: Final = TypeAdapter(Counted)
_ANNOUNCED: Final = TypeAdapter(Announced)


class Pipe(Protocol):
    """What a host's bytes come through."""

    def readline(self, size: int = -1, /) -> bytes:
        """Return the next line, so many bytes of it at most."""

    def read(self, size: int = -1, /) -> bytes:
        """Return so many bytes, fewer at the end."""


#: By column of a table what it may hold.
Columns = Mapping[str, frozenset[str | int]]


@dataclass(frozen=True)
class LoadProcess:
    """A process of the load on a host: its actors, and by table what the columns of its rows may hold."""

    actors: tuple[str, ...]
    tables: Mapping[str, Columns] = field(default_factory=dict)


def clock(line: bytes) -> ClockReading:
    """Return what a host says of its clock and its code; raises UntrustedError."""
    return parsed(_CLOCK, line, "clock of a host")


def counted(line: bytes, processes: Mapping[str, LoadProcess], width: int) -> Counted:
    """Return what a host tells of its processes, rows of the board ``width`` numbers wide.

    Raises:
        UntrustedError: also for processes and actors that are not the host's.
    """
    told = parsed(_COUNTED, line, "report of a host's processes")
    only(told.cells, (actor for one in processes.values() for actor in one.actors), "actors")
    only([*told.ended, *told.said], processes, "processes")
    if any(len(row) != width for row in told.cells.values()):
        raise UntrustedError(f"rows of the board that are not {width} numbers")
    return told.model_copy(update={"said": {name: shown(text, _SAID) for name, text in told.said.items()}})


def take_files(pipe: Pipe, processes: Mapping[str, LoadProcess], folder: Path, most: int) -> list[Path]:
    """Put the files that follow into an empty folder, ``most`` bytes at most; return their paths in it.

    All of them have names of our own, and what is in them was read once within bounds.

    Raises:
        UntrustedError: for any that a process of this host does not write, or that is no evidence.
    """
    names = _names(processes)
    found: dict[Path, tuple[str, str]] = {}
    left = most
    while (one := _announced(pipe)).file:
        place = next((path for name, path in names.items() if re.fullmatch(name, one.file)), None)
        path = Path(one.file)
        if place is None or path in found:
            raise UntrustedError(f"a file that no process of it writes: {shown(one.file)!r}")
        left -= one.bytes
        if left < 0 or len(found) >= FILES or (path.suffix == ".log" and one.bytes > LOG_BYTES):
            raise UntrustedError("more than its processes can have written")
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        _copy(pipe, folder / path, one.bytes)
        found[path] = place
    tables = {str(path): place for path, place in found.items() if path.suffix == ".parquet"}
    _look_into(folder, tables, processes)
    return list(found)


def _names(processes: Mapping[str, LoadProcess]) -> dict[str, tuple[str, str]]:
    """Return the names that files may have, each with its process and its table."""
    found = {re.escape(f"logs/{name}.log"): (name, "") for name in processes}
    for name, process in processes.items():
        for table in process.tables:
            found[re.escape(f"evidence/{table}/{name}-") + r"[0-9]{1,9}\.parquet"] = (name, table)
    return found


def _announced(pipe: Pipe) -> Announced:
    line = read_line(pipe, LINE_BYTES)
    if not line:
        raise UntrustedError("its files do not come whole")
    return parsed(_ANNOUNCED, line, "name and size of a file")


def _copy(pipe: Pipe, path: Path, size: int) -> None:
    with path.open("xb") as file:
        while size:
            chunk = pipe.read(min(size, _CHUNK))
            if not chunk:
                raise UntrustedError("its files do not come whole")
            file.write(chunk)
            size -= len(chunk)


def _look_into(
    folder: Path, files: Mapping[str, tuple[str, str]], processes: Mapping[str, LoadProcess]
) -> None:
    """Have a process of its own, with bounds, read all tables: what a crafted one breaks is that alone."""
    if not files:
        return
    wanted = {
        path: {"table": table, "values": {c: sorted(v) for c, v in processes[name].tables[table].items()}}
        for path, (name, table) in files.items()
    }
    try:
        done = subprocess.run(
            [sys.executable, "-m", "kedge.evidence.border.table", str(folder.resolve())],
            input=json.dumps(wanted),
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=_CHECK_S,
            cwd=Path(__file__).resolve().parents[3],
        )
    except subprocess.TimeoutExpired:
        raise UntrustedError(f"its tables cannot be read within {_CHECK_S} s") from None
    if done.returncode:
        lines = done.stdout.strip().splitlines()
        why = lines[-1] if lines else f"reading its tables ended with {done.returncode}"
        raise UntrustedError(shown(why))
