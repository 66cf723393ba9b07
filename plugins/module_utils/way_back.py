"""The way back of an instance that did not become ready: the previous release, its unit and its probe."""

from __future__ import annotations

import json
from typing import Any

from ansible.module_utils.probes import systemctl
from ansible.module_utils.releases import PROBE, SYSTEMD, apart
from ansible.module_utils.service_control import act


def go_back(instance: Any, release: str, *, gently: bool = False) -> str:
    """Put the last release that became ready back and have it run; return what came of it.

    ``instance`` is the module's InstanceUnit. One that takes over from a predecessor gives back to that.
    """
    if not gently:
        act("stop", instance.unit, instance.control)
    if instance.takeover and instance.takeover.begun():
        return str(instance.takeover.give_back())
    marker = instance.home / "good"
    good = marker.read_text().strip() if marker.exists() else None
    if good is None or not (instance.home / "releases" / good).is_dir():
        return f"there is no previous release to put back, so it is {'left' if gently else 'stopped'}"
    if good == release:
        left = "left as it is" if gently else "stopped"
        return f"it ran this release before, so there is nothing to put back; it is {left}"
    releases = instance.home / "releases"
    if runs := apart(releases / good, releases / release, instance.module.params["foreign"]):
        return f"its previous release runs {runs}, which must not run beside this one, so it is stopped"
    restore(instance, good)
    instance.put_in_force(good)
    gently = gently and instance.takes(good) and instance.raise_limits(good)
    wrong = instance.reload() if gently else instance.start()
    if wrong is not None:
        return f"the previous release {good} was put back and does not become ready either ({wrong})"
    instance.mark(good)
    return f"the previous release {good} is back and running"


def restore(instance: Any, release: str) -> None:
    """Have the unit of a former release in force, and ask the instance as it was asked then."""
    unit = SYSTEMD / f"{instance.module.params['unit']}@.service"
    unit.write_text(_unit_of(instance, release))
    systemctl("daemon-reload")
    asked = instance.home / "releases" / release / PROBE
    if asked.is_file():
        instance.probe = json.loads(asked.read_text())


def _unit_of(instance: Any, release: str) -> str:
    """Return the unit that a release came with."""
    unit: str = (instance.home / "releases" / release / "unit.service").read_text()
    return unit
