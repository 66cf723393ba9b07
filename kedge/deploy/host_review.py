"""Writes what runs on hosts as the review takes it, an inventory that plans it, and the report."""

from __future__ import annotations

import math
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Final

import yaml

from kedge.evidence.border.jvms import JvmProcess, Running
from kedge.evidence.files import replace_text
from kedge.evidence.printable import plain, plain_lines
from kedge.plan.compact_names import fold
from kedge.review.as_inventory import ReviewedMachine
from kedge.review.command import bounded, review
from kedge.review.found_inventory import FoundProcess, code_of, documents, inventory_from
from kedge.review.judging import Judgement
from kedge.review.kinds import SIGNS, parts_of
from kedge.review.page import page
from kedge.review.processes import RunningProcess, processes_of
from kedge.review.reading import ReviewError
from kedge.review.showing import markdown, text

#: The parts of what is written: the inventory alone is one that Ansible reads.
FILES, INVENTORY = "files", "inventory"
_NONE: Final[Mapping[str, str]] = {}
_KERNEL: Final = "sysctl.conf"
#: What a value that nobody writes by mistake may end in: the others are reviewed all the same.
_ODD: Final = (ValueError, LookupError, RecursionError, OverflowError)
#: What the files of one process, and all of one host, may take: a host must not keep the others waiting.
_PROCESS_S: Final = 20
_HOST_S: Final = 60

#: What is said of the files of a process, of what in them nothing is, and the processes that they make.
_Reviewed = tuple[Sequence[Judgement], Sequence[str], Sequence[RunningProcess]]


@dataclass(frozen=True, slots=True)
class FoundReport:
    """What was found: the judgements that matter most first, and what could not be judged."""

    judgements: tuple[Judgement, ...]
    others: tuple[str, ...]

    @property
    def errors(self) -> int:
        """How many errors there are."""
        return sum(f.severity == "error" for one in self.judgements for f in one.findings)

    def shown(self) -> str:
        """Return the report for a terminal."""
        return plain_lines(text(self.judgements, self.others))


def empty(folder: Path) -> str:
    """Return why a folder cannot be written into; empty where it can."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        return f"{folder} holds something already: remove it, or name another folder by -e found=FOLDER"
    return ""


def write(folder: Path, hosts: Mapping[str, Running], missing: Mapping[str, str] = _NONE) -> FoundReport:
    """Write all of it into a folder that holds nothing yet; return what there is to report.

    ``missing`` are the hosts of which nothing is known, each with the reason.
    """
    found: list[FoundProcess] = []
    judged: list[tuple[str, Judgement]] = []
    others: list[str] = []
    seen: dict[tuple[object, ...], _Reviewed] = {}
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for host, runs in hosts.items():
        machine = ReviewedMachine(max(1, runs.cores), max(256, runs.memory_kib >> 10))
        left: float = _HOST_S
        place = folder / FILES / _name(host)
        for (name, files), one in zip(_sources(runs).items(), [*runs.processes, None], strict=False):
            paths = [_written(place / name / file, content) for file, content in files.items()]
            what = f"{host} {name}".strip()
            same = (tuple(files.items()), machine.cores, machine.memory_mib)
            begun = sum(os.times()[2:4])
            try:
                if same not in seen:
                    if left <= 0:
                        raise ReviewError("the others of its host took too long; review its files alone")
                    seconds = math.ceil(min(_PROCESS_S, left))
                    seen[same] = bounded(partial(_reviewed, paths, machine, place / name), seconds)
            except ReviewError as error:
                others.append(f"{what}: {_short(str(error), place / name)}")
                continue
            except _ODD as error:
                others.append(f"{what}: its files are none that can be reviewed ({type(error).__name__})")
                continue
            finally:
                left -= sum(os.times()[2:4]) - begun  # of a core, by the processes that read
            of_first, words, processes = seen[same]
            others += [f"{what}: {word}" for word in words]
            judgements = [_at(judgement, what) for judgement in of_first]
            judged += [(what, judgement) for judgement in judgements]
            found += [
                FoundProcess(host, name, one.main, tuple(one.ports), machine, process, judgement)
                for process, judgement in zip(processes, judgements, strict=False)
                if one
            ]
        others += [
            f"{host} {name}: {missed}" for name, one in _named(runs.processes) for missed in one.missed
        ]
        others += [f"{host}: {other}" for other in runs.others]
        if not runs.processes:
            others.append(f"{host}: no REST proxy, mirror or Streams application runs")
    others += [f"{plain(host)}: {why}" for host, why in missing.items()]
    try:
        for file, content in bounded(partial(_inventory, found)).items():
            _written(folder / INVENTORY / file, content)
    except ReviewError as error:
        others.append(f"no inventory was made: {error}")
    except _ODD as error:
        others.append(f"no inventory was made: a value is none that can be planned ({type(error).__name__})")
    report = FoundReport(tuple(_ordered(_folded(judged))), tuple(others))
    _written(folder / "review.md", plain_lines(markdown(report.judgements, report.others)) + "\n")
    _written(folder / "review.html", plain_lines(page(report.judgements, report.others)))
    return report


def _sources(runs: Running) -> dict[str, dict[str, str]]:
    """Return the files of each process by its name, and those of the host by none."""
    sources = {name: dict(_files(one)) for name, one in _named(runs.processes)}
    kernel = "".join(f"{key} = {value}\n" for key, value in runs.kernel.items())
    return sources | ({"": {_KERNEL: kernel}} if kernel and runs.processes else {})


def _reviewed(paths: Sequence[Path], machine: ReviewedMachine, folder: Path) -> _Reviewed:
    judgements, others = review(paths, machine.cores, machine.memory_mib)
    processes = processes_of([part for path in paths for part in parts_of(path)])
    # Of the flows of one process, the first.
    warned = {f for one in judgements for f in one.findings}
    for number, (judgement, process) in enumerate(zip(judgements, processes, strict=False)):
        new = [f for f in code_of(process) if f not in warned]
        warned.update(new)
        judgements[number] = replace(judgement, findings=(*judgement.findings, *new))
    return judgements, [_short(word, folder) for word in others], processes


def _files(one: JvmProcess) -> Iterator[tuple[str, str]]:
    """Yield the files of one process as the review takes them: names that are ours, and contents."""
    taken: set[str] = set()
    for file in one.files:
        name = _name(PurePosixPath(file.path).name)
        name = name if name not in taken else f"{len(taken)}-{name}"
        taken.add(name)
        yield name, "\n".join(file.lines) + "\n"
    # What a container's image made of its variables stands in its file.
    made = tuple(signs.variables for signs in SIGNS.values() if signs.variables)
    environment = {
        key: value
        for key, value in one.environment.items()
        if not (one.files and key.startswith(made)) or key.endswith("_OPTS")
    }
    yield "command.sh", f"{_with_jars(one)}\n"
    if lines := [f"{key}={_quoted(value)}\n" for key, value in environment.items() if value]:
        yield "environment", "".join(lines)
    if one.limits:
        yield "limits.service", "[Service]\n" + "".join(f"{k}={v}\n" for k, v in one.limits.items())


def _with_jars(one: JvmProcess) -> str:
    """Return a command line whose class path is the jars of Kafka's: their names have versions."""
    program, _, rest = one.command.partition(" ")
    return f"{program} -cp {shlex.quote(':'.join(one.jars))} {rest}" if one.jars else one.command


def _quoted(value: str) -> str:
    return f"'{value}'" if "'" not in value else '"' + value.replace('"', "'") + '"'


def _named(processes: Sequence[JvmProcess]) -> list[tuple[str, JvmProcess]]:
    """Return each process with a name of its own: its unit's, or its id."""
    units = [one.unit for one in processes]
    return [
        (_name(u.removesuffix(".service")) if u and units.count(u) == 1 else f"pid-{one.pid}", one)
        for u, one in zip(units, processes, strict=True)
    ]


def _name(text: str) -> str:
    """Return a text as the name of a file: never a path, and never hidden."""
    return re.sub(r"[^\w.@-]", "_", text, flags=re.ASCII).lstrip(".")[:100] or "_"


def _written(path: Path, content: str) -> Path:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    replace_text(path, content, private=True)
    return path


def _short(text: str, folder: Path) -> str:
    return text.replace(f"{folder}/", "")


def _at(judgement: Judgement, what: str) -> Judgement:
    """Return a judgement whose places are files of a process, in the place of those that were written."""
    base = re.compile(r"\S*/" + FILES + r"/[^/\s]+/(?:[^/\s]+/)?")
    return replace(
        judgement,
        where=what,
        findings=tuple(replace(f, where=base.sub("", f.where)) for f in judgement.findings),
        rows=tuple(replace(row, place=base.sub("", row.place)) for row in judgement.rows),
    )


def _folded(judged: Sequence[tuple[str, Judgement]]) -> Iterator[Judgement]:
    """Yield each judgement once, with all the places of which it holds."""
    same: dict[Judgement, list[str]] = {}
    for what, one in judged:
        same.setdefault(replace(one, where=""), []).append(what)
    for one, places in same.items():
        yield replace(one, where=fold(places))


def _ordered(judgements: Iterator[Judgement]) -> list[Judgement]:
    """Return the judgements, those with the most errors first, then those with the most warnings."""

    def worth(one: Judgement) -> tuple[int, ...]:
        counts = (sum(f.severity == severity for f in one.findings) for severity in ("error", "warning"))
        return tuple(-number for number in counts)

    return sorted(judgements, key=worth)


def _inventory(found: Sequence[FoundProcess]) -> dict[str, str]:
    """Return the files of an inventory that plans what was found, by their names."""
    files = {}
    for name, content, remarks in documents(inventory_from(found)):
        above = "".join(f"# {plain(remark)}\n" for remark in remarks)
        files[name] = above + yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=110)
    return files
