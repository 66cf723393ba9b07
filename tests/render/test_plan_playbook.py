"""plan.yml on hosts that nobody can reach: the plan and its findings are printed all the same."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from kedge.plan_command import main
from plugins.action import kedge_reachable

pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parents[2]
PLAYBOOK = str(Path(sys.executable).with_name("ansible-playbook"))

# Port 1 of loopback takes no connection.
INVENTORY = """
all:
  children:
    kafka_rest:
      hosts:
        rest1: {ansible_host: 127.0.0.2}
        rest2: {ansible_host: 127.0.0.3}
    streams_app:
      hosts:
        streams1:
          ansible_host: 127.0.0.4
          streams_app_name: joins
          streams_app_main_class: example.Joins
          streams_app_jars: [{path: joins.jar}]
          streams_app_version: 4.3.1
          streams_app_cluster: leaf
          streams_app_stores: [{name: j, kind: key_value, count: 1, partitions: 6, keys: 1000}]
  vars:
    ansible_port: 1
    host_cores: 16
    host_memory_mib: 32768
    kafka_clusters: {leaf: {version: 4.3.1, bootstrap_servers: "127.0.0.1:1", broker_count: 1}}
    kafka_topics: [{name: orders, cluster: leaf, partitions: 6, replication: 1}]
    kafka_rest_distribution: confluent
    kafka_rest_version: 8.3.1
    kafka_rest_cluster: leaf
    kafka_rest_ready_topic: orders
    kafka_rest_archive: /nowhere/confluent.tar.gz
    kafka_rest_archive_checksum: "a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1"
"""


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    path = tmp_path / "hosts.yml"
    path.write_text(INVENTORY)
    return path


def play(inventory: Path, *arguments: str, playbook: str = "plan.yml") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [PLAYBOOK, "-i", str(inventory), playbook, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "ANSIBLE_NOCOLOR": "1"},
        check=False,
    )


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> subprocess.CompletedProcess[str]:
    """Return what plan.yml prints, of an inventory with a key over a merged one."""
    path = tmp_path_factory.mktemp("played") / "hosts.yml"
    path.write_text(f"{INVENTORY}    one: &one {{a: 1}}\n    both:\n      <<: *one\n      a: 3\n")
    return play(path)


def test_hosts_and_clusters_out_of_reach_are_one_line_each_and_no_failure(
    played: subprocess.CompletedProcess[str],
) -> None:
    done = played
    assert done.returncode == 0, done.stdout + done.stderr
    assert "duplicate" not in done.stdout + done.stderr
    after = done.stdout.partition("What a deploy would change")[2].partition("PLAY RECAP")[0].splitlines()
    assert "rest[1-2], streams1  cannot be reached: port 1: Connection refused" in after
    assert any(x.startswith("cluster leaf  cannot be reached") and "refused" in x for x in after)
    assert "UNREACHABLE" not in done.stdout + done.stderr


def test_exit_code_ends_unsuccessfully_where_not_all_is_as_planned_and_says_so_in_a_line(
    inventory: Path,
) -> None:
    done = play(inventory, "-e", "exit_code=true")
    assert done.returncode == 2, done.stdout + done.stderr
    said = " ".join(done.stdout.split())
    assert "exit_code: rest[1-2], streams1, topics of leaf could not be compared. Nothing went wrong" in said


def test_what_is_compared_follows_from_the_roles_that_can(inventory: Path, tmp_path: Path) -> None:
    for role, file in (("a", "drift.yml"), ("b", "main.yml")):
        (tmp_path / "roles" / role / "tasks").mkdir(parents=True)
        (tmp_path / "roles" / role / "tasks" / file).touch()
    assert kedge_reachable.comparing_roles(tmp_path / "roles") == {"a"}
    assert kedge_reachable.comparing_roles(ROOT / "roles") >= {"kafka_broker", "kafka_rest"}
    why = {service: kedge_reachable._why_not(service) for service in ("mapr_streams", "packages")}
    assert why == {"mapr_streams": "no role deploys it", "packages": "roles/packages has no tasks/drift.yml"}


@pytest.mark.parametrize(
    ("way", "why"),
    [
        (["-p", "1", "127.0.0.1"], "port 1: Connection refused"),
        (["-o", "ProxyJump=bastion", "-p", "1", "127.0.0.1"], None),
        (["-o", "ProxyCommand=nc %h %p", "-p", "1", "127.0.0.1"], None),
        (None, None),
    ],
)
def test_only_a_host_that_surely_takes_no_connection_is_left_out(
    way: list[str] | None, why: str | None
) -> None:
    assert kedge_reachable.unanswered(way) == why


def test_a_host_that_listens_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        assert kedge_reachable.unanswered(["-o", f"Port={port}", "127.0.0.1"]) is None


def test_the_plan_is_that_of_the_command(inventory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for group, version in (("kafka_rest", 17), ("near", 21)):
        variables = inventory.parent / "group_vars" / f"{group}.yml"
        variables.parent.mkdir(exist_ok=True)
        variables.write_text(f"java_version: {version}\n")
    with_group = "  children:\n    near: {hosts: {rest1: }}\n"
    inventory.write_text(inventory.read_text().replace("  children:\n", with_group, 1))
    done = play(inventory, "-e", "plan_diff=false")
    assert main(["-i", str(inventory)]) == 0
    assert capsys.readouterr().out.strip() in done.stdout
    assert "warning: rest1: java_version (inventory.groups)" in done.stdout
    assert "What a deploy would change" not in done.stdout


def test_advice_recommendations_and_v_are_given_to_the_playbook(
    inventory: Path, played: subprocess.CompletedProcess[str], tmp_path: Path
) -> None:
    recommended = tmp_path / "recommendations.yml"
    recommended.write_text("recommended: {kafka_rest_heap_mib: 3000}\n")
    more = ("-e", "advice=documented", "-e", f"@{recommended}", "-v")
    full = play(inventory, "-e", "plan_diff=false", *more).stdout
    assert "-XX:G1HeapRegionSize=16M" in full
    assert "-Xmx3000m" in full
    assert "kafka_rest_heap_mib: not set -> 3000" in full
    # Every instance is spelled out, and nothing else is.
    assert played.stdout.count("  id=") < full.count("  id=")
    assert "archive_files" not in full


def test_an_error_is_printed_and_fails_before_any_host_is_asked(inventory: Path) -> None:
    done = play(inventory, "-e", "kafka_rest_instances_per_host=-1")
    assert done.returncode != 0
    assert "kafka_rest_instances_per_host" in done.stdout
    assert "no host was touched" in done.stdout + done.stderr
    assert "What a deploy would change" not in done.stdout
    assert "rest1" not in done.stdout.partition("PLAY RECAP")[2]


def test_a_key_written_twice_is_an_error_and_not_the_last_value(inventory: Path) -> None:
    inventory.write_text(inventory.read_text() + "\nall:\n  hosts: {}\n")
    done = play(inventory)
    assert done.returncode != 0
    assert "all is here a second time" in done.stdout + done.stderr


def test_variables_that_are_no_yaml_are_told_with_their_file_and_line(inventory: Path) -> None:
    broken = inventory.parent / "group_vars" / "kafka_rest.yml"
    broken.parent.mkdir()
    broken.write_text("kafka_rest_settings:\n  - a\n  b: 1\n")
    done = play(inventory)
    assert done.returncode != 0
    assert f"{broken}:3:3: no YAML: " in done.stderr


@pytest.mark.parametrize("playbook", ["deploy.yml", "rolling_restart.yml", "verify.yml"])
def test_other_playbooks_plan_without_printing_and_stop_at_an_error(inventory: Path, playbook: str) -> None:
    done = play(inventory, "-e", "kafka_rest_instances_per_host=-1", playbook=playbook)
    assert done.returncode != 0
    assert "kafka_rest_instances_per_host" in done.stdout + done.stderr
    assert "/etc/streams-app" not in done.stdout
    assert "rest1" not in done.stdout.partition("PLAY RECAP")[2]


def test_trials_without_a_level_to_judge_by_say_which_one_is_missing_in_a_line() -> None:
    done = play(ROOT / "inventories" / "local", "--check", playbook="capacity.yml")
    assert done.returncode == 2
    message = done.stdout.partition("msg:")[2].partition("rc:")[0]
    assert "service_levels.latency.rest.ack_p99_ms is missing" in " ".join(message.split())
    # Not behind all the settings that the command was given.
    assert len(message) < 1000


LOCAL = """
- hosts: localhost
  connection: local
  gather_facts: false
  tasks: [{ansible.builtin.ping: {}}]
- hosts: rest1
  gather_facts: false
  tasks: [{ansible.builtin.ping: {}, delegate_to: localhost}]
"""


def test_the_control_machine_is_worked_on_as_itself_whatever_the_inventory_says(
    inventory: Path, tmp_path: Path
) -> None:
    """Many inventories have a line of localhost, or ``ansible_become`` for all."""
    line = "all:\n  hosts:\n    localhost: {ansible_connection: ssh, ansible_python_interpreter: /nowhere/python3}"
    text = INVENTORY.replace("all:", line, 1)
    inventory.write_text(f"{text}    ansible_become: true\n    ansible_become_exe: /nowhere/sudo\n")
    (tmp_path / "local.yml").write_text(LOCAL)
    done = play(inventory, playbook=str(tmp_path / "local.yml"))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("playbook", "arguments", "said"),
    [
        (
            "deploy.yml",
            ("--tags", "kafka_rest,bogus"),
            "deploy.yml has no tag bogus. No host was touched. It has canary, host_tuning,",
        ),
        (
            "reboot.yml",
            ("--tags", "x"),
            "reboot.yml has no tag x. No host was touched. Run it without: docs/reference.md lists the",
        ),
        (
            "verify.yml",
            ("--check",),
            "verify.yml has no check mode. Nothing was sent and nothing was restarted.",
        ),
    ],
)
def test_what_would_do_nothing_and_end_well_is_refused(
    inventory: Path, playbook: str, arguments: tuple[str, ...], said: str
) -> None:
    done = play(inventory, *arguments, playbook=playbook)
    assert done.returncode, done.stdout
    assert said in " ".join((done.stdout + done.stderr).split())


def test_java_alone_says_what_it_lacks(inventory: Path, tmp_path: Path) -> None:
    play_of_java = "- {hosts: rest1, gather_facts: false, connection: local, roles: [java]}\n"
    (tmp_path / "java.yml").write_text(play_of_java)
    done = play(inventory, playbook=str(tmp_path / "java.yml"))
    assert done.returncode, done.stdout
    assert "Set java_version, or import deploy.yml in place of the role." in " ".join(done.stdout.split())


def test_tags_that_a_playbook_has_are_taken(inventory: Path) -> None:
    tags = "topics,kafka_rest,rest_balancer,untagged,all"
    done = play(inventory, "--tags", tags, "--list-tasks", playbook="deploy.yml")
    assert "has no tag" not in done.stdout + done.stderr
