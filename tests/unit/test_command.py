"""The command ``kedge``, and the names that it had before."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest

from kedge import cli, completion
from kedge.evidence.command_line import working

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = "inventories/mapr"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False, cwd=ROOT)


def test_help_names_every_command_with_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert "`" not in shown
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
    monkeypatch.setitem(sys.modules, "spark_checks.command", None)
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


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_the_example_of_a_command_is_one_that_it_takes(name: str) -> None:
    parser = completion._parser(cli.COMMANDS[name].module)
    assert parser is not None
    parser.parse_args(cli.COMMANDS[name].example.split())


def test_help_of_a_command_has_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("plan", "review", "explain", "clients", "limits", "measure", "watch-topic", "completion"):
        with pytest.raises(SystemExit):
            cli.main([name, "--help"])
        assert "`" not in capsys.readouterr().out


@pytest.mark.process
@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("pla", "plan"),
        ("plan --form", "--format"),
        ("plan --format ht", "html"),
        ("review --wor", "--workload"),
        ("completion z", "zsh"),
        ("review docker-comp", ""),
    ],
)
def test_bash_completes_commands_options_and_values(typed: str, completed: str) -> None:
    words = ["kedge", *typed.split()]
    ask = f"{completion.script()}COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; _kedge; echo ${{COMPREPLY[*]}}"
    done = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == completed


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_is_told_of_long_work_and_nothing_stays_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    with working("planning here", after_s=0) as said:
        assert said.wait(60)
    assert screen.getvalue().startswith("planning here ...\r")
    assert not screen.getvalue().rpartition("\r")[0].rpartition("\r")[2].strip()


def test_what_is_no_terminal_is_told_nothing_of_work(capsys: pytest.CaptureFixture[str]) -> None:
    with working("planning here", after_s=0) as said:
        pass
    assert not said.is_set()
    assert not capsys.readouterr().err
