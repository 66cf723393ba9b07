#!/usr/bin/python
"""Stages the configuration of a host's instances as releases."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kedge_release
short_description: Stage the configuration of a host's instances as releases
description:
  - Writes a new release folder, under /var/lib/kedge/UNIT/NAME/releases, where files changed.
  - Puts the service's unit files in place. Puts no release in force; that is done by kedge_instance.
  - A task gives C(instances) as the plan has them, with C(links) and C(service), from which the action of
    this name renders files and unit files. C(secrets) and C(units) are what it gives the module.
options:
  unit: {type: str, required: true, description: "Name of the template unit, without @."}
  owner: {type: str, required: true, description: "Group that may read the files."}
  instances:
    type: list
    elements: dict
    required: true
    description: >-
      The instances; to the module name, files (path: content), links (name: target), host_files, whose
      contents count as the release's, and rows, the plan's settings of these files, which count for nothing.
  links:
    type: dict
    default: {}
    description: "Links inside each release, such as the software that it runs."
  service: {type: dict, description: "What the unit template needs (description, exec_start)."}
  secrets: {type: dict, default: {}, description: "What stands for each mark in the files; never shown."}
  units: {type: dict, default: {}, description: "Unit files, name to content."}
  controls: {type: dict, default: {}, description: "Instance name to who runs it, where that is not systemd."}
  adopts:
    type: dict
    default: {}
    description: >-
      Instance name to the predecessor whose port it takes over (port, and unit or holder, stop, start).
  kit: {type: str, default: "", description: "The version of Kedge; an older one is warned of."}
  keep_releases: {type: int, default: 0, description: "How many releases an instance keeps; 0 for all."}
author: Kedge
"""

EXAMPLES = r"""
- name: Stage the planned mirrors of the host
  kedge_release:
    unit: mirror-maker
    owner: mirror-maker
    instances: "{{ _mirror_maker_planned }}"
    links: {dist: /opt/kedge/kafka-4.1.0}
    service: {description: MirrorMaker, exec_start: /usr/bin/java -cp /etc/mirror-maker/%i/dist/*}
  register: staged
"""

RETURN = r"""
instances:
  description:
    - The instances, each with name, release, and whether it, or its C(predecessor), runs (C(active)).
    - One whose predecessor runs is among those to restart.
  returned: success
  type: list
  elements: dict
restart:
  description: Names of the instances that run another release than the one that was staged.
  returned: success
  type: list
  elements: str
stale:
  description: Names of the instances that are there and no longer planned.
  returned: success
  type: list
  elements: str
strange:
  description: Names of folders among the instances that are no names of instances. They are left alone.
  returned: success
  type: list
  elements: str
"""

import base64
import contextlib
import grp
import hashlib
import hmac
import json
import os
import re
import secrets
import shutil
import stat
from pathlib import Path
from typing import Any

from ansible.module_utils import atomic_files
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.node_lock import ROOT, held
from ansible.module_utils.predecessor import name_of, serves
from ansible.module_utils.releases import (
    ETC,
    MARK,
    MARKED,
    PROBE,
    ROWS,
    SYSTEMD,
    content,
    current,
    difference,
    dropins,
    effective,
    entry,
    marked,
    outdated,
    prune,
    text_of,
)
from ansible.module_utils.service_control import is_active

#: The file of a service that names the version of Kedge that staged its releases last.
KIT = "kit-version"
#: The name of an instance that is removed; kedge.evidence.border.instances has it as well.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}", re.ASCII)
VERSION = re.compile(r"(\d{1,6}(?:\.\d{1,6}){0,3})(?:\.dev\d{1,6})?")
#: The host's own key of the digests that name releases, which would else tell of weak secrets in them.
KEY: Path = ROOT / ".release-key"
KEY_BYTES = 32
#: The file of a release that says what files of the host held, and how much of each is read.
HOST_FILES = ".host_files"
STORE_BYTES = 4 * 1024 * 1024
#: What stands in rows for a secret: its mark would change with the place that the plan is made at.
UNSAID = "<secret>"
#: Beside an instance's releases: a copy of the one that somebody edited last.
EDITED = "edited"
#: What a file takes of a disk at least.
BLOCK = 4096


def release_id(instance: dict[str, Any], key: bytes) -> str:
    """Return the name of a release: a digest of all that counts in it, under the host's own key."""
    text = json.dumps([effective(instance["files"]), instance["links"]], sort_keys=True)
    return named(text.encode(), key)


def release_key(*, make: bool) -> bytes:
    """Return the host's key of digests, made where there is none yet; in check mode it may stay empty."""
    key: bytes = KEY.read_bytes() if KEY.exists() else b""
    if len(key) == KEY_BYTES or not make:
        return key if len(key) == KEY_BYTES else b""
    KEY.parent.mkdir(parents=True, exist_ok=True)
    # One that was cut names nothing; every release gets another name then, as on a new host.
    KEY.unlink(missing_ok=True)
    new = KEY.with_name(f"{KEY.name}.{os.getpid()}")
    atomic_files.write(new, secrets.token_bytes(KEY_BYTES), 0o600)
    # Of two services that are staged at the same time, the first one's key counts.
    with contextlib.suppress(FileExistsError):
        os.link(new, KEY)
    new.unlink()
    atomic_files.sync(KEY.parent)
    return KEY.read_bytes()


def filled(instance: dict[str, Any], values: dict[str, str]) -> dict[str, Any]:
    """Return an instance with the secrets in the places of their marks."""
    pattern = re.compile("|".join(map(re.escape, values)) or "(?!)")
    files = {path: pattern.sub(lambda m: values[m[0]], text) for path, text in instance["files"].items()}
    return {**instance, "files": files, "marked": instance["files"]}


def with_host_files(instance: dict[str, Any], key: bytes) -> dict[str, Any]:
    """Return an instance with digests of the files of the host that it reads, which count as its own."""
    lines = [f"{path} {digest_of(path, key)}\n" for path in instance.get("host_files") or ()]
    files = {**instance["files"], **({HOST_FILES: "".join(lines)} if lines else {})}
    return {**instance, "files": files}


def with_rows(instance: dict[str, Any], values: dict[str, str], key: bytes) -> dict[str, Any]:
    """Return an instance whose rows are as a release has them: a digest in the place of each secret.

    It says whether it is another secret than that of another release, and nothing of what it is.
    """
    marks = {row["value"] for row in instance.get("rows") or ()} & values.keys()
    digests = {mark: named(values[mark].encode(), key) for mark in marks if key}
    rows = [
        {**row, **({"value": UNSAID, "digest": digests[row["value"]]} if row["value"] in digests else {})}
        for row in instance.get("rows") or ()
    ]
    text = f"{json.dumps(rows, indent=1, sort_keys=True)}\n" if rows else ""
    return {**instance, "rows": text, "digests": digests}


def named(data: bytes, key: bytes) -> str:
    """Return the digest by which something is known on this host alone."""
    return hmac.new(key, data, hashlib.sha256).hexdigest()[:12]


def digest_of(path: str, key: bytes) -> str:
    """Return a digest of a file, which says nothing of what it holds."""
    try:
        # It may belong to anybody: a pipe is not waited for.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return "no file"
            return named(file.read(STORE_BYTES), key)
    except OSError as error:
        return f"errno {error.errno}"


def write_release(folder: Path, instance: dict[str, Any], group: int) -> None:
    """Write a release beside its final name and rename it: half a release is never one.

    One that is there keeps its folder, to which the link of its instance may lead, and its probe: it became
    ready as it is, and only comments change, or what was edited goes.
    """
    # Folders on the way may be passed through by the service; what is in a release is nobody else's.
    os.umask(0o022)
    folder.parent.mkdir(parents=True, exist_ok=True)
    os.umask(0o077)
    if folder.is_dir():
        fill(folder, instance, group)
        return
    for left in folder.parent.glob(".*"):
        shutil.rmtree(left, ignore_errors=True)
    new = folder.with_name(f".{folder.name}.new")
    try:
        fill(new, instance, group)
    except OSError:
        # What was written so far would be in the way on a disk that is full.
        shutil.rmtree(new, ignore_errors=True)
        raise
    new.rename(folder)
    atomic_files.sync(folder.parent)


def written(instance: dict[str, Any]) -> dict[str, str]:
    """Return the files of a release, those included that show others with their marks, and its rows."""
    marked = {f"{MARKED}/{path}": text for path, text in instance["marked"].items() if MARK.search(text)}
    rows = {ROWS: instance["rows"]} if instance.get("rows") else {}
    return {**instance["files"], **marked, **rows}


def fill(folder: Path, instance: dict[str, Any], group: int) -> None:
    """Have the files and links of a release in its folder, readable by its service and by nobody else."""
    folder.mkdir(exist_ok=True)
    files, links = written(instance), instance["links"]
    for path in sorted(folder.rglob("*"), reverse=True):
        name = str(path.relative_to(folder))
        if path.is_symlink() or path.is_file():
            if name not in (*files, *links, PROBE):
                path.unlink()
        elif name in (*files, *links):
            shutil.rmtree(path)
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        atomic_files.write(folder / name, text, 0o640, group)
    for name, target in links.items():
        atomic_files.link(folder / name, target)
    for path in [folder, *folder.rglob("*")]:
        if path.is_symlink() or path.is_dir():
            os.chown(path, 0, group, follow_symlinks=False)
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o750)


def stage(
    module: AnsibleModule, instance: dict[str, Any], group: int
) -> tuple[dict[str, Any], list[dict[str, str]]]:
    """Write an instance's release where it is new; return its state and the difference."""
    unit, name = module.params["unit"], instance["name"]
    releases = ROOT / unit / name / "releases"
    key = release_key(make=not module.check_mode)
    wanted = release_id(instance, key)
    in_force = current(unit, name)
    # What somebody edited in place is compared as well, and put back.
    differs = difference(unit, in_force, instance)
    there = in_force is not None and in_force.name == wanted
    edited = there and bool(differs) and counts(in_force, instance)
    strange = extra(in_force, instance) if there else []
    differs += [entry(f"/etc/{unit}/{name}/{path}", "not of Kedge\n", "") for path in strange]
    lost, others = dropins(unit, name, instance["files"])
    lost = lost if there else []
    differs += [entry(f"{SYSTEMD}/{unit}@{name}.service.d/{path}", "", "link\n") for path in lost]
    # Of the release as it is before it is written.
    touched = in_force is not None and release_id(content(in_force), key) != in_force.name
    rows = text_of(in_force, ROWS)
    folder = releases / wanted
    if not module.check_mode and (strange or outdated(unit, folder, instance)):
        if edited or strange:
            keep_copy(in_force, ROOT / unit / name / EDITED)
        write_release(folder, instance, group)
    # What is left of a release without its links is not what was planned either.
    edited = edited or bool(lost)
    if not module.check_mode and edited:
        # The process may have been started with what was edited.
        (ROOT / unit / name / "running").unlink(missing_ok=True)
    in_force_id = in_force.name if in_force else None
    adopted = module.params["adopts"].get(name)
    predecessor = name_of(adopted) if adopted and serves(adopted) else ""
    state = {
        "name": name,
        "release": wanted,
        "current": in_force_id,
        "pending": bool(predecessor)
        or edited
        or wanted != in_force_id
        or marked(unit, name, "running") != wanted,
        "edited": edited,
        "dropins": others,
        "touched": touched,
        "comments": there and bool(differs) and not edited and not strange,
        "same_rows": (same := rows == instance.get("rows", "")),
        # Ansible puts asterisks in the place of what is like a secret, such as the name of its user.
        "rows": "" if same else base64.b64encode(rows.encode()).decode(),
        "digests": instance.get("digests", {}),
        "in_force": sorted(f.name for f in in_force.iterdir()) if in_force else [],
        "active": bool(predecessor)
        or is_active(f"{unit}@{name}.service", module.params["controls"].get(name, {})),
        "predecessor": predecessor,
    }
    return state, differs


def extra(folder: Path | None, instance: dict[str, Any]) -> list[str]:
    """Return what somebody put into a release beside its files and links."""
    there = content(folder)
    return sorted({*there["files"], *there["links"]} - {*instance["files"], *instance["links"]})


def keep_copy(folder: Path | None, place: Path) -> None:
    """Keep for root what somebody wrote into a release, until the next time that somebody did."""
    if folder is None:
        return
    os.umask(0o077)
    new = place.with_name(f".{place.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        # What is no file of a release, such as a pipe, is not waited for.
        if name.parts[0] not in (PROBE, MARKED, ROWS) and path.is_file() and not path.is_symlink():
            (new / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, new / name)
    shutil.rmtree(place, ignore_errors=True)
    new.rename(place)


def counts(folder: Path | None, instance: dict[str, Any]) -> bool:
    """Return whether a release differs from an instance in more than comments."""
    old = content(folder)
    files = {path: text for path, text in old["files"].items() if path in instance["files"]}
    links = {path: target for path, target in old["links"].items() if path in instance["links"]}
    return bool(effective(files) != effective(instance["files"]) or links != instance["links"])


def install_units(module: AnsibleModule) -> list[dict[str, str]]:
    """Put changed unit files in place and have systemd read them; return the difference."""
    changes = []
    for name, after in sorted(module.params["units"].items()):
        path = SYSTEMD / name
        before = text_of(SYSTEMD, name)
        if before == after:
            continue
        changes.append(
            {"before": before, "after": after, "before_header": str(path), "after_header": str(path)}
        )
        if not module.check_mode:
            atomic_files.write(path, after)
    targets = [name for name in module.params["units"] if name.endswith(".target")]
    # A run that was killed may have left the files without systemd having read them.
    loaded = [name.replace("@.", "@*.") for name in module.params["units"]]
    asked = module.run_command(["systemctl", "show", "--property=NeedDaemonReload", "--value", *loaded])[1]
    unread = "yes" in asked.split() or any(
        module.run_command(["systemctl", "is-enabled", "--quiet", t])[0] for t in targets
    )
    if (changes or unread) and not module.check_mode:
        module.run_command(["systemctl", "daemon-reload"], check_rc=True)
        module.run_command(["systemctl", "enable", *targets], check_rc=True)
    return changes


def note_kit(folder: Path, kit: str, *, check: bool) -> str:
    """Note which version of Kedge staged here last; return it where it was a later one than this, else ''."""
    before = text_of(folder, KIT).strip()
    if kit and kit != before and not check:
        folder.mkdir(parents=True, exist_ok=True)
        atomic_files.write(folder / KIT, f"{kit}\n")
    found = [VERSION.fullmatch(version) for version in (before, kit)]
    numbers = [tuple(map(int, match[1].split("."))) if match else () for match in found]
    return before if all(numbers) and numbers[0] > numbers[1] else ""


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "unit": {"type": "str", "required": True},
            "owner": {"type": "str", "required": True},
            "instances": {"type": "list", "elements": "dict", "required": True},
            "secrets": {"type": "dict", "default": {}, "no_log": True},
            "units": {"type": "dict", "default": {}},
            "controls": {"type": "dict", "default": {}},
            "adopts": {"type": "dict", "default": {}},
            "kit": {"type": "str", "default": ""},
            "keep_releases": {"type": "int", "default": 0},
        },
        supports_check_mode=True,
    )
    unit = module.params["unit"]
    try:
        group = grp.getgrnam(module.params["owner"]).gr_gid
    except KeyError:
        if not module.check_mode:
            module.fail_json(
                msg=f"group {module.params['owner']} does not exist. No instance of {unit} was touched. Run "
                "deploy.yml, which creates its user"
            )
        group = 0
    try:
        if module.check_mode:
            module.exit_json(**stage_all(module, group))
        with held(unit):
            module.exit_json(**stage_all(module, group))
    except TimeoutError as error:
        module.fail_json(msg=str(error))
    except OSError as error:
        module.fail_json(
            msg=f"{error.filename or ROOT}: {error.strerror}. No instance of {unit} was touched. Fix that on "
            "the host, then run deploy.yml again"
        )


def lacks(module: AnsibleModule, instances: list[dict[str, Any]]) -> str:
    """Return which disk cannot take what will be written; empty where all can, or nothing will be."""
    unit = module.params["unit"]
    places = [
        (SYSTEMD, len(text) + BLOCK, 1)
        for name, text in module.params["units"].items()
        if text_of(SYSTEMD, name) != text
    ]
    for instance in instances:
        releases = ROOT / unit / instance["name"] / "releases"
        wanted = release_id(instance, release_key(make=True))
        if wanted != getattr(current(unit, instance["name"]), "name", "") or outdated(
            unit, releases / wanted, instance
        ):
            texts = written(instance)
            # A folder each at the most, and the link in its place.
            places.append((releases, sum(len(t) + 2 * BLOCK for t in texts.values()), 2 * len(texts) + 8))
            places.append((ETC / unit, BLOCK, 2))
    return str(atomic_files.lacks(places))


def stage_all(module: AnsibleModule, group: int) -> dict[str, Any]:
    """Stage every instance, then install the units; return what the module answers."""
    unit = module.params["unit"]
    diffs: list[dict[str, str]] = []
    states = []
    key = release_key(make=not module.check_mode)
    values = module.params["secrets"]
    instances = [
        with_rows(filled(with_host_files(i, key), values), values, key) for i in module.params["instances"]
    ]
    if not module.check_mode and (why := lacks(module, instances)):
        module.fail_json(
            msg=f"{why}. No instance of {unit} was touched. Fix that on the host, then run deploy.yml again"
        )
    for instance in instances:
        state, diff = stage(module, instance, group)
        states.append(state)
        diffs += diff
        if module.params["keep_releases"] and not module.check_mode:
            prune(unit, instance["name"], module.params["keep_releases"], state["release"])
    diffs = install_units(module) + diffs
    known = ROOT / unit
    newer = note_kit(known, module.params["kit"], check=module.check_mode)
    planned = {i["name"] for i in module.params["instances"]}
    found = {f.name for f in known.iterdir() if f.is_dir()} if known.is_dir() else set()
    strange = {name for name in found - planned if not NAME.fullmatch(name)}
    return {
        "changed": bool(diffs) or any(s["release"] != s["current"] or not s["same_rows"] for s in states),
        "instances": states,
        "pending": [s["name"] for s in states if s["pending"]],
        "restart": [s["name"] for s in states if s["pending"] and s["active"]],
        "stale": sorted(found - planned - strange),
        "strange": sorted(map(ascii, strange)),
        "diff": diffs,
        "newer_kit": newer,
    }


if __name__ == "__main__":
    main()
