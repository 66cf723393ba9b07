"""Files and links of Kedge's own on a host: the old or the new one, also after a kill or a loss of power."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

_Rows = dict[str, dict[str, Any]]

#: What a disk keeps beside what is counted, for the notes of a restart and its way back.
RESERVE_BYTES, RESERVE_FILES = 1 << 20, 64


def write(path: Path, content: str | bytes, mode: int = 0o644, group: int = -1) -> None:
    """Write a file beside its place, and rename it there when it is on the disk.

    Raises:
        OSError: naming the file, also if the disk filled up halfway.
    """
    try:
        _write(path, content.encode() if isinstance(content, str) else content, mode, group)
    except OSError as error:
        raise type(error)(error.errno, error.strerror, str(path)) from error


def _write(path: Path, content: bytes, mode: int, group: int) -> None:
    # Instances of one call, and services, are at work side by side: each has a name of its own.
    handle, name = tempfile.mkstemp(prefix=f".{path.name.lstrip('.')}.", suffix=".new", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            if group != -1:
                os.fchown(handle, -1, group)
            os.fchmod(handle, mode)
            os.fsync(handle)
        Path(name).replace(path)
    except BaseException:
        # On a full disk it would be in the way.
        Path(name).unlink(missing_ok=True)
        raise
    sync(path.parent)


def record(file: Path, version: int, rows: Callable[[Any], _Rows], wrong: str, untouched: str = "") -> _Rows:
    """Return the rows of a record, none without its file; raises ValueError with what to do.

    ``wrong`` says what the file is where it holds something else, with a place for the ``{error}``.
    """
    try:
        found = json.loads(file.read_text())
        if found["format"] > version:
            message = f"{file} was written by a newer Kedge: use one as new{untouched}"
            raise ValueError(message)
        return rows(found)
    except FileNotFoundError:
        return {}
    except (KeyError, TypeError, AttributeError, json.JSONDecodeError) as error:
        message = f"{file} {wrong.format(error=repr(error))}"
        raise ValueError(message) from None


def link(path: Path, target: str | Path) -> None:
    """Have a symbolic link, or what is in its place, point at a target, in one step; raises OSError."""
    new = path.with_name(f".{path.name.lstrip('.')}.{os.getpid()}.new")
    new.unlink(missing_ok=True)
    new.symlink_to(target)
    new.replace(path)
    sync(path.parent)


def sync(folder: Path) -> None:
    """Have the names in a folder on the disk."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def lacks(places: Iterable[tuple[Path, int, int]]) -> str:
    """Return which disk cannot take what will be written, in one line; empty where all can.

    A place is a folder, or where one will be made, with the bytes and the files that come there.
    """
    needed: dict[int, tuple[Path, int, int]] = {}
    for place, size, files in places:
        there = next(folder for folder in (place, *place.parents) if folder.exists())
        first, before, count = needed.get(there.stat().st_dev, (there, RESERVE_BYTES, RESERVE_FILES))
        needed[there.stat().st_dev] = (first, before + size, count + files)
    for there, size, files in needed.values():
        disk = os.statvfs(there)
        if disk.f_flag & os.ST_RDONLY:
            return f"the file system of {there} is mounted read-only"
        free = disk.f_bfree * disk.f_frsize
        if free < size:
            return f"the disk of {there} has {free >> 10:,} KiB free, and {size >> 10:,} KiB are needed"
        # Some file systems do not count them.
        if disk.f_files and disk.f_ffree < files:
            return f"the disk of {there} has {disk.f_ffree:,} inodes free, and {files:,} are needed"
    return ""
