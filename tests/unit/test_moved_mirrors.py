"""A mirror that moves stops on its former host first, also where --limit leaves that host out."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import yaml

from tests.roles import ROOT, play_here

PLAN = {
    "hosts": {
        host: {"services": {"mirror_maker": {"instances": [{"name": name} for name in names]}}}
        for host, names in {"mm1": ["metrics-0"], "mm2": ["metrics-2"], "mm3": ["metrics-1"]}.items()
    }
}


def deploy(folder: Path, has: dict[str, list[str]], limit: str, away: str = "") -> str:
    """Play what deploy.yml does first, of hosts whose links lie in a folder; return what it says."""
    for host in ("mm1", "mm2", "mm3"):
        (folder / host).mkdir()
        for name in has.get(host, ()):
            (folder / host / name).symlink_to("/nowhere")
    tasks = (ROOT / "roles/mirror_maker/tasks/moving.yml").read_text()
    here = f"{folder}/{{{{ item | default(inventory_hostname) }}}}"
    (folder / "moving.yml").write_text(tasks.replace("paths: /etc/mirror-maker", f'paths: "{here}"'))
    hosts = {
        host: {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        for host in ("mm1", "mm2", "mm3")
    }
    if away:  # port 1 of loopback takes no connection
        hosts[away] = {"ansible_host": "127.0.0.1", "ansible_port": "1"}
    localhost = {"ansible_connection": "local", "plan_made": {"plan": PLAN}}
    inventory = {"all": {"hosts": {"localhost": localhost}}, "mirror_maker": {"hosts": hosts}}
    new = yaml.safe_load((ROOT / "roles/mirror_maker/vars/main.yml").read_text())
    play = {
        "hosts": "mirror_maker",
        "gather_facts": False,
        "vars": {key: new[key] for key in ("_mirror_maker_plan", "_mirror_maker_new")},
        "tasks": [{"ansible.builtin.import_tasks": str(folder / "moving.yml")}],
    }
    done = play_here(folder, [play], inventory, "--limit", limit)
    assert "fatal" not in done.stdout or "Refusing" in done.stdout, done.stdout
    return " ".join(done.stdout.split()) if done.returncode else ""


@pytest.mark.slow
def test_a_limit_that_leaves_out_the_host_that_a_mirror_moves_off_is_refused(tmp_path: Path) -> None:
    said = deploy(tmp_path, {"mm1": ["metrics-0", "metrics-1"], "mm2": ["metrics-2"]}, "localhost,mm3")
    assert "metrics-1 moves to mm3 and is on mm1, which --limit leaves out" in said
    assert "with --limit localhost,mm3,mm1" in said


@pytest.mark.slow
def test_a_host_that_is_left_out_and_does_not_answer_is_named(tmp_path: Path) -> None:
    said = deploy(tmp_path, {"mm2": ["metrics-2"]}, "localhost,mm3", away="mm1")
    assert "mm1 does not answer, so that nobody knows whether it runs metrics-1" in said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("has", "limit", "away"),
    [
        ({"mm1": ["metrics-0", "metrics-1"], "mm2": ["metrics-2"]}, "localhost,mm1,mm3", ""),
        ({"mm1": ["metrics-0"], "mm2": ["metrics-2"]}, "localhost,mm3", ""),
        ({"mm3": ["metrics-1"]}, "localhost,mm3", "mm1"),
    ],
    ids=["the host is among them", "it is new", "nothing is new, and another host is down"],
)
def test_a_limit_is_taken_where_no_mirror_would_run_twice(
    tmp_path: Path, has: dict[str, list[str]], limit: str, away: str
) -> None:
    assert deploy(tmp_path, has, limit, away) == ""


def test_a_deploy_looks_before_it_changes_a_host() -> None:
    plays = yaml.safe_load((ROOT / "deploy.yml").read_text())
    play = next(play for play in plays if "'moving'" in str(play.get("tasks", "")))
    assert "any_errors_fatal" not in play, "a host that does not answer would end it before it is named"
    roles = [str(play.get("roles", "")) + str(play.get("tasks", "")) for play in plays]
    looks = next(place for place, found in enumerate(roles) if "'moving'" in found)
    assert looks < next(place for place, found in enumerate(roles) if "host_tuning" in found)
