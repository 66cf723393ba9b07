"""Whose a process of the host is: which holds a port, which unit runs it, what it was started as."""

from __future__ import annotations

import os
import re
from pathlib import Path

from ansible.module_utils.service_control import run

PROC = Path("/proc")
UNSEEN = "something that /proc does not show"
#: State of a socket that listens, as the kernel writes it.
LISTENS = "0A"
#: Options of java whose value is the next word.
WITH_VALUE = (
    *("-cp", "-classpath", "--class-path", "-p", "--module-path", "--upgrade-module-path", "--add-modules"),
    *("--add-exports", "--add-opens", "--add-reads", "--limit-modules", "--patch-module"),
)
UNIT = re.compile(r"([^/]+\.service)(?:/|$)")


def holders(port: int) -> list[str]:
    """Return the ids of the processes that listen on a TCP port; none where the kernel does not tell."""
    sockets = {f"socket:[{inode}]" for inode in _inodes(port)}
    return [pid for pid in processes() if sockets & opened(pid)] if sockets else []


def unseen(port: int) -> bool:
    """Return whether somebody listens on a TCP port of whom no process is shown, as of another namespace."""
    # A process may have ended between the two looks.
    return bool(_inodes(port)) and not holders(port) and bool(_inodes(port))


def _inodes(port: int) -> set[str]:
    return {inode for inode, held in listening(PROC / "net") if held == port}


def listening(net: Path) -> list[tuple[str, int]]:
    """Return the sockets of a network that listen: inode and TCP port."""
    found = []
    for table in ("tcp", "tcp6"):
        try:
            lines = (net / table).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            words = line.split()
            if words[3] == LISTENS:
                found.append((words[9], int(words[1].rpartition(":")[2], 16)))
    return found


def opened(pid: str) -> set[str]:
    """Return what a process has open: files by their paths, sockets by their inodes."""
    found = set()
    try:
        for link in (PROC / pid / "fd").iterdir():
            try:
                found.add(str(link.readlink()))
            except OSError:  # closed meanwhile
                continue
    except OSError:  # ended meanwhile, or not ours to see
        return set()
    return found


def processes() -> list[str]:
    """Return the ids of all processes of the host."""
    return [path.name for path in PROC.iterdir() if path.name.isdigit()]


def unit_of(pid: str) -> str:
    """Return the unit that runs a process; empty where none does.

    By its control group; where groups tell no unit, by the main processes of the instances of all units.
    """
    try:
        text = (PROC / pid / "cgroup").read_text(errors="replace")
    except OSError:
        return ""
    found = [match for line in text.splitlines() for match in UNIT.findall(line)]
    return found[-1] if found else _by_main_process(pid)


def _by_main_process(pid: str) -> str:
    said: str = run("systemctl", "show", "*@*.service", "--property=Id,MainPID").stdout
    main: dict[str, str] = {}
    for block in said.split("\n\n"):
        told = dict(line.partition("=")[::2] for line in block.splitlines())
        main[told.get("MainPID", "0")] = told.get("Id", "")
    while pid not in ("0", "1", ""):
        if pid in main:
            return main[pid]
        pid = _parent(pid)
    return ""


def _parent(pid: str) -> str:
    try:
        # The name of a program, between brackets, may hold anything.
        return (PROC / pid / "stat").read_text(errors="replace").rpartition(")")[2].split()[1]
    except (OSError, LookupError):
        return ""


def words_of(pid: str) -> list[str]:
    """Return the command line of a process; it may hold secrets, and is never shown."""
    try:
        return (PROC / pid / "cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return []


def main_class(words: list[str]) -> str:
    """Return the main class of a JVM's command line; empty where it is no JVM's, or a jar names the class."""
    if Path(words[0] if words else "").name != "java":
        return ""
    rest = iter(words[1:])
    for word in rest:
        if word in WITH_VALUE:
            next(rest, None)
        elif word == "-jar":
            return ""
        elif word and word[0] not in "-@":
            return word
    return ""


def name_of(pid: str) -> str:
    """Return the name of a process's program."""
    return Path(words_of(pid)[0]).name if words_of(pid)[:1] else "a process"


def not_own(port: int, unit: str) -> str | None:
    """Return who listens on a port in the place of a unit; None where the unit does, or nobody listens."""
    found = holders(port)
    if not found and os.geteuid() == 0 and unseen(port):
        return f"port {port} is held by {UNSEEN}, and not by its own"
    if not found or any(unit_of(pid) == unit for pid in found):
        return None
    return f"port {port} is held by {told(found[0])}, and not by its own"


def told(pid: str) -> str:
    """Return a process as a message names it."""
    unit = unit_of(pid)
    return f"process {pid} ({name_of(pid)}{' of ' + unit if unit else ''})"
