"""A folder that a service's user may write to: root follows no link in it, and waits for nothing there.

Who runs as that user can put anything in a file's place, at any time: a link to what only root may read or
write, a pipe that nobody writes to, a file without end. The folder itself is in one of root's: systemd gives
the user the innermost folder alone (systemd.exec, RuntimeDirectory=).
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import socket
import stat
from collections.abc import Iterator
from pathlib import Path


def write(path: Path, text: str, mode: int = 0o644) -> None:
    """Write a file beside its place and rename it there, over whatever is in it; raises OSError."""
    with _named(path), _opened(path.parent, os.O_RDONLY | os.O_DIRECTORY) as folder:
        # A name that nobody knows before: O_EXCL refuses what is there already.
        new = f".{path.name}.{secrets.token_hex(8)}"
        handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=folder)
        try:
            with os.fdopen(handle, "w") as file:
                file.write(text)
                os.fchmod(handle, mode)
            os.rename(new, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(new, dir_fd=folder)
            raise


def read(path: Path, most: int) -> bytes:
    """Return what a file holds; raises OSError for all that is no file, and for more than ``most`` bytes."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
    with _named(path), _opened(path, flags) as handle:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "is no file")
        # As one call may return less than there is, up to the end.
        with os.fdopen(os.dup(handle), "rb") as file:
            data = file.read(most + 1)
        if len(data) > most:
            raise OSError(errno.EFBIG, f"has more than {most:,} bytes")
        return data


def connect(connection: socket.socket, path: Path) -> None:
    """Connect to the socket of a path, never to one that a link leads to; raises OSError."""
    with _opened(path, os.O_PATH | os.O_NOFOLLOW) as handle:
        if not stat.S_ISSOCK(os.fstat(handle).st_mode):
            raise OSError(errno.ENOTSOCK, "is no socket", str(path))
        # By its descriptor: another may lie in its place by now.
        connection.connect(f"/proc/self/fd/{handle}")


@contextlib.contextmanager
def _opened(path: Path, flags: int) -> Iterator[int]:
    handle = os.open(path, flags)
    try:
        yield handle
    finally:
        os.close(handle)


@contextlib.contextmanager
def _named(path: Path) -> Iterator[None]:
    """Have an error name the path that was asked for, whatever the call that failed was given."""
    try:
        yield
    except OSError as error:
        why = "is a link" if error.errno == errno.ELOOP else error.strerror or str(error)
        raise type(error)(error.errno, why, str(path)) from None
