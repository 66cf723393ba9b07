"""What is taken over from somebody else: who is accepted, who is stopped, and who serves in the end."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kedge.deploy.deploy_steps import step_lines, steps
from kedge.deploy.drift import describe, lines_of
from kedge.deploy.occupying import occupying
from kedge.deploy.planned import adopted
from kedge.plan.document import planned_instances
from kedge.services.planning import make_plan
from kedge.services.rest.notices import turning_tls
from plugins.module_utils import predecessor
from plugins.modules import kedge_instance, kedge_occupied, kedge_release
from tests.instance_units import instance_unit
from tests.rest_inventories import of_rule, rest
from tests.unit.test_occupied import MAIN, found, running

UNIT = {"port": 8082, "unit": "theirs.service"}
OTHER = {"url": "http://lb:80", "sticky": True}
COMMANDS = {"port": 8082, "holder": "/usr/bin/docker-proxy", "stop": ["stop", "it"], "start": ["start", "it"]}


def planned(*entries: dict[str, Any], **role: Any) -> Any:
    return make_plan(rest(adopt=list(entries), instances_per_host=2, **role))


@pytest.mark.parametrize("entry", [UNIT, COMMANDS])
def test_what_is_taken_over_is_in_the_plan_of_its_instance_alone(entry: dict[str, Any]) -> None:
    plan = planned(entry)
    assert not plan.has_errors
    assert adopted(planned_instances(plan.to_json(), "rest1", "kafka_rest")) == {"8082": entry}
    (taken,) = occupying(plan.to_json(), "rest1")
    assert [one.get("adopt") for one in taken["instances"]] == [entry, None]


@pytest.mark.parametrize(
    ("entries", "name", "said", "fix"),
    [
        ([{"port": 8082}], "adopt[0].holder", "no unit is named", "name the predecessor's unit"),
        ([UNIT | {"stop": ["x"]}], "adopt[0].stop", "beside unit", "name the unit alone"),
        ([COMMANDS | {"start": []}], "adopt[0].start", "is missing", "give holder, stop and start"),
        ([UNIT | {"unit": "theirs"}], "adopt[0].unit", "'theirs'", "confluent-kafka-rest.service"),
        ([UNIT | {"unit": "a;b.service"}], "adopt[0].unit", "'a;b.service'", "the unit's name"),
        ([UNIT | {"unit": "kafka-rest@8082.service"}], "adopt[0].unit", "takes over", "its predecessor"),
        ([UNIT, UNIT | {"unit": "b.service"}], "adopt", "port 8082 is in two", "once"),
        ([UNIT, UNIT | {"port": 8083}], "adopt", "unit theirs.service is in two", "once"),
        ([UNIT | {"port": "8082"}], "adopt[0].port", "'8082'", "without quotes"),
        ([UNIT | {"unti": "x"}], "adopt[0].unti", "is not known", "did you mean kafka_rest_adopt[0].unit?"),
        ("theirs.service", "adopt", "'theirs.service'", "write a list"),
        ([UNIT | {"port": 8092}], "adopt[0].port", "8092, where no instance is planned: this host has 8082, 8083",
         "kafka_rest_first_port"),
    ],
)  # fmt: skip
def test_an_entry_that_names_nothing_to_take_over_is_an_error(
    entries: Any, name: str, said: str, fix: str
) -> None:
    plan = make_plan(rest(adopt=entries, instances_per_host=2))
    errors = of_rule(plan, "inventory.variable", "error")
    assert [e.where for e in errors] == [f"rest1: kafka_rest_{name}"]
    assert said in errors[0].message
    assert fix in errors[0].fix


@pytest.mark.parametrize(
    ("role", "groups", "warned"),
    [
        ({}, {}, True),
        ({"balancer": OTHER}, {}, True),
        ({"balancer": OTHER | {"drain": ["lb", "{port}"], "undrain": ["lb", "{port}"]}}, {}, False),
        ({}, {"rest_balancer": ("lb1",)}, False),
    ],
)
def test_a_take_over_that_nothing_drains_is_warned_of(
    role: dict[str, Any], groups: dict[str, Any], warned: bool
) -> None:
    plan = make_plan(rest(adopt=[UNIT], groups=groups, **role))
    assert bool(of_rule(plan, "rest.adopt", "warning")) is warned
    assert not of_rule(make_plan(rest(groups=groups, **role)), "rest.adopt")


def test_an_entry_whose_port_moved_away_is_an_error() -> None:
    (error,) = of_rule(planned(UNIT, first_port=9082), "inventory.variable", "error")
    assert "is 8082, where no instance is planned: this host has 9082, 9083" in error.message


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A host's folders of ours, empty."""
    for name in ("ROOT", "ETC", "UNITS"):
        (tmp_path / name.lower()).mkdir()
    monkeypatch.setattr(kedge_occupied, "ROOT", tmp_path / "root")
    monkeypatch.setattr(kedge_occupied, "ETC", tmp_path / "etc")
    monkeypatch.setattr(kedge_occupied, "UNITS", (tmp_path / "units",))
    return tmp_path


@pytest.fixture
def theirs(tmp_path: Path) -> Iterator[tuple[str, int]]:
    """A stub of somebody else's proxy that listens. Its id and port."""
    with running(tmp_path, MAIN, "/etc/theirs.properties") as process:
        assert process.stdout
        yield str(process.pid), int(process.stdout.readline())


def run_by(monkeypatch: pytest.MonkeyPatch, pid: str, unit: str) -> None:
    """Have a process be one of a unit, for all that asks."""
    for module in (predecessor, kedge_occupied, sys.modules[kedge_occupied.belongs.__module__]):
        monkeypatch.setattr(module, "unit_of", lambda of: unit if of == pid else "")


@pytest.mark.process
@pytest.mark.parametrize(
    ("unit", "accepted"), [("theirs.service", True), ("others.service", False), ("", False)]
)
def test_the_port_is_free_for_an_instance_where_the_named_unit_holds_it_and_nobody_else(
    host: Path, theirs: tuple[str, int], monkeypatch: pytest.MonkeyPatch, unit: str, accepted: bool
) -> None:
    pid, port = theirs
    run_by(monkeypatch, pid, unit)
    instances = [{"name": "8082", "port": port, "adopt": {"port": port, "unit": "theirs.service"}}]
    of_it = [said for said in found(instances=instances, mains=[MAIN]) if f"process {pid} " in said]
    assert bool(of_it) is not accepted
    if not accepted:
        assert of_it[0].startswith(f"port {port} of kafka-rest@8082 is held by process {pid}")


@pytest.mark.process
def test_one_without_a_unit_is_accepted_by_an_argument_of_its_command_line(
    host: Path, theirs: tuple[str, int]
) -> None:
    pid, port = theirs

    def said(holder: str) -> list[str]:
        named = {"port": port, "holder": holder}
        instances = [{"name": "8082", "port": port, "adopt": named}]
        return [line for line in found(instances=instances, mains=[MAIN]) if f"process {pid} " in line]

    assert said("/etc/theirs.properties") == []
    assert len(said("theirs.properties")) == 1


@pytest.mark.process
def test_a_predecessor_that_runs_on_another_port_is_in_the_way(
    host: Path, theirs: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_by(monkeypatch, theirs[0], "theirs.service")
    runs = {"theirs.service"}
    monkeypatch.setattr(kedge_occupied, "is_active", lambda unit, _: unit in runs)
    instances = [{"name": "1", "port": 1, "adopt": {"port": 1, "unit": "theirs.service"}}]
    said = (
        "theirs.service runs, from which kafka-rest@1 takes over (kafka_rest_adopt), and does not hold port 1"
    )
    assert found(instances=instances) == [said]
    runs.clear()  # taken over, or never there
    assert found(instances=instances) == []


class Host:
    """A stub of a host's units: which run, and what is done to them."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.up = {"theirs.service"}
        self.did: list[str] = []
        self.refused: set[str] = set()
        self.answers = {"theirs.service", "kafka-rest@8082.service"}
        self.warned: list[str] = []
        self.home = folder / "kafka-rest" / "8082"
        (self.home / "releases" / "new").mkdir(parents=True)
        (self.home / "releases" / "new" / "unit.service").write_text("")
        self.link = folder / "in-force"
        monkeypatch.setattr(kedge_instance, "ROOT", folder)
        for module in (kedge_instance, kedge_instance.way_back):
            monkeypatch.setattr(module, "SYSTEMD", folder)
            monkeypatch.setattr(module, "systemctl", self.done)
            monkeypatch.setattr(module, "act", lambda what, unit, _: self.done(what, unit))
        monkeypatch.setattr(kedge_instance, "PROBE_SECONDS", 0.001)
        monkeypatch.setattr(kedge_instance.takeover, "POLL_SECONDS", 0.001)
        monkeypatch.setattr(kedge_instance.takeover, "systemctl", self.done)
        monkeypatch.setattr(
            kedge_instance.takeover.predecessor, "run", lambda *words, **_: self.done(*words[1:])
        )
        monkeypatch.setattr(
            kedge_instance.takeover.predecessor, "serves", lambda adopted: adopted["unit"] in self.up
        )
        monkeypatch.setattr(kedge_instance.InstanceUnit, "journal", lambda _: "its last words")
        monkeypatch.setattr(kedge_instance.InstanceUnit, "put_in_force", lambda *_: self.link.touch())
        monkeypatch.setitem(kedge_instance.PROBES, "none", lambda _: self.probe())

    def probe(self) -> str | None:
        return None if self.up & self.answers else "nobody answers"

    def done(self, what: str, *words: str) -> subprocess.CompletedProcess[str]:
        unit = words[-1]
        refused = f"{what} {unit}" in self.refused
        if what in ("start", "stop", "enable", "disable"):
            self.did.append(f"{what} {unit}")
            if not refused and what == "start":
                self.up.add(unit)
            if not refused and what == "stop":
                self.up.discard(unit)
        ended = what == "is-active" and unit not in self.up
        return subprocess.CompletedProcess((), int(refused or ended), "", "refused" if refused else "")

    def run(
        self, state: str = "restarted", release: str | None = "new"
    ) -> tuple[str | None, kedge_instance.InstanceUnit]:
        adopts = {"8082": UNIT}
        instance = instance_unit(
            "8082", release, self.warned.append, adopts=adopts, ready_seconds=0.05, state=state
        )
        instance.link = self.link
        return (instance.back if state == "back" else instance.run)(), instance


@pytest.fixture
def unit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    return Host(tmp_path, monkeypatch)


OURS = "kafka-rest@8082.service"


def test_a_predecessor_stops_before_the_instance_starts_and_is_disabled_when_it_is_ready(unit: Host) -> None:
    wrong, instance = unit.run()
    assert wrong is None
    assert unit.did == [
        "stop theirs.service",
        f"start {OURS}",
        f"enable {OURS}",
        "disable theirs.service",
    ]
    assert unit.up == {OURS}
    assert [(a["action"], a["ok"]) for a in instance.actions] == [
        ("stop", True),
        ("start", True),
        ("ready", True),
    ]
    assert sorted(path.name for path in unit.home.iterdir()) == ["good", "releases", "running", "started"]


def test_what_was_taken_over_is_restarted_as_any_other(unit: Host) -> None:
    unit.run()
    unit.did.clear()
    wrong, _ = unit.run()
    assert wrong is None
    assert unit.did == [f"stop {OURS}", f"start {OURS}", f"enable {OURS}"]


def test_where_the_instance_does_not_become_ready_its_predecessor_serves_again(unit: Host) -> None:
    unit.answers.discard(OURS)
    wrong, _ = unit.run()
    assert unit.up == {"theirs.service"}
    assert unit.did[-3:] == [f"stop {OURS}", f"disable {OURS}", "start theirs.service"]
    assert not unit.link.exists()
    assert "disable theirs.service" not in unit.did
    assert wrong == (
        "not ready after 0.1 s: nobody answers; theirs.service runs and serves on port 8082 as before. "
        f"{kedge_instance.NEXT}\nits journal ends with:\nits last words"
    )
    assert not (unit.home / "predecessor").exists()


def test_a_predecessor_that_cannot_be_stopped_serves_and_nothing_else_starts(unit: Host) -> None:
    unit.refused.add("stop theirs.service")
    wrong, _ = unit.run()
    assert f"start {OURS}" not in unit.did
    assert unit.up == {"theirs.service"}
    assert wrong == (
        "theirs.service, from which it takes over, cannot be stopped: refused; theirs.service runs and serves on "
        f"port 8082 as before. {kedge_instance.NEXT}"
    )


def test_a_predecessor_that_does_not_start_again_is_named_with_the_command_to_type(unit: Host) -> None:
    unit.answers.discard(OURS)
    unit.refused.add("start theirs.service")
    wrong, _ = unit.run()
    assert "Nobody serves there: start it by hand on this host (`systemctl start theirs.service`)" in str(
        wrong
    )
    # The next deploy knows still that there is one to give back.
    assert (unit.home / "predecessor").exists()


def test_a_predecessor_has_to_answer_again_only_where_it_answered_before(unit: Host) -> None:
    unit.answers.clear()  # it speaks TLS, or asks for a login
    wrong, _ = unit.run()
    assert "theirs.service runs and serves on port 8082 as before" in str(wrong)


def test_a_deploy_that_was_killed_in_between_is_gone_on_with_and_gives_back_too(unit: Host) -> None:
    unit.up.clear()
    (unit.home / "predecessor").write_text("")
    unit.answers.discard(OURS)
    wrong, _ = unit.run("started")
    assert "theirs.service runs and serves" in str(wrong)
    assert unit.up == {"theirs.service"}
    unit.answers.add(OURS)
    unit.up.clear()
    (unit.home / "predecessor").write_text("")
    assert unit.run("started")[0] is None
    assert unit.did[-1] == "disable theirs.service"


def test_a_predecessor_that_somebody_started_again_is_what_serves_after_a_failure(unit: Host) -> None:
    assert unit.run()[0] is None
    unit.up = {"theirs.service"}
    unit.answers.discard(OURS)
    wrong, _ = unit.run()
    assert "theirs.service runs and serves" in str(wrong)


def test_an_instance_that_fails_its_soak_goes_out_for_its_predecessor(unit: Host) -> None:
    wrong, instance = unit.run()
    assert (wrong, instance.former) == (None, "predecessor")
    unit.did.clear()
    assert unit.run("back", release=instance.former)[0] is None
    assert unit.did == [f"stop {OURS}", f"disable {OURS}", "start theirs.service", "enable theirs.service"]
    assert unit.up == {"theirs.service"}
    assert not unit.link.exists()
    # The next deploy takes over again, as the first did.
    assert sorted(path.name for path in unit.home.iterdir()) == ["releases", "started"]
    assert unit.run()[1].former == "predecessor"


def test_a_unit_that_cannot_be_disabled_is_warned_of(unit: Host) -> None:
    unit.refused.add("disable theirs.service")
    assert unit.run()[0] is None
    assert unit.warned == [
        "theirs.service was taken over and cannot be disabled: refused. See that nothing starts it with the host"
    ]


@pytest.mark.process
def test_commands_stop_and_start_what_has_no_unit(tmp_path: Path) -> None:
    named = {
        "port": 8082,
        "holder": "x",
        "stop": ["touch", f"{tmp_path}/stopped"],
        "start": ["no-such-program"],
    }
    assert predecessor.stop(named).returncode == 0
    assert (tmp_path / "stopped").exists()
    assert predecessor.start(named).returncode == 127
    assert predecessor.disable(named) is None
    assert (predecessor.name_of(named), predecessor.by_hand(named)) == ("x", "no-such-program")


@pytest.mark.parametrize("serves", [True, False])
def test_an_instance_whose_predecessor_serves_is_restarted_and_not_started_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, serves: bool
) -> None:
    monkeypatch.setattr(kedge_release, "ROOT", tmp_path)
    monkeypatch.setattr(kedge_release, "KEY", tmp_path / ".key")
    monkeypatch.setattr(kedge_release, "serves", lambda _: serves)
    monkeypatch.setattr(kedge_release, "is_active", lambda *_: False)
    monkeypatch.setattr(kedge_release, "current", lambda *_: None)
    monkeypatch.setattr(kedge_release, "install_units", lambda _: [])
    instance = {"name": "8082", "files": {}, "links": {}}
    params = {"unit": "kafka-rest", "controls": {}, "adopts": {"8082": UNIT}, "instances": [instance]}
    params |= {"secrets": {}, "keep_releases": 5, "kit": ""}
    answer = kedge_release.stage_all(SimpleNamespace(params=params, check_mode=True), 0)
    assert answer["restart"] == (["8082"] if serves else [])
    assert answer["instances"][0]["active"] is serves
    assert answer["instances"][0]["predecessor"] == ("theirs.service" if serves else "")
    planned = [{"name": "8082", "port": 8082, "settings": [], "software": {"tls": True}}]
    assert turning_tls(answer, planned) == []
    said = describe(answer, "kafka-rest", planned)
    lines = lines_of({"kafka_rest": said}, ["kafka_rest"], {})
    if serves:
        assert lines == [
            "kafka_rest@8082: a deploy would take it over",
            "  from theirs.service, which holds its port now",
        ]
    else:
        assert lines == ["kafka_rest@8082: not deployed yet; a deploy would start it"]


def test_a_take_over_is_a_step_behind_the_gates_after_the_balancers_know_the_instance() -> None:
    states = {
        "rest1": {"kafka_rest": {"instances": {"8082": {"state": "adopt"}}}},
        "lb1": {"rest_balancer": {"instances": {"haproxy": {"state": "new"}}}},
    }
    said = step_lines(steps(states))
    assert said[0] == "1. rest_balancer: start: lb1 haproxy"
    assert said[1].startswith("2. kafka_rest: take over from what runs there, behind the gates")
    assert "clients notice: a rebalance" in said[2]
