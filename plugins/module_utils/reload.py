"""Whether a running process takes another release by a reload, or needs a new start: what its unit says."""

from __future__ import annotations

import re
import resource
from pathlib import Path

from ansible.module_utils.releases import effective

#: Settings of a unit that a running process takes. systemd gives it limits of memory, and of the time of a
#: stop; that of open files is raised by :func:`raise_open_files`.
TAKEN = {"TimeoutStopSec", "MemoryMax", "LimitNOFILE"}


def takes(before: Path, after: Path) -> bool:
    """Return whether a process that started with one release can take another: its unit is the same.

    Comments do not count, nor do limits that it takes.
    """
    was, wanted = open_files(before), open_files(after)
    return unit_of(before) == unit_of(after) and (was == wanted or wanted.isdigit())


def unit_of(release: Path) -> dict[str, list[str]]:
    """Return the lines of a release's unit that need a new start."""
    return {
        name: [line for line in text.splitlines() if line.partition("=")[0] not in TAKEN]
        for name, text in unit_files(release).items()
    }


def unit_files(release: Path) -> dict[str, str]:
    """Return a release's unit and its drop-ins, without comments."""
    files = [release / "unit.service", *release.glob("systemd/*")]
    texts: dict[str, str] = effective({f.name: f.read_text(errors="replace") for f in files if f.is_file()})
    return texts


def open_files(release: Path) -> str:
    """Return the limit of open files of a release, '' where it has none."""
    found = re.findall(r"^LimitNOFILE=(.*)$", "\n".join(unit_files(release).values()), re.M)
    return found[-1] if found else ""


def raise_open_files(pid: int, most: int) -> bool:
    """Let a process open so many files; return False where it has ended, or the host keeps root from that."""
    try:
        if 0 <= resource.prlimit(pid, resource.RLIMIT_NOFILE)[1] < most:
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (most, most))
    except OSError:
        return False
    return True
