#!/usr/bin/python
"""Reads kernel settings and the limits of logins, and sets what it is told to."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kedge_kernel
short_description: Read kernel settings and limits of logins, set them, and read them back
description:
  - Answers with what the kernel has of each key, whether it can be written here, what a login gets, and what
    the files hold.
  - Then writes C(values) to the kernel and C(files) to the host, and reads everything again.
  - What value a host shall have is decided on the control machine.
  - A task gives C(settings) and C(compare). The other options are what the action gives the module.
options:
  settings: {type: list, elements: dict, description: "The planned settings of the host."}
  compare: {type: bool, default: false, description: "Only tell what a deploy would change."}
  keys: {type: list, elements: str, description: "Names of sysctls."}
  limits: {type: bool, default: false, description: "Whether the limit of open files is asked for, too."}
  values: {type: dict, default: {}, description: "Sysctl name to the value that the kernel shall have."}
  files: {type: dict, default: {}, description: "Path to content; null only reads the file."}
author: Kedge
"""

EXAMPLES = r"""
- name: Set what is planned for the host
  kedge_kernel:
    settings: "{{ _host_tuning_planned[0].settings }}"
"""

RETURN = r"""
refused:
  description: Sysctl name to why the kernel did not take its value.
  returned: always
  type: dict
"""

import os
import resource
import subprocess
from pathlib import Path
from typing import Any

from ansible.module_utils import atomic_files
from ansible.module_utils.basic import AnsibleModule

PROC = Path("/proc/sys")
#: Where a value for the next start of the host may come from; of one file name the first folder wins.
FOLDERS = ("/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d", "/lib/sysctl.d")
#: A user without rights, whose login is limited as everybody's is.
ANYBODY = "nobody"


def path_of(key: str) -> Path:
    """Return the kernel's file of a sysctl; a slash in a name stands for a dot in it, as sysctl(8) has it."""
    return PROC / "/".join(part.replace("/", ".") for part in key.split("."))


def read(key: str) -> dict[str, Any]:
    """Return what the kernel has of a key, and whether it lets root write it here."""
    path = path_of(key)
    try:
        value = path.read_text().strip()
    except OSError:
        return {"value": None, "writable": False}
    return {"value": value, "writable": os.access(path, os.W_OK)}


def write(values: dict[str, str]) -> dict[str, str]:
    """Write values to the kernel; return the refused ones, key to ``VALUE: reason``."""
    refused = {}
    for key, value in values.items():
        try:
            path_of(key).write_text(f"{value}\n")
        except OSError as error:
            refused[key] = f"{value}: {error.strerror}"
    return refused


def can_have(limit: int) -> bool:
    """Return whether root can give a process that many open files; tried in a child, which then ends."""
    child = os.fork()
    if child == 0:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
        except (ValueError, OSError):
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


def most_open_files() -> int:
    """Return the most open files that root can give a process here."""
    ceiling = int(Path("/proc/sys/fs/nr_open").read_text())
    if can_have(ceiling):
        return ceiling
    return resource.getrlimit(resource.RLIMIT_NOFILE)[1]


def login_limits(module: AnsibleModule) -> dict[str, Any]:
    """Return the limits of open files that a login gets, and the most that one can have."""
    found: dict[str, Any] = {"ceiling": most_open_files()}
    # su opens a session as a login does; what it prints is what the next login has.
    rc, out, err = module.run_command(
        ["su", "-s", "/bin/sh", ANYBODY, "-c", "ulimit -Sn; ulimit -Hn"], use_unsafe_shell=False
    )
    numbers = out.split()
    if rc or len(numbers) != 2:
        return found | {"why": err.strip().splitlines()[-1] if err.strip() else f"su ended with {rc}"}
    soft, hard = (found["ceiling"] if n == "unlimited" else int(n) for n in numbers)
    return found | {"soft": soft, "hard": hard}


def overridden(key: str, own: set[str]) -> str | None:
    """Return the file that gives a key another value at the next start of the host, after ours; or None."""
    ours = max((Path(o).name for o in own if "sysctl" in o), default="")
    seen: dict[str, Path] = {}
    for folder in FOLDERS:
        for file in Path(folder).glob("*.conf"):
            seen.setdefault(file.name, file)
    last = None
    for name, file in sorted(seen.items()):
        if name > ours and str(file) not in own and (value := value_in(file, key)) is not None:
            last = f"{file} ({value})"
    return last


def value_in(file: Path, key: str) -> str | None:
    """Return the value that a file of sysctls gives a key."""
    try:
        lines = file.read_text(errors="replace").splitlines()
    except OSError:
        return None
    found = None
    for line in lines:
        name, equals, value = line.strip().removeprefix("-").partition("=")
        if equals and not line.startswith(("#", ";")) and name.strip().replace("/", ".") == key:
            found = " ".join(value.split())
    return found


def content(path: str) -> str | None:
    """Return what is in a file; None where there is none."""
    file = Path(path)
    return file.read_text(errors="replace") if file.is_file() else None


def put(path: str, text: str) -> None:
    """Write a file in one step, readable by everybody: kernel settings are no secret."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    atomic_files.write(target, text)


def in_container() -> bool:
    """Return whether the host shares its kernel with others."""
    done = subprocess.run(["systemd-detect-virt", "--container", "--quiet"], check=False)
    return done.returncode == 0


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "keys": {"type": "list", "elements": "str", "required": True, "no_log": False},
            "limits": {"type": "bool", "default": False},
            "values": {"type": "dict", "default": {}},
            "files": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    p = module.params
    refused: dict[str, str] = {}
    written = {path: text for path, text in p["files"].items() if text is not None}
    if not module.check_mode:
        refused = write(p["values"])
        for path, text in written.items():
            put(path, text)
    own = set(p["files"])
    module.exit_json(
        changed=bool(written) or bool(set(p["values"]) - set(refused)),
        container=in_container(),
        kernel={key: read(key) | {"later": overridden(key, own)} for key in p["keys"]},
        login=login_limits(module) if p["limits"] else {},
        contents={path: content(path) for path in p["files"]},
        refused=refused,
    )


if __name__ == "__main__":
    main()
