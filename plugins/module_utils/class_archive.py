"""The class data archive of an instance: the classes that its JVM has loaded, for its next start."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

from ansible.module_utils.host_processes import PROC
from ansible.module_utils.service_control import run

#: Where a unit has its JVM list what it loads, and look for the archive (templates/service.j2).
CACHE = Path("/var/cache")
ROOTS = 0
#: An archive holds objects as one collector lays them out.
COLLECTOR = re.compile(r"-XX:\+Use\w+GC")
#: Beside the service: with what no other process wants, and the first to go where memory is short.
APART = (
    "Nice=19",
    "CPUSchedulingPolicy=idle",
    "IOSchedulingClass=idle",
    "MemoryMax=1G",
    "OOMScoreAdjust=1000",
    "RuntimeMaxSec=3600",
    "CapabilityBoundingSet=",
    "NoNewPrivileges=yes",
    "PrivateDevices=yes",
    "PrivateNetwork=yes",
    "PrivateTmp=yes",
    "ProtectHome=yes",
    "ProtectSystem=strict",
)


def renew(unit: str, name: str, pid: str, marker: Path) -> None:
    """Have the archive of a running instance made, unless ``marker`` says that it is of its Java and jars.

    It is made beside the service, and not waited for: a JVM that finds none, or an older one, starts without.
    """
    folder, process = CACHE / unit / name, PROC / pid
    archive, classes = folder / "classes.jsa", folder / "classes"
    try:
        words = (process / "cmdline").read_text(errors="replace").split("\0")
        java, owner = (process / "exe").resolve(strict=True), process.stat().st_uid
        class_path = words[next(n for n, word in enumerate(words) if word in ("-cp", "-classpath")) + 1]
        key = hashlib.sha256("\n".join(_parts(java, class_path)).encode()).hexdigest()
        # What the service may write is not started by root's word.
        if java.stat().st_uid != ROOTS or not classes.is_file():
            return
    except (OSError, StopIteration):  # ended meanwhile, or started in another way
        return
    if archive.is_file() and marker.is_file() and marker.read_text() == key:
        return
    properties = [f"User={owner}", f"ReadWritePaths={folder}", *APART]
    started = run(
        "systemd-run",
        "--quiet",
        "--collect",
        f"--unit={unit}-classes-{name}",
        *(f"--property={one}" for one in properties),
        "flock",  # of several instances one at a time
        str(CACHE / unit),
        str(java),
        "-Xshare:dump",
        "-Xlog:disable",
        f"-XX:SharedClassListFile={classes}",
        f"-XX:SharedArchiveFile={archive}",
        *(word for word in words if COLLECTOR.fullmatch(word)),
        "-cp",
        class_path,
    )
    if started.returncode == 0:
        marker.write_text(key)


def _parts(java: Path, class_path: str) -> Iterator[str]:
    """Yield what an archive depends on: the JVM, and each jar by size and time, as the JVM compares them."""
    found = [java.parent.parent / "lib" / "modules"]
    for part in filter(None, class_path.split(":")):
        found += (
            sorted(Path(part[:-1]).glob("*.jar")) if part.endswith("/*") else [Path(part)] if part else []
        )
    for file in found:
        seen = file.stat()
        yield f"{file} {seen.st_size} {seen.st_mtime_ns}"
