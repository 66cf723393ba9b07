"""A run holds the services of a host that it changes; another one is told by whom."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from kedge.deploy.planned import leased_services
from kedge.deploy.playbook_run import VARIABLE, ended, run_id
from plugins.module_utils import leases as leases_file
from plugins.module_utils.leases import give_back, holder, leases, renew, take
from tests.awaiting import await_that
from tests.kafka.loads import ROOT

ANN, BEN = ({"id": name, "who": f"{name}@ctl", "playbook": "deploy.yml"} for name in ("ann", "ben"))
PLAN: dict[str, Any] = {"hosts": {"rest1": {"services": {"kafka_rest": {}, "host_tuning": {}}}, "lb1": {"services": {"rest_balancer": {}}},
                  "mirror1": {"services": {"mirror_maker": {}, "host_tuning": {}}}}}  # fmt: skip


def test_a_lease_keeps_others_out_of_its_services_and_of_no_other(tmp_path: Path) -> None:
    assert take(ANN, ["kafka_rest", "host_tuning"], root=tmp_path) == {}
    theirs = take(BEN, ["mirror_maker", "host_tuning"], root=tmp_path)
    assert list(theirs) == ["host_tuning"] and theirs["host_tuning"]["run"] == ANN
    assert "mirror_maker" not in leases(tmp_path), "all or none"
    assert take(BEN, ["mirror_maker"], root=tmp_path) == {}
    assert take(ANN, ["kafka_rest"], root=tmp_path) == {}, "its own"
    assert give_back("ann", tmp_path) and not give_back("ann", tmp_path)
    assert take(BEN, ["mirror_maker", "host_tuning"], root=tmp_path) == {}


class Clocks:
    """The clocks of a host: of the day, and of a boot."""

    CLOCK_BOOTTIME = time.CLOCK_BOOTTIME

    def __init__(self, boot: Path) -> None:
        self.day, self.up = 1e9, 1000.0
        self._boot = boot
        self.reboot()

    def time(self) -> float:
        return self.day

    def clock_gettime(self, _: int) -> float:
        return self.up

    def monotonic(self) -> float:
        return self.up

    def go_on(self, seconds: float) -> None:
        self.day, self.up = self.day + seconds, self.up + seconds

    def reboot(self) -> None:
        self.up = 0.0
        self._boot.write_text(f"boot at {self.day}\n")


@pytest.fixture
def clocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Clocks:
    """Clocks for the leases of a host."""
    monkeypatch.setattr(leases_file, "BOOT", tmp_path / "boot_id")
    found = Clocks(leases_file.BOOT)
    monkeypatch.setattr(leases_file, "time", found)
    return found


def test_a_lease_ends_unless_it_is_renewed_or_its_run_has_ended(tmp_path: Path, clocks: Clocks) -> None:
    take(ANN, ["kafka_rest"], root=tmp_path)
    assert take(BEN, ["kafka_rest"], ended=["ann"], root=tmp_path) == {}
    assert not renew("ann", tmp_path)
    clocks.go_on(leases_file.LEASE_SECONDS - 1)
    assert renew("ben", tmp_path)
    clocks.go_on(leases_file.LEASE_SECONDS - 1)
    assert holder("kafka_rest", tmp_path) == "ben" and holder("kafka_rest", tmp_path, ["ben"]) == ""
    clocks.go_on(2)
    assert holder("kafka_rest", tmp_path) == ""


@pytest.mark.parametrize("step", [3600, -3600])
def test_a_lease_is_as_long_when_the_clock_of_the_host_is_set(
    tmp_path: Path, clocks: Clocks, step: float
) -> None:
    take(ANN, ["kafka_rest"], root=tmp_path)
    clocks.day += step
    assert list(take(BEN, ["kafka_rest"], root=tmp_path)) == ["kafka_rest"]
    clocks.go_on(leases_file.LEASE_SECONDS + 1)
    assert take(BEN, ["kafka_rest"], root=tmp_path) == {}


def test_a_lease_outlives_a_reboot_of_its_host(tmp_path: Path, clocks: Clocks) -> None:
    clocks.go_on(1e6)
    take(ANN, ["kafka_rest"], root=tmp_path)
    clocks.go_on(60)
    clocks.reboot()
    assert holder("kafka_rest", tmp_path) == "ann"
    clocks.go_on(leases_file.LEASE_SECONDS - 60)
    assert holder("kafka_rest", tmp_path) == ""


def test_a_file_of_leases_that_cannot_be_read_stops_a_run_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / ".lease.json").write_text("{")
    with pytest.raises(ValueError, match=r"does not say who holds the host.*delete the file, then run"):
        take(ANN, ["kafka_rest"], root=tmp_path)


@pytest.mark.parametrize(
    ("asked", "held"),
    [
        ([], {"rest1": ["host_tuning", "kafka_rest"], "lb1": ["rest_balancer"], "mirror1": ["host_tuning", "mirror_maker"]}),
        (["kafka_rest"], {"rest1": ["kafka_rest"], "lb1": ["rest_balancer"]}),
        (["mirror_maker"], {"mirror1": ["mirror_maker"]}),
        (["nonsense"], leased_services(PLAN)),
    ],
)  # fmt: skip
def test_a_run_holds_what_it_is_asked_to_change(asked: list[str], held: dict[str, list[str]]) -> None:
    assert leased_services(PLAN, asked) == held


PLAYBOOK = """
- hosts: localhost
  gather_facts: false
  tags: kafka_rest
  tasks:
    - kedge_lease: {{state: kept, hosts: [rest1], root: {root}}}
- hosts: rest1
  gather_facts: false
  tags: kafka_rest
  tasks:
    - kedge_lease: {{services: ["announced {{run}}"], root: {root}}}
    - kedge_lease: {{services: [kafka_rest], root: {root}, take_over: "{{{{ take_over | default('') }}}}"}}
    - ansible.builtin.command: {{argv: [sh, -c, "touch {root}/began; while [ ! -e {root}/go ]; do sleep 0.1; done"]}}
"""


def started(folder: Path, *more: str, name: str = "deploy.yml") -> subprocess.Popen[str]:
    """Start a playbook that holds a service until a file ``go`` is there."""
    host = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    (folder / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": {"rest1": host}}}))
    (folder / name).write_text(PLAYBOOK.format(root=folder))
    words = [str(Path(sys.executable).with_name("ansible-playbook")), "-i", str(folder / "hosts.yml"), *more]
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    return subprocess.Popen(
        [*words, str(folder / name)], cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True,
    )  # fmt: skip


@pytest.mark.process
def test_a_second_playbook_is_refused_until_the_first_has_ended_however_it_ends(tmp_path: Path) -> None:
    with started(tmp_path) as first:
        await_that(
            lambda: (tmp_path / "began").exists() or first.poll() is not None, "the first is at work", 120
        )
        assert first.poll() is None
        held: dict[str, Any] = json.loads((tmp_path / ".lease.json").read_text())["leases"]["kafka_rest"]
        with started(tmp_path, name="rollback.yml") as second:
            said, _ = second.communicate()
        assert second.returncode == 2
        assert "kafka_rest is held by" in said and "(deploy.yml, since" in said, said
        assert f"add -e take_over={held['run']['id']}" in "".join(said.split("\n")), said
        assert held["run"]["id"] == run_id(first.pid)
        assert f"announced {held['run']['id']}" in leases(tmp_path), "under a name of its own"
        with started(tmp_path, "--check", name="rollback.yml") as shown:
            said, _ = shown.communicate()
        assert shown.returncode == 0
        assert "a deploy would be refused now: kafka_rest is held by" in " ".join(said.split()), said
        # Killed, it gives back nothing itself.
        first.send_signal(signal.SIGKILL)
    assert ended(held["run"]["id"])
    await_that(lambda: leases(tmp_path) == {}, "what kept the lease has given it back", 60)
    (tmp_path / "go").touch()
    # Tags of its own do not keep it from that.
    with started(tmp_path, "--tags", "kafka_rest") as third:
        said, _ = third.communicate()
    assert third.returncode == 0, said
    await_that(lambda: leases(tmp_path) == {}, "it has given its lease back", 60)
