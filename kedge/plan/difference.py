"""What changes between a plan that was kept, or of an older commit, and the plan of today; and by whom."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import tarfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Literal

from kedge.evidence.release import PLAN_SCHEMA, VERSION
from kedge.plan.compact_names import compact
from kedge.plan.hosts import Inventory
from kedge.plan.inventory.secrets import Known
from kedge.plan.inventory.versions import with_software
from kedge.plan.inventory.yaml_files import InventoryError
from kedge.plan.rules import since
from kedge.plan.service import Service
from kedge.plan.text import wrapped

#: What a plan is made of, and who can have changed it.
Author = Literal["kit", "inventory", "advice"]
_ALONE: Final[Mapping[Author, str]] = {
    "kit": "Kedge's rule changed",
    "inventory": "your inventory changed",
    "advice": "the advice changed",
}
_AMONG: Final[Mapping[Author, str]] = {"kit": "Kedge", "inventory": "your inventory", "advice": "the advice"}
#: What to do where nobody can tell.
TELL: Final = (
    "Kedge and the inventory both changed: give --against a commit of the inventory as well, to tell them "
    "apart"
)
_HIDDEN: Final = "***"


@dataclass(frozen=True, slots=True)
class PlanChange:
    """A setting, or with an empty key a whole place, that only one plan has or that differs.

    Attributes:
        where: the place, such as ``rest1 kafka_rest@8082``.
        file: the file on the node; empty for topics, clients and rollouts without one.
        key: the setting's key; empty where the whole place comes or goes.
        before: its value in the older plan; None where that has none.
        after: its value today; None where there is none any more.
        whose: who can have changed it: one author, or several where nothing tells which it was.
        rule: the rule that sets it today, or did.
        because: the reason of today's value, or of the one that went.
    """

    where: str
    file: str
    key: str
    before: str | None
    after: str | None
    whose: tuple[Author, ...]
    rule: str = ""
    because: str = ""

    @property
    def who(self) -> str:
        """Say whose change it is."""
        if len(self.whose) == 1:
            return _ALONE[self.whose[0]]
        if not self.whose:
            return "neither Kedge nor your inventory changed: the older plan was altered"
        return f"{' or '.join(_AMONG[one] for one in self.whose)} changed"

    @property
    def since(self) -> str:
        """Return the release that last changed the rule; empty where the rule changed nothing."""
        return since(self.rule) if self.rule and "kit" in self.whose else ""

    @property
    def why(self) -> str:
        """Say whose change it is, by which rule, since which release, and its reason."""
        rule = f" ({self.rule}{f', since {self.since}' if self.since else ''})" if self.rule else ""
        return f"{self.who}{rule}{f': {self.because}' if self.because else ''}"

    def to_json(self) -> dict[str, Any]:
        """Return the change as the plan's JSON has it."""
        return {**asdict(self), "since": self.since}

    @property
    def subject(self) -> str:
        """Return the service, or what else is planned, that it belongs to."""
        return self.where.partition(" ")[2].partition("@")[0]


def document(
    plan: Mapping[str, Any],
    inventory: Inventory,
    services: Iterable[Service],
    advice: str | None = None,
) -> dict[str, Any]:
    """Return a plan's JSON with what tells later who changed what: the kit, its rules, inventory and advice.

    Args:
        plan: as ``Plan.to_json`` returns it.
        inventory: that the plan was made of.
        services: the records of all services.
        advice: the one that was asked for; None for the inventory's own.
    """
    return {
        "schema": PLAN_SCHEMA,
        "kit": {"version": VERSION, "rules": _rules()},
        "inventory": _fingerprint(inventory),
        "advice": advice or str(inventory.common("advice", "measured")),
        **plan,
        "hosts": with_software(plan["hosts"], inventory, services),
    }


def nothing(now: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document of the plan of an inventory that was not there, by today's kit and advice."""
    return {**{key: now[key] for key in ("schema", "kit", "advice")}, "inventory": "", "hosts": {}}


def _fingerprint(inventory: Inventory) -> str:
    """Return a hash of all that rules read of an inventory, without secrets and the advice.

    Of what no rule reads, the reader of an inventory has the name alone; which names there are, a playbook
    decides.
    """
    hosts = {
        host: {name: value for name, value in variables.items() if value is not None and name != "advice"}
        for host, variables in inventory.hosts.items()
    }
    seen = json.dumps([hosts, inventory.groups], sort_keys=True, default=str)
    return hashlib.sha256(Known(inventory).masked(seen).encode()).hexdigest()[:16]


@cache
def _rules() -> str:
    """Return a hash of the planner's own files: between releases the version says too little."""
    here = Path(__file__).parents[1]
    every = (path for name in ("keys", "plan", "services") for path in (here / name).rglob("*"))
    files = sorted(path for path in every if path.suffix in {".py", ".txt", ".yml"})
    whole = hashlib.sha256()
    for path in files:
        whole.update(path.relative_to(here).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return whole.hexdigest()[:16]


def read_kept(path: Path) -> dict[str, Any]:
    """Read a plan that ``--format json`` printed, or that a run kept.

    Raises:
        InventoryError: when it is no such plan, or one of a newer kit.
    """
    try:
        kept = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise InventoryError(f"{path}: no plan in JSON: {error}; keep one with --format json") from error
    if not isinstance(kept, dict) or not isinstance(kept.get("hosts"), dict):
        raise InventoryError(f"{path}: no plan; keep one with --format json")
    schema = kept.get("schema", PLAN_SCHEMA)
    if not isinstance(schema, int) or schema > PLAN_SCHEMA:
        kit = kept.get("kit")
        newer = kit.get("version", "of a newer form") if isinstance(kit, dict) else "of a newer form"
        raise InventoryError(f"{path}: a plan of Kedge {newer}, and this is {VERSION}: compare by that one")
    return kept


@contextmanager
def at_commit(inventory: Path, reference: str) -> Iterator[tuple[Path, Path, Path] | None]:
    """Lay out the repository that holds an inventory as it was at a commit; gone afterwards.

    Yields the inventory there, the folder that the repository lies in there, and the one where it lies today;
    None where that commit has no such inventory.

    Raises:
        InventoryError: when it lies in no repository, that has no such commit, or a link leads out of it.
    """
    folder = inventory if inventory.is_dir() else inventory.parent
    top = _git(folder, "rev-parse", "--show-toplevel")
    if top is None:
        raise InventoryError(
            f"--against {reference}: no such file, and {inventory} lies in no git repository"
        )
    commit = _git(folder, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{reference}^{{commit}}")
    if commit is None:
        raise InventoryError(
            f"--against {reference}: neither a file nor a commit of the repository of {inventory}"
        )
    root = Path(top.decode().strip()).resolve()
    # Where the inventory is itself a link, the repository has what it leads to.
    inside = inventory.resolve().relative_to(root)
    packed = _git(root, "archive", commit.decode().strip())
    if packed is None:
        raise InventoryError(f"--against {reference}: the repository of {inventory} cannot be read there")
    with TemporaryDirectory(prefix="kedge-against-") as made:
        there = Path(made).resolve()
        with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
            outside = _unpack(tar, there)
        then = there / inside
        if then.exists():
            _check_links(then, there, outside, reference)
        yield (then, there, root) if then.exists() else None


def _unpack(tar: tarfile.TarFile, folder: Path) -> list[str]:
    """Unpack what git packed; return the links that were left out since they lead out of the repository.

    Looked at here: Python's own filter for data came with 3.11.4, and Debian 12 has 3.11.2.
    """
    outside = []
    for member in tar:
        if member.issym() and not _within(folder, folder / Path(member.name).parent / member.linkname):
            outside.append(member.name)
        elif member.isfile() or member.isdir() or member.issym():
            tar.extract(member, folder)
    return outside


def _within(folder: Path, path: Path) -> bool:
    """Return whether a path lies in a folder, links on the way followed."""
    return path.resolve().is_relative_to(folder)


def _check_links(then: Path, folder: Path, outside: Sequence[str], reference: str) -> None:
    """Refuse links out of the repository where the inventory, or what its own links lead to, has them."""
    links = (path for path in then.rglob("*") if path.is_symlink()) if then.is_dir() else ()
    read = [then if then.is_dir() else then.parent, *(link.resolve() for link in links)]
    for name in outside:
        if any((folder / name).is_relative_to(one) for one in read):
            raise InventoryError(
                f"--against {reference}: {name} is a link out of the repository at that commit, and nothing "
                "says what it led to; compare with a plan that --format json kept"
            )


def moved(inventory: Inventory, made: Path, place: Path) -> Inventory:
    """Return an inventory with the paths of a copy, such as ``inventory_dir``, as they are in its place."""

    def of(value: Any) -> Any:
        if isinstance(value, str):
            return value.replace(str(made), str(place))
        if isinstance(value, Mapping):
            return {key: of(one) for key, one in value.items()}
        return [of(one) for one in value] if isinstance(value, list | tuple) else value

    return replace(inventory, hosts={host: of(variables) for host, variables in inventory.hosts.items()})


def _git(folder: Path, *arguments: str) -> bytes | None:
    try:
        done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, check=False)
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None


def changes(
    before: Mapping[str, Any], after: Mapping[str, Any], between: Mapping[str, Any] | None = None
) -> list[PlanChange]:
    """Return what differs between two plans, in the order of today's.

    Args:
        before: the older plan's document.
        after: today's.
        between: what today's kit plans of the older inventory; with it each change has one author.
    """
    if between is not None:
        kit = {(c.where, c.file, c.key): c for c in _apart(before, between, ("kit",))}
        mine = _apart(between, after, ("inventory",))
        # Changed by both: what counts is the value that was, and the last author.
        joined = [replace(c, before=kit.pop((c.where, c.file, c.key), c).before) for c in mine]
        return [*kit.values(), *(c for c in joined if c.before != c.after)]
    return _apart(before, after, _whose(before, after))


def _whose(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[Author, ...]:
    """Return what is not the same of two plans; a plan that does not say it counts as different."""
    authors: tuple[Author, ...] = ("kit", "inventory")
    differ: tuple[Author, ...] = tuple(
        one for one in authors if one not in before or before[one] != after[one]
    )
    return (*differ, "advice") if before.get("advice", after["advice"]) != after["advice"] else differ


def _apart(
    before: Mapping[str, Any], after: Mapping[str, Any], whose: tuple[Author, ...]
) -> list[PlanChange]:
    old, new = _flat(before), _flat(after)
    found: list[PlanChange] = []
    for where in dict.fromkeys([*new, *old]):
        if where not in old or where not in new:
            at = ("planned" if where in old else None, "planned" if where in new else None)
            found.append(PlanChange(where, "", "", *at, whose))
            continue
        for file, key in dict.fromkeys([*new[where], *old[where]]):
            was, now = old[where].get((file, key)), new[where].get((file, key))
            if (_value(was), bool(was)) != (_value(now), bool(now)):
                said = now or was or {}
                why = str(said.get("rule", "")), str(said.get("because", ""))
                found.append(PlanChange(where, file, key, _value(was), _value(now), whose, *why))
    return [*_software(before, after, whose), *found]


def _software(
    before: Mapping[str, Any], after: Mapping[str, Any], whose: tuple[Author, ...]
) -> Iterator[PlanChange]:
    """Yield how the software differs of services that both plans have; an older kit named none."""
    for host, part in after["hosts"].items():
        for service, of_service in part["services"].items():
            of_before = before["hosts"].get(host, {}).get("services", {}).get(service, {})
            if "software" not in of_before or "software" not in of_service:
                continue
            old, new = of_before["software"], of_service["software"]
            for key in dict.fromkeys([*new, *old]):
                if old.get(key) != new.get(key):
                    yield PlanChange(f"{host} {service}", "", key, old.get(key), new.get(key), whose)


def _value(setting: Mapping[str, Any] | None) -> str | None:
    if setting is None:
        return None
    return _HIDDEN if setting.get("secret") else str(setting.get("value"))


def _flat(plan: Mapping[str, Any]) -> dict[str, dict[tuple[str, str], Mapping[str, Any]]]:
    """Return the settings of a plan's document by place, file and key.

    Raises:
        InventoryError: when it has not the form of a plan.
    """
    places: dict[str, Sequence[Mapping[str, Any]]] = {}
    try:
        for host, of_host in plan["hosts"].items():
            for service, of_service in of_host["services"].items():
                for one in of_service["instances"]:
                    places[f"{host} {service}@{one['name']}"] = one["settings"]
        for cluster, topics in plan.get("topics", {}).items():
            places |= {f"{cluster} topic@{name}": one["settings"] for name, one in topics.items()}
        places |= {f"clients client@{name}": one["settings"] for name, one in plan.get("clients", {}).items()}
        for host, services in plan.get("rollouts", {}).items():
            places |= {f"{host} rollout@{name}": one["settings"] for name, one in services.items()}
        places |= {f"rollout batches@{name}": one["settings"] for name, one in plan.get("waves", {}).items()}
        return {where: {(s["file"], s["key"]): s for s in some} for where, some in places.items()}
    except (AttributeError, KeyError, TypeError) as error:
        raise InventoryError(
            f"--against: no whole plan, {error!r} is missing; keep one with --format json"
        ) from error


def shown(found: Sequence[PlanChange]) -> str:
    """Return changes as text, each once for all its places, and their number last."""
    if not found:
        return "no value changes"
    lines: list[str] = []
    for same in together(found):
        one, where = same[0], compact(change.where for change in same)
        if not one.key:
            lines += [where, f"    {'comes' if one.before is None else 'goes'}: {one.who}"]
            continue
        lines += [where, f"    {one.file.rpartition('/')[2]}  {one.key}".rstrip()]
        lines += wrapped(f"{_said(one.before)} -> {_said(one.after)}", 8)
        lines += wrapped(one.why, 8)
    lines.append(count(found))
    if untold(found):
        lines.append(TELL)
    return "\n".join(lines)


def untold(found: Sequence[PlanChange]) -> bool:
    """Return whether a commit of the inventory would tell whose change one of them is."""
    return any({"kit", "inventory"} <= {*one.whose} for one in found)


def together(found: Sequence[PlanChange]) -> list[list[PlanChange]]:
    """Group the same change, for the same reason, of several places."""
    groups: dict[tuple[object, ...], list[PlanChange]] = {}
    for one in found:
        name, said = one.file.rpartition("/")[2], (_said(one.before), _said(one.after))
        alike = ("",) if one.key else ("place", one.subject)
        same = (*alike, name, one.key, *said, one.whose, one.rule, one.because)
        groups.setdefault(same, []).append(one)
    return list(groups.values())


def count(found: Sequence[PlanChange]) -> str:
    """Say how many values change, and how many places come and go."""
    values, places = sum(bool(one.key) for one in found), sum(not one.key for one in found)
    parts = [f"{values} value{' changes' if values == 1 else 's change'}"] if values else []
    parts += (
        [f"{places} place{' comes' if places == 1 else 's come'} or go{'es' if places == 1 else ''}"]
        if places
        else []
    )
    return ", ".join(parts)


def _said(value: str | None) -> str:
    return "(not set)" if value is None else value or "(empty)"
