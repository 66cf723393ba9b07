"""HAProxy's runtime socket: what its servers do, and which process answers."""

from __future__ import annotations

import csv
import io
import re
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible.module_utils import untrusted_folder

#: The runtime socket of a balancer of Kedge.
SOCKET = "/run/rest-balancer/haproxy/admin.sock"
#: How long a process may take to answer; one that is stopped, or spins, never does.
ANSWER_SECONDS = 10
#: Rows of the statistics that are no server.
TOTALS = ("FRONTEND", "BACKEND")
#: The column of a server's name in what HAProxy says of its state; management guide, 9.3.
NAME = 3
#: The column of what was set by hand, and its bits; management guide, 9.3, srv_admin_state.
ADMIN, FORCED_MAINT, FORCED = 6, 0x01, 0x01 | 0x08
#: The bits of a peers section that say that it has learned what there was to learn; HAProxy, peers.h.
LEARNED = 0x3
#: What an answer may have: the statistics of a server take less than 1 KiB.
MOST_BYTES = 16 << 20
#: The first columns of the state of servers, and what its words are; management guide, 9.3.
STATE = ["be_id", "be_name", "srv_id", "srv_name"]
COLUMN = re.compile(r"[a-z_]{1,40}")
WORD = re.compile(r"[!-~]{1,255}")


def ask(path: str, command: str) -> str:
    """Send one command to the runtime socket and return the answer; raises OSError, in time."""
    deadline = time.monotonic() + ANSWER_SECONDS
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(ANSWER_SECONDS)
        answer = bytearray()
        try:
            untrusted_folder.connect(connection, Path(path))
            connection.sendall(command.encode() + b"\n")
            while piece := connection.recv(65536):
                answer += piece
                if len(answer) > MOST_BYTES:
                    raise OSError(f"answers with more than {MOST_BYTES:,} bytes")
                if time.monotonic() > deadline:
                    raise TimeoutError
        except (TimeoutError, socket.timeout, BlockingIOError):  # noqa: UP041 - no TimeoutError before Python 3.10
            message = f"no answer within {ANSWER_SECONDS} s"
            raise OSError(message) from None
    return answer.decode(errors="replace").strip()


def servers(path: str, backend: str) -> dict[str, dict[str, str]]:
    """Return the statistics of a backend's servers by name."""
    return {r["svname"]: r for r in _rows(path) if r["pxname"] == backend}


def taken_out(path: str, backend: str) -> dict[str, str]:
    """Return the servers that somebody took out and did not put back, and how: drain or maint.

    Their status does not tell: one in state drain whose check fails is DOWN.
    """
    found = (row.split() for row in ask(path, f"show servers state {backend}").splitlines()[2:])
    flags = {row[NAME]: int(row[ADMIN]) for row in found if len(row) > ADMIN}
    return {n: "maint" if has & FORCED_MAINT else "drain" for n, has in flags.items() if has & FORCED}


def in_flight(path: str, server: str) -> int:
    """Return how many requests a server has, in all backends that know it."""
    return sum(int(r["scur"] or 0) + int(r["qcur"] or 0) for r in _rows(path) if r["svname"] == server)


def _rows(path: str) -> list[dict[str, str]]:
    text = ask(path, "show stat").lstrip("# ")
    return [r for r in csv.DictReader(io.StringIO(text)) if r["svname"] not in TOTALS]


def keep_down(path: str, backend: str, seen: str = "") -> Path:
    """Write which servers are down or taken out to where the process of a reload reads it; return the file.

    A process sends requests to a server until its first check has failed. Where none is up, none is kept
    down: the new configuration may ask in another way. What somebody took out stays out. ``seen`` is the
    state of servers that a trial of the new configuration found down, as :func:`servers_state` returns it;
    what is up, or kept already, is not taken from it.
    """
    found = servers(path, backend)
    up = any(row["status"].startswith("UP") for row in found.values())
    down = {name for name, row in found.items() if row["status"].startswith("DOWN") and up}
    kept = down | set(taken_out(path, backend))
    file = Path(path).with_name("down.state")
    text = servers_state(path, backend, kept)
    version, header, *rows = [*seen.splitlines(), "", ""]
    # Of another version of HAProxy the columns may be others.
    if text.startswith(f"{version}\n{header}\n"):
        known = kept | {name for name, row in found.items() if row["status"].startswith("UP")}
        text += "".join(f"{row}\n" for row in rows if row and row.split()[NAME] not in known)
    # The folder is the balancer's, and so is the text: both may be of whoever runs as its user.
    untrusted_folder.write(file, text)
    return file


def servers_state(path: str, backend: str, wanted: set[str]) -> str:
    """Return the state of these servers as a starting process reads it; raises OSError for another text."""
    return _state_of(ask(path, f"show servers state {backend}"), backend, wanted)


def _state_of(text: str, backend: str, wanted: set[str]) -> str:
    """Return of the state of servers the lines of those that are wanted; raises OSError for another text."""
    version, header, *rows = [*text.splitlines(), "", ""]
    columns = header.split()[1:]
    if version != "1" or columns[: NAME + 1] != STATE or not all(map(COLUMN.fullmatch, columns)):
        raise OSError("answers with no state of servers")
    found = [row.split() for row in rows if row]
    if any(len(words) != len(columns) or not all(map(WORD.fullmatch, words)) for words in found):
        raise OSError("answers with a state of servers that HAProxy does not write")
    lines = [" ".join(words) for words in found if words[1] == backend and words[NAME] in wanted]
    return "\n".join([version, " ".join(["#", *columns]), *lines]) + "\n"


def worker(path: str) -> str:
    """Return the id of the process that answers."""
    found = re.search(r"^Pid: (\d+)", ask(path, "show info"), re.MULTILINE)
    return found[1] if found else ""


def former_workers(path: str) -> list[str]:
    """Return the ids of processes from before a reload, which only end the requests that they still have."""
    now = worker(path)
    own = _program_and_parent(now)
    others = (each.name for each in Path("/proc").glob("[0-9]*") if each.name != now)
    return [pid for pid in others if own and _program_and_parent(pid) == own]


def _program_and_parent(pid: str) -> tuple[Path, str] | None:
    try:
        # The name of a process, which may hold anything, is the second field; its parent is the fourth.
        parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]
        return Path(f"/proc/{pid}/exe").readlink(), parent
    except OSError:
        return None  # it has ended


def has_learned(path: str) -> bool:
    """Return whether the process could hand its table over in a reload.

    One that has just started waits for others to teach it, five seconds each for its predecessor and for its
    peers; until then it teaches nobody, and a reload would forget what it has.
    """
    found = re.search(r"flags=0x([0-9a-f]+)", ask(path, "show peers"))
    return found is None or int(found[1], 16) & LEARNED == LEARNED


def is_unchecked(row: Mapping[str, str]) -> bool:
    """Return whether a server's first check has not ended; one that is under way has a star before it."""
    return row["check_status"].lstrip("* ") == "INI"


def is_up(row: Mapping[str, str]) -> bool:
    """Return whether a check has found a server up."""
    return row["status"].startswith("UP") and not is_unchecked(row)


def check(row: Mapping[str, str]) -> str:
    """Return what the check of a server got, in one line; what a server answers may hold anything."""
    parts = (row["check_status"].lstrip("* "), row.get("check_code", ""), row.get("last_chk", ""))
    said = " ".join(" ".join(parts).split()) or row["status"]
    return "".join(letter if letter.isprintable() else "?" for letter in said)


def complaint(probe: dict[str, Any]) -> str | None:
    """Return why a balancer would serve nobody, or None: it answers, and a check has found a server up.

    ``probe`` has ``socket``, ``backend``, and ``instead_of``, a process that must no longer answer.
    """
    try:
        if worker(probe["socket"]) == probe.get("instead_of"):
            return "the process with the former configuration still answers"
        found = servers(probe["socket"], probe["backend"])
    except OSError as error:
        return f"{probe['socket']}: {error}"
    if any(is_up(row) for row in found.values()):
        return None
    said = ", ".join(f"{n} {row['status']}, {check(row)}" for n, row in sorted(found.items()))
    return f"no instance is up: {said or 'it knows none'}"


def serves(probe: dict[str, Any]) -> bool:
    """Return whether a running balancer has a server up, of whatever configuration."""
    try:
        return any(is_up(row) for row in servers(probe["socket"], probe["backend"]).values())
    except OSError:
        return False
