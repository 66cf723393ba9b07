"""The way back of an instance that did not become ready: the previous release, its unit and its probe."""

from __future__ import annotations

import contextlib
from typing import Any

from ansible.module_utils import atomic_files
from ansible.module_utils.probes import systemctl
from ansible.module_utils.releases import SYSTEMD, apart, probe_of, text_of
from ansible.module_utils.releases import good as last_good
from ansible.module_utils.service_control import act

NONE = "there is no previous release to put back"


def go_back(instance: Any, release: str, *, gently: bool) -> str:
    """Put the last release that became ready back and have it run; return what came of it.

    ``instance`` is the module's InstanceUnit. One that takes over from a predecessor gives back to that.
    """
    if not gently:
        act("stop", instance.unit, instance.control)
    if instance.takeover and instance.takeover.begun():
        return str(instance.takeover.give_back())
    good = last_good(instance.module.params["unit"], instance.name)
    left = "left as it is" if gently else "stopped"
    if good is None or not unit_of(instance, good):
        missing = f"its previous release {good} has no unit any more" if good else NONE
        return f"{missing}, so it is {left}"
    if good == release:
        return f"it ran this release before, so there is nothing to put back; it is {left}"
    releases = instance.home / "releases"
    if runs := apart(releases / good, releases / release, instance.module.params["foreign"]):
        return f"its previous release runs {runs}, which must not run beside this one, so it is stopped"
    try:
        return _put_back(instance, good, gently=gently)
    except OSError as error:
        why = f"{error.filename}: {error.strerror}"
        return f"the previous release {good} cannot be put back ({why}), so it is {left}"


def _put_back(instance: Any, good: str, *, gently: bool) -> str:
    restore(instance, good)
    instance.put_in_force(good)
    gently = gently and instance.takes(good) and instance.raise_limits(good)
    wrong = instance.reload() if gently else instance.start()
    if wrong is not None:
        return f"the previous release {good} was put back and does not become ready either ({wrong})"
    with contextlib.suppress(OSError):  # the next deploy gives what is not noted its release once more
        instance.mark(good)
    return f"the previous release {good} is back and running"


def restore(instance: Any, release: str) -> None:
    """Have the unit of a former release in force, and ask the instance as it was asked then."""
    unit = SYSTEMD / f"{instance.module.params['unit']}@.service"
    if text_of(SYSTEMD, unit.name) != unit_of(instance, release):
        atomic_files.write(unit, unit_of(instance, release))
    systemctl("daemon-reload")
    instance.probe = probe_of(instance.home / "releases" / release) or instance.probe


def unit_of(instance: Any, release: str) -> str:
    """Return the unit that a release came with; empty where it has none."""
    return str(text_of(instance.home / "releases" / release, "unit.service"))
