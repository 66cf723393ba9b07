"""Releases as they lie on a host: which is active, what is in one, and what of it may be shown."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ansible.module_utils.node_lock import ROOT

ETC = Path("/etc")
SYSTEMD = ETC / "systemd/system"
#: What stands in a file for a secret; and where a release keeps its files as they were with marks.
MARK = re.compile(r"<secret [0-9a-f]{16}>")
MARKED = ".marked"
#: The file of a release with the plan's rows that its files were made of, without secrets.
ROWS = "rows.json"
#: Whether a worker of MirrorMaker 2 sends in transactions, which all workers of its flow have to do or not.
_TRANSACTIONS = ".exactly.once.source.support"
#: The file of a release that says how it was asked whether it is ready; it may hold a login.
PROBE = ".probe"
#: Files that name a release: the one with which the process runs, the last one that became ready, and the one
#: with which the process was started, for it may have taken others by reload since.
MARKERS = ("running", "good", "started")


def marked(unit: str, name: str, what: str) -> str | None:
    """Return the release that a marker names; None where there is no marker, or it names no release."""
    named = text_of(ROOT / unit / name, what).strip()
    return named if named in kept(unit, name) else None


def current(unit: str, name: str) -> Path | None:
    """Return the release folder that is in force, if any."""
    link = ETC / unit / name
    return link.resolve() if link.is_symlink() and link.exists() else None


def kept(unit: str, name: str) -> list[str]:
    """Return all releases that an instance has."""
    folder = ROOT / unit / name / "releases"
    return sorted(f.name for f in folder.iterdir() if f.name[0] != ".") if folder.is_dir() else []


def ready_once(unit: str, name: str) -> list[str]:
    """Return the releases with which an instance became ready, the last one first."""
    asked = (ROOT / unit / name / "releases" / release / PROBE for release in kept(unit, name))
    found = [file for file in asked if file.is_file()]
    return [file.parent.name for file in sorted(found, key=lambda f: f.stat().st_mtime_ns, reverse=True)]


def is_last(probe: Path) -> None:
    """Have a probe be the last one that was written, whatever the clock was set to since the others were."""
    others = [file.stat().st_mtime_ns for file in probe.parent.parent.glob(f"*/{PROBE}") if file != probe]
    if probe.stat().st_mtime_ns <= (last := max(others, default=0)):
        os.utime(probe, ns=(last + 1, last + 1))


def ready_before(unit: str, name: str) -> list[str]:
    """Return the releases but the active one with which an instance became ready, the last one first."""
    active = current(unit, name)
    return [release for release in ready_once(unit, name) if active is None or release != active.name]


def good(unit: str, name: str) -> str | None:
    """Return the last release that became ready, if any.

    Where the marker is there and names none, as one that was cut, it is the one that was asked last.
    """
    if found := marked(unit, name, "good"):
        return found
    there = (ROOT / unit / name / "good").exists()
    return next(iter(ready_once(unit, name)), None) if there else None


def probe_of(folder: Path) -> dict[str, Any] | None:
    """Return how a release was asked whether it is ready, empty if it never was; None where that is cut."""
    if not (folder / PROBE).is_file():
        return {}
    with contextlib.suppress(ValueError):
        found = json.loads(text_of(folder, PROBE))
        return found if isinstance(found, dict) else None
    return None


def prune(unit: str, name: str, keep: int, staged: str) -> None:
    """Remove the oldest releases beyond ``keep``, never one that is staged, active, marked or last ready.

    ``keep`` is ``instances_keep_releases`` of the role ``instances``.
    """
    active = current(unit, name)
    needed = {staged, active.name if active else None, good(unit, name)}
    needed |= {marked(unit, name, marker) for marker in MARKERS}
    # What is staged may never become ready, and rollback.yml goes back from what runs.
    needed |= set(ready_before(unit, name)[:1])
    releases = ROOT / unit / name / "releases"
    folders = sorted(
        (f for f in releases.iterdir() if not f.name.startswith(".")), key=lambda f: f.stat().st_mtime
    )
    for folder in folders[: max(0, len(folders) - keep)]:
        if folder.name not in needed:
            # What is left of one where this is cut short is none to go back to.
            shutil.rmtree(folder.replace(folder.with_name(f".{folder.name}.old")))


def is_own(link: Path, instance: Path) -> bool:
    """Return whether a link leads into what is in force of an instance, as Kedge's own links do."""
    return link.is_symlink() and link.readlink().is_relative_to(instance)


def dropins(unit: str, name: str, files: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the names of an instance's drop-ins that are not linked, and the paths of drop-ins of others.

    ``files`` are those of its release. systemd reads the others as well: what ``systemctl edit`` writes, for
    one instance or for all of a unit.
    """
    home, folder = ETC / unit / name, SYSTEMD / f"{unit}@{name}.service.d"
    own = {folder / path.name for path in map(Path, files) if path.parent == Path("systemd")}
    lost = [link.name for link in own if not is_own(link, home)]
    found = {file for of in (folder, SYSTEMD / f"{unit}@.service.d") for file in of.glob("*.conf")}
    return sorted(lost), sorted(str(file) for file in found - own if not is_own(file, home))


def content(folder: Path | None) -> dict[str, Any]:
    """Return what a release has, as an instance is staged: files, how they look with marks, and links."""
    found: dict[str, dict[str, str]] = {"files": {}, "marked": {}, "links": {}}
    for path in folder.rglob("*") if folder else ():
        name = str(path.relative_to(folder or path))
        if path.is_symlink():
            found["links"][name] = str(path.readlink())
        # A probe that was being written when its writer was killed may hold a login too.
        elif path.is_file() and name != ROWS and not name.startswith((PROBE, f"{MARKED}/")):
            found["files"][name] = text_of(folder, name)
            found["marked"][name] = text_of(folder, f"{MARKED}/{name}")
    return found


def effective(files: dict[str, str]) -> dict[str, str]:
    """Return files without their comments, which hold the reasons of values and change nothing that runs."""
    return {
        path: "".join(
            line for line in text.splitlines(keepends=True) if line[:2] == "#!" or line.lstrip()[:1] != "#"
        )
        for path, text in files.items()
    }


def hidden(marked: str, text: str, other: str) -> str:
    """Return a text as it may be printed: of a line with a secret its begin, of a file of secrets nothing.

    ``marked`` is the file with marks, as it was rendered; ``other`` is the text that it is compared with.
    """
    begins = [line.partition("<secret ")[0] for line in marked.splitlines() if MARK.search(line)]
    if not begins or not text:
        return text
    changed = " (another one)" if other and other != text else ""
    if not all(begins):
        return f"***{changed}\n"
    same = set(other.splitlines())

    def line_of(line: str) -> str:
        begin = next((b for b in begins if line.startswith(b)), None)
        return line if begin is None else f"{begin}***{'' if line in same else changed}"

    return "".join(f"{line_of(line)}\n" for line in text.splitlines())


def text_of(folder: Path | None, path: str) -> str:
    """Return what a file of a release holds; nothing where there is no such release, or no such file."""
    file = folder / path if folder else None
    # What somebody edited in place may be in any encoding.
    return file.read_text(errors="replace") if file and file.is_file() else ""


def transactions(folder: Path) -> str:
    """Return whether the worker of a release sends in transactions, in Kafka's own word."""
    # By what it runs with, which somebody may have edited.
    pairs = (line.partition("=") for line in text_of(folder, "mm2.properties").splitlines())
    found = [value for key, _, value in pairs if key.endswith(_TRANSACTIONS)]
    return found[0] if found else "disabled"


def apart(release: Path, other: Path, foreign: str) -> str:
    """Return what a release runs that must not run beside instances of another one; empty where it may.

    ``foreign`` is the text of a unit that must not.
    """
    if foreign and foreign in text_of(release, "unit.service"):
        return foreign
    its, others = transactions(release), transactions(other)
    if {its, others} == {"disabled", "enabled"}:
        return f"{'with' if its == 'enabled' else 'without'} exactly_once"
    return ""


def outdated(unit: str, folder: Path, instance: dict[str, Any]) -> bool:
    """Return whether a release has other files, links or rows than an instance; reasons count as well."""
    return bool(difference(unit, folder, instance)) or text_of(folder, ROWS) != instance.get("rows", "")


def entry(path: str, before: str, after: str) -> dict[str, str]:
    """Return how a file changes, as Ansible shows it."""
    return {"before": before, "after": after, "before_header": path, "after_header": path}


def difference(unit: str, old: Path | None, instance: dict[str, Any]) -> list[dict[str, str]]:
    """Return what changes against the release in force, a pair of texts a file or link."""
    found = {}
    for path, after in instance["files"].items():
        before = text_of(old, path)
        if before == after:
            continue
        # A line that is to go may be a secret too.
        marked = f"{text_of(old, f'{MARKED}/{path}')}\n{instance['marked'][path]}"
        found[path] = (hidden(marked, before, ""), hidden(marked, after, before))
    for name, target in instance["links"].items():
        link = old / name if old else None
        found[name] = (f"{link.readlink()}\n" if link and link.is_symlink() else "", f"{target}\n")
    home = f"/etc/{unit}/{instance['name']}"
    return [
        entry(f"{home}/{path}", before, after)
        for path, (before, after) in sorted(found.items())
        if before != after
    ]
