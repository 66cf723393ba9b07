#!/usr/bin/python
"""Finds what on a host is somebody else's and in the way of what is planned there; changes nothing."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kedge_occupied
short_description: Find what of somebody else's is in the way on a host
description:
  - Whose process holds a planned port, and whether a process of the same kind runs that Kedge did not start.
  - Whether a unit, a folder of an instance or a user is there that is not Kedge's. Reads only.
  - Whether the host has fewer cores or less memory than the inventory says.
  - Whether a disk is full, has no inodes or is read-only where a deploy writes.
options:
  services:
    type: list
    elements: dict
    required: true
    description:
      - What is planned on the host. Each has C(unit), C(user) (empty where none is made), C(mains) (main
        classes of its JVMs) and C(instances) (name, port, and in C(adopt) its predecessor, if any); in
        C(adopts) the predecessors of all its instances together, if they have no port.
  known:
    type: list
    elements: str
    default: []
    description: Proxies and mirrors of somebody else's that stay, by unit or argument of the command line.
  cores:
    type: float
    default: 0
    description: What the inventory says that the host has; 0 where it says nothing.
  memory_mib: {type: int, default: 0, description: "The same of its memory."}
  unpacks:
    type: dict
    default: {}
    description:
      - Folder of what is unpacked on the host to the bytes that it takes. One that is there takes none.
      - Its name may have wildcards.
author: Kedge
"""

EXAMPLES = r"""
- name: Find what of somebody else's is in the way
  kedge_occupied:
    services:
      - unit: kafka-rest
        user: kafka-rest
        mains: [io.confluent.kafkarest.KafkaRestMain]
        instances: [{name: "8082", port: 8082}]
  register: occupied
"""

RETURN = r"""
occupied:
  description: What is in the way, a line each; none where nothing is.
  returned: success
  type: list
  elements: str
lacks:
  description: What the host has less of than the inventory says, a line each; none where nothing is.
  returned: success
  type: list
  elements: str
full:
  description: Which disk cannot take what a deploy writes; empty where all can.
  returned: success
  type: str
"""

import os
import pwd
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from ansible.module_utils import atomic_files
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.host_processes import (
    UNSEEN,
    holders,
    main_class,
    processes,
    told,
    unit_of,
    unseen,
    words_of,
)
from ansible.module_utils.node_lock import ROOT
from ansible.module_utils.predecessor import belongs, serves
from ansible.module_utils.service_control import is_active

ETC = Path("/etc")
UNITS = (Path("/etc/systemd/system"), Path("/usr/lib/systemd/system"), Path("/lib/systemd/system"))
#: Shells of users that nobody logs in as.
NO_LOGIN = ("/usr/sbin/nologin", "/sbin/nologin", "/bin/false", "/usr/bin/false")
#: The share of a machine's memory that firmware and kernel keep: MemTotal is without it.
KEPT = 0.1
#: What a file of software has at least, on average: jars have more.
FILE_BYTES = 16384


def ours() -> list[str]:
    """Return the template units of which Kedge keeps releases on the host."""
    return [path.name for path in ROOT.iterdir() if path.is_dir()] if ROOT.is_dir() else []


def is_ours(unit: str, known: list[str]) -> bool:
    """Return whether a unit is an instance of one of Kedge's."""
    return unit.partition("@")[0] in known and "@" in unit


def in_the_way(service: dict[str, Any], known: list[str], stays: Collection[str] = ()) -> Iterator[str]:
    """Yield what is in the way of one service; ``stays`` names neighbours that may run beside it."""
    unit, seen = service["unit"], set()
    adopted = [i["adopt"] for i in service["instances"] if i.get("adopt")] + service.get("adopts", [])
    for instance in service["instances"]:
        port = int(instance.get("port") or 0)
        held = f"port {port} of {unit}@{instance['name']} is held by"
        for pid in holders(port) if port else ():
            if not is_ours(unit_of(pid), known):
                seen.add(pid)
                if not (instance.get("adopt") and belongs(instance["adopt"], pid)):
                    yield f"{held} {told(pid)}"
        # Without the rights of root, the processes of our own units are not shown either.
        runs = unit in known and is_active(f"{unit}@{instance['name']}.service", {})
        if port and not runs and unseen(port):
            yield f"{held} {UNSEEN}: see what `ss -ltnp` says as root, and what containers publish"
        yield from _moved(f"{unit}@{instance['name']}", instance.get("adopt") or {})
        yield from _folder(unit, instance["name"])
    for pid in processes() if service["mains"] else ():
        words = words_of(pid)
        if main_class(words) not in service["mains"] or pid in seen or is_ours(unit_of(pid), known):
            continue
        if not {unit_of(pid), *words} & set(stays) and not any(belongs(named, pid) for named in adopted):
            yield f"{told(pid)} is of the kind of {unit}, and Kedge did not start it"
    if unit in known:
        return
    for folder in UNITS:
        if (folder / f"{unit}@.service").exists():
            yield f"{folder}/{unit}@.service is there, and is not Kedge's"
            break
    yield from _user(service["user"], unit)


def _moved(instance: str, named: dict[str, Any]) -> Iterator[str]:
    """Yield a predecessor that runs and has not the port on which it is to be taken over."""
    if named.get("unit") and is_active(named["unit"], {}) and not serves(named):
        yield (
            f"{named['unit']} runs, from which {instance} takes over (kafka_rest_adopt), and does not hold "
            f"port {named['port']}"
        )


def _folder(unit: str, name: str) -> Iterator[str]:
    """Yield what is in the place of an instance's files, and no link to one of its releases."""
    place = ETC / unit / name
    if place.is_symlink():
        target = Path(os.path.realpath(place))
        if target.parent != Path(os.path.realpath(ROOT)) / unit / name / "releases":
            yield f"{place} is a link to {target} that Kedge did not make"
    elif place.exists():
        yield f"{place} is a {'folder' if place.is_dir() else 'file'} that Kedge did not make"


def _user(name: str, unit: str) -> Iterator[str]:
    """Yield a user of the name that somebody uses otherwise: a deploy would change it."""
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        return
    if entry.pw_shell not in NO_LOGIN or entry.pw_uid >= 1000:
        yield f"the user {name} is there with the shell {entry.pw_shell}, and is not Kedge's"


def lacks(cores: float, memory_mib: int, meminfo: Path = Path("/proc/meminfo")) -> Iterator[str]:
    """Yield what the host has less of than the inventory says."""
    has = os.cpu_count() or 0
    if has and cores > has:
        yield f"host_cores is {cores:g}, and the host has {has}"
    kib = next(
        (int(line.split()[1]) for line in meminfo.read_text().splitlines() if line.startswith("MemTotal:")), 0
    )
    if kib and memory_mib * (1 - KEPT) > kib / 1024:
        yield f"host_memory_mib is {memory_mib}, and the host has {kib // 1024}"


def full(unpacks: dict[str, int]) -> str:
    """Return which disk cannot take the notes of a deploy or what it unpacks; empty where all can."""
    places = [(place, 0, 0) for place in (ETC, UNITS[0], ROOT)]
    for folder, size in unpacks.items():
        home = Path(folder)
        if not any(home.parent.glob(home.name)):
            places.append((home.parent, int(size), int(size) // FILE_BYTES))
    return str(atomic_files.lacks(places))


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "services": {"type": "list", "elements": "dict", "required": True},
            "known": {"type": "list", "elements": "str", "default": []},
            "cores": {"type": "float", "default": 0},
            "memory_mib": {"type": "int", "default": 0},
            "unpacks": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    known, stays = ours(), module.params["known"]
    found = [line for service in module.params["services"] for line in in_the_way(service, known, stays)]
    less = list(lacks(module.params["cores"], module.params["memory_mib"]))
    module.exit_json(
        changed=False, occupied=list(dict.fromkeys(found)), lacks=less, full=full(module.params["unpacks"])
    )


if __name__ == "__main__":
    main()
