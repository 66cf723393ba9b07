"""The process of somebody else that is taken over from: whether it serves, how it stops and starts.

It is named by its ``unit``; or by ``holder``, its process, with the commands ``stop`` and ``start``. That of
a proxy has its ``port``; a mirror's has none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible.module_utils.host_processes import holders, processes, unit_of, words_of
from ansible.module_utils.service_control import ACT_SECONDS, Done, run

#: What systemd says of a unit that has a process, or starts one by itself.
RUNNING = ("active", "reloading", "activating", "deactivating")


def name_of(named: Mapping[str, Any]) -> str:
    """Return how a message names a predecessor."""
    return str(named.get("unit") or named["holder"])


def belongs(named: Mapping[str, Any], pid: str) -> bool:
    """Return whether a process is of the predecessor: by its control group, or an argument."""
    unit = unit_of(pid)
    if named.get("unit"):
        return bool(unit == named["unit"])
    return named["holder"] in (unit, *words_of(pid))


def serves(named: Mapping[str, Any]) -> bool:
    """Return whether the predecessor holds its port, and nobody else does; of a mirror, whether it runs."""
    if "port" not in named:
        return runs(named)
    found = holders(int(named["port"]))
    return bool(found) and all(belongs(named, pid) for pid in found)


def runs(named: Mapping[str, Any]) -> bool:
    """Return whether the predecessor runs, or its unit is about to start it again."""
    if named.get("unit"):
        return run("systemctl", "is-active", named["unit"]).stdout.strip() in RUNNING
    # A thread of the kernel has no arguments, and no unit to ask systemd for.
    return any(belongs(named, pid) for pid in processes() if any(words_of(pid)))


def stop(named: Mapping[str, Any]) -> Done:
    """Stop the predecessor; nothing is removed."""
    return _control(named, "stop")


def start(named: Mapping[str, Any]) -> Done:
    """Start the predecessor again."""
    return _control(named, "start")


def disable(named: Mapping[str, Any]) -> Done | None:
    """Keep a predecessor's unit from starting with the host; its command ``stop`` has to do so itself."""
    return run("systemctl", "disable", named["unit"]) if named.get("unit") else None


def enable(named: Mapping[str, Any]) -> Done | None:
    """Have the predecessor's unit start with the host again."""
    return run("systemctl", "enable", named["unit"]) if named.get("unit") else None


def by_hand(named: Mapping[str, Any]) -> str:
    """Return the command that starts the predecessor, as a person types it."""
    return " ".join(["systemctl", "start", named["unit"]] if named.get("unit") else named["start"])


def _control(named: Mapping[str, Any], action: str) -> Done:
    command = ["systemctl", action, named["unit"]] if named.get("unit") else named[action]
    return run(*command, seconds=ACT_SECONDS)
