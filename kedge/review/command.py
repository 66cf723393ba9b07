"""``kedge review FILE...``: what runs today, judged from its files alone. Nothing is touched."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final, TypeVar

from kedge.evidence.bounds import TooMuchError, in_bounds
from kedge.evidence.command_line import described, working
from kedge.evidence.nearest import nearest
from kedge.evidence.printable import plain, plain_lines
from kedge.plan.findings import Finding, Severity
from kedge.plan.hosts import Inventory
from kedge.plan.inventory.secrets import Known
from kedge.plan.variables import Strict, read_model
from kedge.review.as_inventory import ReviewedMachine
from kedge.review.connecting import with_shared_ids
from kedge.review.judging import Judgement, judge, model_of, numbers_of, without_secrets_of
from kedge.review.kinds import parts_of
from kedge.review.neighbours import judge_balancer, judge_kernel
from kedge.review.processes import ALLOWED, TITLES, processes_of, with_connectors, with_their_files
from kedge.review.reading import ReviewError
from kedge.review.showing import markdown, text
from kedge.services.mirror.variables import MirrorFlow
from kedge.services.rest.variables import RestWorkload
from kedge.services.streams.variables import StreamsApp

T = TypeVar("T")

#: Processes of one call, each of which is planned some twenty times: a flow of MirrorMaker 2 is one.
_MOST: Final = 16
#: What the review of configurations takes, twenty times over.
_MEMORY: Final = 1 << 30
_SECONDS: Final = 60


def main(arguments: Sequence[str]) -> int:
    """Print the review; return 0 where nothing is wrong, 1 with an error finding, 2 for input of no use."""
    parser = argparse.ArgumentParser(prog="kedge review", description=described(__doc__))
    parser.add_argument(
        "files", nargs="+", type=Path, metavar="FILE", help="what you have; see docs/adopt.md"
    )
    parser.add_argument("--cores", type=int, metavar="N", help="of the host")
    parser.add_argument("--memory-mib", type=int, metavar="MIB", help="of the host")
    parser.add_argument(
        "--workload",
        action="extend",
        nargs="+",
        default=[],
        metavar="NAME=VALUE",
        help="what the process has to sustain, such as consumers=500",
    )
    parser.add_argument(
        "--allow",
        action="extend",
        nargs="+",
        default=[],
        choices=ALLOWED,
        metavar="KIND",
        help=f"what may happen to records: {', '.join(ALLOWED)}; without it none of them",
    )
    parser.add_argument("--format", choices=["text", "markdown", "json"], default="text")
    parser.add_argument(
        "--all", "--full", dest="full", action="store_true", help="also notes, every key and every reason"
    )
    options = parser.parse_args(arguments)
    try:
        with working(f"reviewing {', '.join(map(str, options.files))}"):
            judgements, others = bounded(
                lambda: review(
                    options.files, options.cores, options.memory_mib, options.workload, options.allow
                )
            )
    except ReviewError as error:
        print(plain(error), file=sys.stderr)
        return 2
    if options.format == "json":
        print(json.dumps({"reviewed": [asdict(one) for one in judgements], "others": others}, indent=2))
    else:
        shown = text if options.format == "text" else markdown
        print(plain_lines(shown(judgements, others, full=options.full)))
    return 1 if any(f.severity == "error" for one in judgements for f in one.findings) else 0


def bounded(work: Callable[[], T], seconds: int = _SECONDS) -> T:
    """Return what a part of a review returns, which has read what others wrote: from a process of its own.

    Raises:
        ReviewError: also when it takes more memory or time than a review does.
    """
    try:
        return in_bounds(work, _MEMORY, seconds)
    except TooMuchError as error:
        raise ReviewError(f"the review {error}; leave out a file that is no configuration") from error


def review(
    files: Sequence[Path],
    cores: int | None = None,
    memory_mib: int | None = None,
    workload: Sequence[str] = (),
    allow: Sequence[str] = (),
) -> tuple[list[Judgement], list[str]]:
    """Return what there is to say of the files, and what in them is nothing that is reviewed.

    Raises:
        ReviewError: when a file or an option is of no use.
    """
    parts = [part for file in files for part in parts_of(file)]
    parts, missing = with_their_files(parts)
    parts, alone = with_connectors(parts)
    others = [f"{part.where}: {part.heading}" for part in parts if part.kind == "other"] + missing + alone
    processes = with_shared_ids(processes_of(parts))
    others += [
        f"{p.where}: its configuration {file}; add that file"
        for p in processes
        for file in dict.fromkeys(p.lacks)
    ]
    kinds = [kind for kind in (*(p.kind for p in processes), *(p.kind for p in parts)) if kind in TITLES]
    said = _workload(workload, list(dict.fromkeys(model_of(kind) for kind in kinds)))
    for option, given, least in (("--cores", cores, 1), ("--memory-mib", memory_mib, 256)):
        if given is not None and given < least:
            raise ReviewError(f"{option} {given}: write {least} or more")
    machine = ReviewedMachine(workload=said, allowed=tuple(allow))
    machine = replace(machine, cores=cores or machine.cores, memory_mib=memory_mib or machine.memory_mib)
    asked = {f"--workload {name}" for name in said}
    asked |= {"--cores"} if cores else set()
    asked |= {"--memory-mib"} if memory_mib else set()
    if left := processes[_MOST:]:
        others.append(
            f"{left[0].where}, and what follows: {_MOST} processes are reviewed at once, and {len(left)} are "
            "left; review fewer files"
        )
    found = _once(judge(one, machine, frozenset(asked)) for one in processes[:_MOST])
    for part in parts:
        if part.kind == "sysctl":
            found.append(judge_kernel(part, machine))
        elif part.kind == "haproxy":
            beside = [one for one in parts if one.kind == "haproxy"]
            balancer = judge_balancer(part, machine, beside)
            if isinstance(balancer, str):
                others.append(f"{part.where}: {balancer}")
            else:
                found.append(balancer)
    texts = [{k: v.text for k, v in {**p.values, **p.environment, **p.arguments}.items()} for p in parts]
    texts += [{"command": part.command.text} for part in parts if part.command]
    known = Known(Inventory({"review": {"files": texts}}, {}))
    return [without_secrets_of(one, known) for one in found], others


def _once(judgements: Iterable[Judgement]) -> list[Judgement]:
    """Return the reviews without findings that an earlier one has: flows share most of their file."""
    said: dict[tuple[str, str], Judgement] = {}
    found = []
    for one in judgements:
        new: list[Finding] = []
        repeated: Counter[tuple[str, Severity]] = Counter()
        for f in one.findings:
            if first := said.get((f.where, f.message)):
                # Flows of one file have its name in common.
                repeated[first.title if first.where == one.where else first.where, f.severity] += 1
            else:
                new.append(f)
        said |= {(f.where, f.message): one for f in new}
        again = tuple((name, severity, count) for (name, severity), count in repeated.items())
        found.append(replace(one, findings=tuple(new), repeated=again))
    return found


def _workload(given: Sequence[str], models: Sequence[type[Strict]]) -> dict[str, Any]:
    """Return what a person says of the workload, held against the models of what is reviewed."""
    said: dict[str, Any] = {}
    known = {name for model in models for name in model.model_fields}
    for word in (part for one in given for part in one.split(",")):
        name, equals, value = word.partition("=")
        if not equals:
            raise ReviewError(f"--workload {word}: write NAME=VALUE, such as consumers=200")
        if name not in known:
            near = nearest(name, known)
            raise ReviewError(
                f"--workload {name}: nothing that is reviewed has it; "
                + (f"did you mean {near}?" if near else _numbers_of(models))
            )
        said[name] = _value(value)
    for model in models:
        mine = {name: value for name, value in said.items() if name in model.model_fields}
        found = read_model(model, mine, "--workload ", "")
        for finding in found if isinstance(found, list) else ():
            if finding.subject and any(name in finding.subject.name for name in mine):
                raise ReviewError(f"{finding.message}; {finding.fix}")
    return said


#: The variables of an inventory that hold the numbers of a workload.
_VARIABLES: Final[Mapping[type[Strict], str]] = {
    MirrorFlow: "mirror_maker_flows",
    RestWorkload: "kafka_rest_workload",
    StreamsApp: "streams_app_",
}


def _numbers_of(models: Sequence[type[Strict]]) -> str:
    """Say which numbers there are of a workload of what is reviewed, and where they are described."""
    names = list(dict.fromkeys(name for model in models for name in numbers_of(model)))
    said = " and ".join(_VARIABLES[model] for model in models)
    return f"give one of {', '.join(names)}; docs/reference.md describes them under {said}" if names else (
        "name a file of a process")  # fmt: skip


def _value(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text.replace("_", ""))
        except ValueError:
            continue
    return text
