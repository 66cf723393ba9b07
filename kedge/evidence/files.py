"""Writes a file that is read back as a whole: a reader finds the old one or the new one, never a part."""

from __future__ import annotations

import os
from pathlib import Path


def replace_text(path: Path, text: str, *, private: bool = False) -> None:
    """Write a file beside its place, and rename it there when it is on the disk.

    ``private`` keeps it from everybody but its owner.

    Raises:
        OSError: naming the file, also if the disk filled up halfway.
    """
    hidden = path.with_name(f".{path.name.lstrip('.')}.{os.getpid()}.tmp")
    hidden.unlink(missing_ok=True)
    try:
        handle = os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o666)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(handle)
        hidden.replace(path)
    except BaseException as error:
        hidden.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise type(error)(error.errno, error.strerror, str(path)) from error
        raise
