"""Asks a configuration of HAProxy what it would see, before it is activated: beside the one that runs."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ansible.module_utils.haproxy import check, is_unchecked, is_up, servers, servers_state

HAPROXY = "/usr/sbin/haproxy"
POLL_SECONDS = 0.1
#: How long the trial's process may live beyond its time, should the one that started it be killed.
MORE_SECONDS = 10
#: A trial has no client: it takes no more connections than any process may open.
CONNECTIONS = 100


class Trial(NamedTuple):
    """Why a balancer must not take a release, if so; and the state of the servers that a check found down."""

    refusal: str | None
    down: str = ""


def trial(folder: Path, probe: Mapping[str, Any], link: Path, seconds: float) -> Trial:
    """Try the release in ``folder`` beside the balancer that runs.

    A second HAProxy runs the configuration on sockets of its own and checks the servers. It has to see one
    up, and each that the running balancer has up and would still know. Then it goes on until each server was
    checked once, or the time is over. ``probe`` has ``socket`` and ``backend``; ``link`` is where the release
    lies once it is active.
    """
    # Sockets have short paths. The balancer's user enters, and may write where they are alone.
    place = Path(tempfile.mkdtemp(prefix="kedge-", dir="/tmp"))
    sockets = place / "run"
    user = _user(folder)
    try:
        config = place / "haproxy.cfg"
        config.write_text(alone((folder / "haproxy.cfg").read_text(), probe["socket"], link, folder, sockets))
        sockets.mkdir(mode=0o700)
        if user:
            group = pwd.getpwnam(user).pw_gid
            for path, mode in ((config, 0o640), (place, 0o750)):
                os.chown(path, -1, group)
                path.chmod(mode)
            os.chown(sockets, pwd.getpwnam(user).pw_uid, group)
        return _run(place, probe, user, seconds)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def alone(text: str, socket: str, link: Path, folder: Path, place: Path) -> str:
    """Return a configuration that takes no client, logs nothing, reads ``folder`` and writes to ``place``."""
    text = text.replace(f"{Path(socket).parent}/", f"{place}/").replace(f"{link}/", f"{folder}/")
    text = re.sub(r"^    log /dev/log .*\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"^(    maxconn) \d+", rf"\1 {CONNECTIONS}", text, flags=re.MULTILINE)
    return re.sub(r"^    bind (?!unix@)\S+", f"    bind unix@{place}/clients.sock", text, flags=re.MULTILINE)


def _user(folder: Path) -> str | None:
    """Return the user that the release's unit names, where this process may become it."""
    unit = folder / "unit.service"
    found = re.search(r"^User=(\S+)", unit.read_text(), re.MULTILINE) if unit.is_file() else None
    try:
        return pwd.getpwnam(found[1]).pw_name if found else None
    except KeyError:
        return None


def _run(place: Path, probe: Mapping[str, Any], user: str | None, seconds: float) -> Trial:
    argv = ["timeout", "--signal=KILL", str(seconds + MORE_SECONDS), HAPROXY, "-db", "-f", "haproxy.cfg"]
    log = place / "log"
    with log.open("w") as printed:
        how = {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []} if user else {}
        process = subprocess.Popen(argv, cwd=place, stdout=printed, stderr=printed, **how)  # type: ignore[call-overload]
    try:
        return _see(place, probe, process, time.monotonic() + seconds)
    finally:
        process.terminate()
        process.wait()


def _see(place: Path, probe: Mapping[str, Any], process: subprocess.Popen[bytes], deadline: float) -> Trial:
    socket = str(place / "run" / Path(probe["socket"]).name)
    seen = Trial("its trial does not answer")
    while time.monotonic() < deadline:
        if process.poll() is not None:
            return Trial(f"its trial ends: {(place / 'log').read_text().strip()[-1000:]}")
        try:
            found = servers(socket, probe["backend"])
            wrong = unseen(found, _in_force(probe))
            left = {name for name, row in found.items() if is_unchecked(row)}
            down = found.keys() - left - {name for name, row in found.items() if is_up(row)}
            seen = Trial(wrong, "" if wrong else servers_state(socket, probe["backend"], down))
        except OSError:
            pass  # it starts, or hangs: then what it answered before holds
        else:
            if wrong is None and not left:
                break
        time.sleep(POLL_SECONDS)
    return seen


def _in_force(probe: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    try:
        found: dict[str, dict[str, str]] = servers(probe["socket"], probe["backend"])
    except OSError:
        return {}
    return found


def unseen(found: Mapping[str, Mapping[str, str]], running: Mapping[str, Mapping[str, str]]) -> str | None:
    """Return what a configuration would not see of its servers, as the running one does, or None."""
    checked = {n: s for n, s in found.items() if is_up(s)}
    up = [n for n, s in running.items() if s["status"].startswith("UP") and n in found]
    lost = [n for n in up if n not in checked]
    if checked and not lost:
        return None
    said = ", ".join(f"{n} {check(found[n])}" for n in sorted(lost or found)) or "it knows none"
    return f"it would take out what is up: {said}" if lost else f"it would see no instance up: {said}"
