"""The steps in which a mirror is taken over as a whole, or given back: the role's tasks, on stubs of its modules."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.roles import ROOT, play_here

pytestmark = pytest.mark.slow

#: A stub of a module: it notes what it was asked for, and fails where it is to.
STUB = """#!/usr/bin/python
import json, os, sys
from ansible.module_utils.basic import AnsibleModule
names = "flow processes seconds state unit service instances bootstrap_servers client secrets target target_secrets"
names += " topics group offsets_topic alias own_offsets offset_reset leave_out into stopped beside"
module = AnsibleModule(argument_spec={name: {"type": "raw"} for name in names.split()}, supports_check_mode=True)
p, answers = module.params, json.loads(os.environ["ANSWERS"])
if p["processes"] is not None:
    at = "+".join(one["host"] for one in p["processes"]) or "nowhere"
    step = f"{p['state'] or 'seen'} theirs on {at}"
elif p["into"]:
    step = "positions after the stop" if p["stopped"] else "positions"
else:
    step = f"{p['state']} ours " + " ".join(one["name"] for one in p["instances"])
step = f"look: {step}" if module.check_mode else step
with open(os.environ["STEPS"], "a") as steps:
    steps.write(f"{step}\\n")
answer = answers.get(step, {})
module.fail_json(**answer) if "msg" in answer else module.exit_json(changed=True, **answer)
"""
INSTANCES = """
- name: Start
  kedge_instance:
    instances: "{{ instances_planned }}"
    state: started
"""
RUNS = {
    "processes": [{"name": "theirs.service", "there": True, "runs": True, "mains": []}],
    "ours": [],
    "taking": False,
}
ENDED: dict[str, Any] = {"processes": [], "ours": ["leaf-agg-0"], "taking": False}
FLOW = {
    **{
        "flow": "leaf-agg",
        "kind": "classic",
        "source": "leaf",
        "target": "agg",
        "topics": ["t"],
        "group": "theirs",
    },
    **{
        "into": "mirror-maker-leaf-agg",
        "offsets_topic": "",
        "own_offsets": "",
        "offset_reset": "",
        "leave_out": [],
        "beside": [],
    },
    "processes": [{"host": "m1", "unit": "theirs.service"}, {"host": "m2", "unit": "theirs.service"}],
}
LOOKED = ["look: seen theirs on m1", "look: seen theirs on m2"]
POSITIONS = ["look: positions"]


def played(tmp_path: Path, answers: dict[str, Any]) -> tuple[list[str], str]:
    """Play the look and the role's take over on two hosts; return the steps, and what failed, if anything."""
    answers = {"look: seen theirs on m1": RUNS, "look: seen theirs on m2": RUNS} | answers
    for name in ("kedge_predecessor", "kafka_mirror_positions", "kedge_instance"):
        (tmp_path / "library").mkdir(exist_ok=True)
        (tmp_path / "library" / f"{name}.py").write_text(STUB)
    (tmp_path / "roles" / "instances" / "tasks").mkdir(parents=True)
    (tmp_path / "roles" / "instances" / "tasks" / "main.yml").write_text(INSTANCES)
    hosts = {
        f"m{n}": {
            "services": {"mirror_maker": {"instances": [{"name": f"leaf-agg-{n - 1}", "settings": []}]}}
        }
        for n in (1, 2)
    }
    clusters = {name: {"bootstrap_servers": f"{name}:9092", "client": {}} for name in ("leaf", "agg")}
    made = {
        "plan": {"hosts": hosts, "clusters": clusters, "adopting": [FLOW], "flows": {}},
        "secrets": {"clusters": {"leaf": {}, "agg": {}}},
    }
    role = {"mirror_maker_kind": "classic", "mirror_maker_flows": {}}
    inventory = {
        "all": {
            "hosts": {"localhost": {"plan_made": made}, "m1": role, "m2": role},
            "vars": {"ansible_connection": "local", "ansible_python_interpreter": sys.executable},
        }
    }

    def play(on: str, *tasks: str) -> dict[str, Any]:
        included = [{"include_role": {"name": "mirror_maker", "tasks_from": one}} for one in tasks]
        return {"hosts": on, "gather_facts": False, "any_errors_fatal": True, "tasks": included}

    plays = [play("localhost", "adopting", "adoptable"), play("m1,m2", "take_over")]
    done = play_here(
        tmp_path,
        plays,
        inventory,
        ANSIBLE_ROLES_PATH=f"{tmp_path / 'roles'}:{ROOT / 'roles'}",
        ANSIBLE_LIBRARY=f"{tmp_path / 'library'}:{ROOT / 'plugins' / 'modules'}",
        ANSWERS=json.dumps(answers),
        STEPS=str(tmp_path / "steps"),
    )
    steps = (tmp_path / "steps").read_text().splitlines()
    return steps, " ".join(done.stdout.split()) if done.returncode else ""


def test_all_processes_stop_before_the_first_of_ours_starts_at_their_positions(tmp_path: Path) -> None:
    steps, failed = played(tmp_path, {})
    assert failed == ""
    taken = ["positions", "stopped theirs on m1", "stopped theirs on m2", "positions after the stop"]
    assert steps[:7] == [*LOOKED, *POSITIONS, *taken]
    assert sorted(steps[7:9]) == ["started ours leaf-agg-0", "started ours leaf-agg-1"]
    assert steps[9:] == ["left theirs on m1", "left theirs on m2"]


@pytest.mark.parametrize(
    "at", ["positions", "stopped theirs on m2", "positions after the stop", "started ours leaf-agg-1"]
)
def test_wherever_it_fails_ours_go_on_all_hosts_before_theirs_start_again(tmp_path: Path, at: str) -> None:
    steps, failed = played(tmp_path, {at: {"msg": "what went wrong"}})
    assert (
        "Flow leaf-agg: not taken over: what went wrong. No process of the flow was left here. What mirrored before runs again"
        in failed
    )
    assert sorted(steps[-4:-2]) == ["absent ours leaf-agg-0", "absent ours leaf-agg-1"]
    assert steps[-2:] == ["started theirs on m1", "started theirs on m2"]
    assert not any(step.startswith("left") for step in steps)


def test_where_theirs_do_not_start_again_nobody_mirrors_and_the_message_says_so(tmp_path: Path) -> None:
    answers = {"started ours leaf-agg-0": {"msg": "no"}, "started theirs on m1": {"msg": "start it by hand"}}
    steps, failed = played(tmp_path, answers)
    assert (
        "not taken over: no. No process of the flow was left here. Nobody mirrors: start it by hand" in failed
    )
    assert steps[-1] == "started theirs on m2"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"look: positions": {"refused": "group theirs has no committed position"}}, "no committed position. Nothing"),
        ({"look: seen theirs on m2": {"msg": "no way in"}}, "m2 does not say what runs there: no way in. Nothing"),
        ({"look: seen theirs on m2": ENDED}, "run together and copy every record twice"),
    ],
)  # fmt: skip
def test_what_is_refused_is_refused_before_the_first_change(
    tmp_path: Path, answer: dict[str, Any], said: str
) -> None:
    steps, failed = played(tmp_path, answer)
    assert said in failed
    assert all(step.startswith("look: ") for step in steps)


def test_a_take_over_that_was_killed_after_ours_started_goes_on_without_its_positions(tmp_path: Path) -> None:
    began = ENDED | {"taking": True}
    stopped = {"processes": [], "ours": [], "taking": True}
    steps, failed = played(tmp_path, {"look: seen theirs on m1": began, "look: seen theirs on m2": stopped})
    assert failed == ""
    assert not any("positions" in step for step in steps)
    assert steps[-1] == "left theirs on m2"
