"""The command ``kedge``: one name for what people run, each part of it loaded when it is asked for."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from kedge.evidence.command_line import until_closed
from kedge.evidence.nearest import nearest
from kedge.evidence.release import VERSION


class Command(NamedTuple):
    """A part of the command: the module whose ``main`` it is, what it is for, and an example.

    ``in_clone``: a wheel has not what it needs.
    """

    module: str
    purpose: str
    example: str
    in_clone: bool = False


COMMANDS: Final = {
    "plan": Command(
        "kedge.plan_command", "plan an inventory: settings with reasons, findings", "-i inventories/prod"
    ),
    "review": Command(
        "kedge.review.command", "judge configuration files that you run today", "docker-compose.yml"
    ),
    "explain": Command(
        "kedge.explain",
        "say what a key or a rule does, and why a plan has it",
        "linger.ms -i inventories/prod",
    ),
    "clients": Command(
        "kedge.services.clients.__main__",
        "print the settings of kafka_clients",
        "-i inventories/prod --out build",
    ),
    "audit": Command(
        "spark_checks.command",
        "judge evidence with Spark: verdicts, a report",
        "--evidence runs/latest/evidence --slo runs/latest/slo.yml --out report",
        in_clone=True,
    ),
    "limits": Command(
        "verify.limits",
        "compare a living cluster with the limits of a guide",
        "-i inventories/prod --cluster leaf",
        in_clone=True,
    ),
    "measure": Command(
        "verify.measure.__main__",
        "measure what one partition of a cluster sustains",
        "-i inventories/prod --cluster leaf --record-bytes 1000",
        in_clone=True,
    ),
    "watch-topic": Command(
        "verify.watch_topic",
        "print how fast a topic grows",
        "-i inventories/prod --cluster leaf --topic orders",
        in_clone=True,
    ),
    "canary": Command(
        "verify.canary.command",
        "show and audit a canary's windows, announce changes, write its alerts",
        "pause -i inventories/prod --for 20m",
        in_clone=True,
    ),
    "setup": Command("kedge.setup.phases", "install what a clone lacks", "--without-fleet", in_clone=True),
    "completion": Command("kedge.completion", "print what completes these in bash or zsh", "bash"),
}
#: What only a clone has: playbooks, the load, the audit.
_OF_A_CLONE: Final = ("lab", "pyspark", "spark_checks", "verify")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and end with its status; 2 where there is no such command."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    sys.exit(until_closed(lambda: _run(given)))


def _run(given: list[str]) -> int:
    name, rest = (given[0], given[1:]) if given else ("--help", [])
    if name in ("--help", "-h", "help"):
        print(_help())
        return 0 if given else 2
    if name == "--version":
        print(VERSION)
        return 0
    if name not in COMMANDS:
        near = nearest(name, COMMANDS)
        what_next = f"did you mean {near}?" if near else "see kedge --help"
        print(f"kedge {name}: no such command; {what_next}", file=sys.stderr)
        return 2
    return _loaded(name)(rest)


def _loaded(name: str) -> Callable[[list[str]], int]:
    try:
        module = importlib.import_module(COMMANDS[name].module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _OF_A_CLONE:
            raise
        print(
            f"kedge {name} needs a clone of Kedge: {error}; run python3 -m kedge.setup there", file=sys.stderr
        )
        sys.exit(2)
    found: Callable[[list[str]], int] = module.main
    return found


def _help() -> str:
    wide = max(map(len, COMMANDS))
    lines = [
        f"  {name:{wide}}  {one.purpose}{' (in a clone)' * one.in_clone}\n"
        f"  {'':{wide}}  kedge {name} {one.example}"
        for name, one in COMMANDS.items()
    ]
    return "\n".join(
        [
            "usage: kedge COMMAND ...",
            "",
            "Plan and review the machines around a Kafka cluster. Options of a command: kedge COMMAND --help",
            "",
            *lines,
        ]
    )
