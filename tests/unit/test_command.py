"""The command ``kedge``, and the names that it had before."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kedge import cli

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = "inventories/mapr"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False, cwd=ROOT)


def test_help_names_every_command_with_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    for name, command in cli.COMMANDS.items():
        assert f"kedge {name} {command.example}" in shown


def test_an_unknown_command_names_the_nearest_one(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["pland"])
    assert ended.value.code == 2
    assert capsys.readouterr().err == "kedge pland: no such command; did you mean plan?\n"


def test_a_command_of_a_clone_says_so_where_there_is_none(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "spark_checks.__main__", None)
    with pytest.raises(SystemExit) as ended:
        cli.main(["audit", "--help"])
    assert ended.value.code == 2
    assert "kedge audit needs a clone of Kedge" in capsys.readouterr().err


def test_what_a_command_itself_lacks_is_not_blamed_on_the_clone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kedge.review.command", None)
    with pytest.raises(ModuleNotFoundError):
        cli.main(["review", "x.properties"])


@pytest.mark.process
def test_former_names_still_plan_and_say_the_new_one() -> None:
    now, before = (run("-m", *name, "-i", EXAMPLE) for name in (("kedge", "plan"), ("sizing",)))
    assert now.returncode == before.returncode == 0
    assert now.stdout == before.stdout
    assert not now.stderr
    assert before.stderr.startswith("python -m sizing is `kedge plan`")


@pytest.mark.process
@pytest.mark.parametrize(
    ("former", "usage"),
    [
        (("sizing", "review"), "usage: kedge review"),
        (("sizing.clients",), "usage: kedge clients"),
        (("local.setup",), "usage: python3 -m kedge.setup"),
    ],
)
def test_former_names_reach_their_commands(former: tuple[str, ...], usage: str) -> None:
    done = run("-m", *former, "--help")
    assert done.returncode == 0
    assert done.stdout.startswith(usage)
