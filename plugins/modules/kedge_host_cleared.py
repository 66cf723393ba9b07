#!/usr/bin/python
"""Stops what Kedge runs on a host and takes away what it put there."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kedge_host_cleared
short_description: Stop the instances of services on a host, and clear what they left there
description:
  - Stops and disables every instance of each unit, then removes units, links, releases, kept data and logs.
    Where no unit of Kedge is left on the host, the software under /opt/kedge and the record go as well.
  - Packages, users and kernel settings stay, unless C(kernel) asks for these.
options:
  units:
    type: list
    elements: str
    required: true
    description: "Names of template units, without @: letters and dashes, since they become paths."
  kernel: {type: bool, default: false, description: "Remove the file of kernel settings too."}
author: Kedge
"""

EXAMPLES = r"""
- name: Clear the host of its proxies
  kedge_host_cleared:
    units: [kafka-rest]
"""

RETURN = r"""
stopped:
  description: The instances that were stopped, as UNIT@NAME.
  returned: always
  type: list
  elements: str
removed:
  description: The files and folders that were removed.
  returned: always
  type: list
  elements: str
"""

import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.node_lock import ROOT, held
from ansible.module_utils.probes import systemctl

#: What every unit of Kedge has; a host without any is none of its hosts any more.
SHARED = (".release-key", ".deployed.json", ".lease.json", ".lease.lock")
#: What a unit's name is; it becomes part of paths that are removed.
UNIT = re.compile(r"[a-z][a-z-]*")
#: Units that go with each instance of a unit that is audited: what starts the other stands first.
HELPERS = ("audit@.timer", "audit@.service")
KERNEL = ("etc/sysctl.d/60-kedge.conf", "etc/security/limits.d/60-kedge.conf")


def instances(unit: str, root: Path = ROOT) -> list[str]:
    """Return the names of the instances of a unit that have releases here."""
    folder = root / unit
    return sorted(f.name for f in folder.iterdir() if f.is_dir()) if folder.is_dir() else []


def units_here(root: Path = ROOT) -> list[str]:
    """Return the units that have instances here."""
    return sorted(f.name for f in root.iterdir() if f.is_dir()) if root.is_dir() else []


def helpers(unit: str, base: Path = Path("/")) -> list[Path]:
    """Return the files of units that go with each instance of a unit, such as a timer."""
    systemd = base / "etc/systemd/system"
    return [file for name in HELPERS if (file := systemd / f"{unit}-{name}").exists()]


def places(units: Sequence[str], here: Sequence[str], base: Path = Path("/")) -> Iterator[Path]:
    """Yield what is to be removed: of these units, and of the host where none of those ``here`` is left."""
    systemd = base / "etc/systemd/system"
    for unit in units:
        yield from (systemd / f"{unit}@.service", systemd / f"{unit}.target", *helpers(unit, base))
        yield from sorted(systemd.glob(f"{unit}@*.service.d"))
        yield from (base / "etc" / unit, base / "var/lib" / unit, base / "var/log" / unit)
        yield base / "var/lib/kedge" / unit
        if unit == "rest-balancer" and (systemd / "haproxy.service").is_symlink():
            yield systemd / "haproxy.service"  # it kept the package's own balancer from starting
    if not set(here) - set(units):
        yield base / "opt/kedge"
        yield from (base / "var/lib/kedge" / name for name in SHARED)


def remove(path: Path) -> None:
    """Remove a file, a link or a folder with all that is in it."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "units": {"type": "list", "elements": "str", "required": True},
            "kernel": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    units = module.params["units"]
    if strange := [unit for unit in units if not UNIT.fullmatch(unit)]:
        module.fail_json(
            msg=f"no names of units: {strange!r}. Nothing was stopped. Give names such as kafka-rest"
        )
    stopped = [f"{unit}@{name}" for unit in units for name in instances(unit)]
    found = [path for path in places(units, units_here()) if path.is_symlink() or path.exists()]
    if module.params["kernel"]:
        found += [path for name in KERNEL if (path := Path("/") / name).exists()]
    removed = [str(path) for path in found]
    if module.check_mode or not (stopped or found):
        module.exit_json(changed=bool(stopped or found), stopped=stopped, removed=removed)
    try:
        for unit in units:
            with held(unit):
                stop(module, unit)
        for path in found:
            remove(path)
        systemctl("daemon-reload")
    except (OSError, TimeoutError) as error:
        module.fail_json(
            msg=f"{error}. The host was not cleared of all. Fix that, then run the playbook again",
            changed=True,
        )
    module.exit_json(changed=True, stopped=stopped, removed=removed)


def stop(module: AnsibleModule, unit: str) -> None:
    """Stop and disable all of a unit; one that goes on running keeps its files."""
    names = [f"{unit}@{name}.service" for name in instances(unit)]
    with_it = [file.name.replace("@", f"@{name}") for file in helpers(unit) for name in instances(unit)]
    for name in (*with_it, *names, f"{unit}.target"):
        systemctl("stop", name)
        systemctl("disable", name)
    runs = [name for name in names if systemctl("is-active", "--quiet", name).returncode == 0]
    if runs:
        module.fail_json(
            msg=f"{', '.join(runs)} cannot be stopped. Nothing was removed. See its journal, stop it, then "
            "run the playbook again"
        )


if __name__ == "__main__":
    main()
