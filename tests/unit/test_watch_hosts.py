"""What a host says about its processes becomes evidence."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from kedge.evidence.border.untrusted import UntrustedError
from kedge.evidence.writing import write_json
from plugins.modules import haproxy_drain
from tests.awaiting import await_that
from verify.collect.hosts import to_access
from verify.watch import host_sampler, host_watcher
from verify.watch.host_watcher import HostWatcher, ended, main, planned_units, rows, ssh_command, watched

UNITS = {"kafka-rest@8082": ("kafka_rest", "8082"), "kafka-rest@8083": ("kafka_rest", "8083")}
LIMIT_S = 20


def line(*units: list[Any]) -> bytes:
    return json.dumps({"units": list(units), "host": [9, 3, 4, 1, None, 2], "links": []}).encode()


def plan(**services: list[str]) -> dict[str, Any]:
    return {
        "hosts": {
            "rest1": {
                "services": {
                    service: {"instances": [{"name": name, "settings": []} for name in names]}
                    for service, names in services.items()
                }
            }
        }
    }


@pytest.fixture
def systemctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stands in for systemd, which this machine may not run: prints what the file beside it holds."""
    shown = tmp_path / "shown"
    shown.write_text(
        f"MainPID={os.getpid()}\nId=kafka-rest@8082.service\n\nMainPID=0\nId=kafka-rest@8083.service\n"
    )
    command = tmp_path / "bin" / "systemctl"
    command.parent.mkdir()
    command.write_text(f"#!/bin/sh\ncat {shown}\n")
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{command.parent}:{os.environ['PATH']}")
    return shown


def test_units_are_those_of_planned_processes() -> None:
    planned = plan(
        kafka_rest=["8082", "8083"], streams_app=["a"], host_tuning=["host"], rest_balancer=["haproxy"]
    )
    assert planned_units(planned) == {"rest1": {**UNITS, "streams-app@a": ("streams_app", "a")}}
    assert planned_units(plan(host_tuning=["host"])) == {}


def test_hosts_that_make_the_load_are_sampled_too(tmp_path: Path) -> None:
    write_json(tmp_path / "plan.json", plan(kafka_rest=["8082", "8083"]))
    write_json(tmp_path / "load.json", {"generators": ["load1", "rest1"]})
    assert watched(tmp_path) == {"load1": {}, "rest1": UNITS}
    assert host_sampler.main_pids([]) == {}


def test_sample_tells_memory_cpu_time_and_open_files_of_a_process(tmp_path: Path) -> None:
    before = host_sampler.sample("u", os.getpid())
    kept = b"x" * 64_000_000
    spun = time.process_time()
    while time.process_time() - spun < 0.1:
        pass
    with (tmp_path / "a").open("w"), (tmp_path / "b").open("w"):
        after = host_sampler.sample("u", os.getpid())
    assert after[2] - before[2] > len(kept) // 2
    assert after[3] - before[3] >= 50_000
    assert after[4] - before[4] == 2
    assert abs(after[1] - time.time_ns() // 1000) < LIMIT_S * 1_000_000


@pytest.mark.process
@pytest.mark.usefixtures("systemctl")
def test_unit_without_a_process_has_no_sample() -> None:
    assert host_sampler.main_pids(list(UNITS)) == {"kafka-rest@8082": os.getpid()}
    assert host_sampler.main_pids(["kafka-rest@8083"]) == {}


@pytest.mark.process
def test_process_that_ends_while_it_is_looked_at_ends_nothing(systemctl: Path) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    systemctl.write_text(f"MainPID={gone.pid}\nId=kafka-rest@8082.service\n")
    command = [sys.executable, host_sampler.__file__, *UNITS]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        assert json.loads(program.stdout.readline())["units"] == []
        program.terminate()


@pytest.mark.process
@pytest.mark.usefixtures("systemctl")
def test_program_ends_once_nobody_reads_it() -> None:
    command = [sys.executable, host_sampler.__file__, *UNITS]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as program:
        assert program.stdout is not None
        program.stdout.readline()
        program.stdout.close()
        assert program.wait(LIMIT_S) != 0


def test_line_becomes_a_row_for_each_process() -> None:
    found = rows("rest1", UNITS, line(["kafka-rest@8083", 5, 6, 7, 8]))
    (row,), of_host = found["processes"], found["pressure"]
    assert row == {
        "host": "rest1",
        "service": "kafka_rest",
        "instance": "8083",
        "at_us": 5,
        "rss_bytes": 6,
        "cpu_us": 7,
        "fds": 8,
    }
    used = {"cpu_used_us": 3, "cpu_idle_us": 4, "cpu_stolen_us": 1}
    waits = {"host": "rest1", "at_us": 9, **used, "memory_waited_us": None, "io_waited_us": 2}
    nothing = dict.fromkeys(("interface", "received_bytes", "sent_bytes", "link_bytes_per_s"))
    assert of_host == [waits | nothing]
    empty = {"processes": [], "pressure": of_host, "balancer": [], "metrics": []}
    assert rows("rest1", UNITS, line()) == empty
    two = json.loads(line()) | {"links": [["eth0", 3, 4, None], ["eth1", 5, 6, 7]]}
    of_two = rows("rest1", UNITS, json.dumps(two).encode())["pressure"]
    assert [row["interface"] for row in of_two] == ["eth0", "eth1"]


def test_balancer_of_a_watch_is_sampled_by_its_socket(tmp_path: Path) -> None:
    write_json(tmp_path / "plan.json", plan(kafka_rest=["8082", "8083"]))
    write_json(tmp_path / "watch.json", {"balancers": ["lb1"]})
    assert watched(tmp_path) == {"lb1": {}, "rest1": UNITS}
    # Which is where modules look for it on a host.
    path = haproxy_drain.ARGUMENTS["socket"]["default"]
    words = host_watcher.beside(tmp_path)
    assert words == {"lb1": ["socket=/run/rest-balancer/haproxy/admin.sock"]} == {"lb1": [f"socket={path}"]}
    access = to_access("lb1", {"ansible_host": "10.0.0.1"})
    assert words["lb1"][0] in ssh_command(access, {}, words["lb1"])[-1]
    assert "admin.sock" not in ssh_command(access, {})[-1].rpartition("main(sys.argv")[2]


def test_balancer_tells_of_each_server_and_of_what_clients_got(tmp_path: Path) -> None:
    counted = "hrsp_1xx,hrsp_2xx,hrsp_3xx,hrsp_4xx,hrsp_5xx,hrsp_other"
    told = (
        f"# pxname,svname,status,qcur,econ,eresp,{counted},\n"
        "rest,FRONTEND,OPEN,,,,0,9,0,9,9,0,\n"
        "rest,rest1:8082,UP 1/2,2,3,4,0,100,0,5,6,0,\n"
        "rest,BACKEND,UP,0,3,4,0,100,0,5,8,0,\n"
        "rest_consumers,rest1:8082,UP 1/2,0,0,0,0,50,0,1,0,0,\n"
        "rest_consumers,BACKEND,UP,0,0,0,0,50,0,1,0,0,\n"
    )
    path = tmp_path / "admin.sock"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()

        def answer() -> None:
            asked, _ = listening.accept()
            with asked:
                assert asked.recv(100) == b"show stat\n"
                asked.sendall(told.encode())

        threading.Thread(target=answer).start()
        found = host_sampler.servers(str(path))
    assert found == [
        ["clients", "OPEN", 27, 9, 9, 0, 0, 0, 1],
        ["rest1:8082", "UP_1/2", 162, 6, 6, 3, 4, 2, 0],
    ]
    sampled = json.loads(line()) | {"servers": found}
    (clients, first) = rows("lb1", {}, json.dumps(sampled).encode())["balancer"]
    assert first["server"] == "rest1:8082"
    assert (first["requests"], first["server_errors"], first["queued"]) == (162, 6, 2)
    assert (clients["at_us"], clients["server_errors"], clients["own_errors"]) == (9, 9, 1)


AGENT = (
    "-Da=b -javaagent:/etc/kafka-rest/8082/metrics/agent.jar={where}:/etc/kafka-rest/8082/metrics.yaml -Dc=d"
)
LAG = "kafka_consumer_consumer_fetch_manager_metrics_records_lag_max"
ERRORS = "kafka_producer_producer_metrics_record_error_rate"


@pytest.mark.parametrize(
    ("where", "asked"),
    [("127.0.0.1:9404", "127.0.0.1:9404"), ("0.0.0.0:9404", "127.0.0.1:9404"), ("9404", "127.0.0.1:9404")],
)
def test_instances_with_an_agent_are_asked_for_their_metrics_under_a_watch(
    tmp_path: Path, where: str, asked: str
) -> None:
    planned = plan(kafka_rest=["8082", "8083"])
    planned["hosts"]["rest1"]["services"]["kafka_rest"]["instances"][0]["settings"] = [
        {"file": "env", "key": "KAFKAREST_OPTS", "value": AGENT.format(where=where)}
    ]
    write_json(tmp_path / "plan.json", planned)
    write_json(tmp_path / "load.json", {})
    assert host_watcher.beside(tmp_path) == {}
    write_json(tmp_path / "watch.json", {"balancers": []})
    first, *series = host_watcher.beside(tmp_path)["rest1"]
    assert first == f"metrics=kafka-rest@8082={asked}"
    assert f"series={LAG}{{" in series


def test_metrics_of_a_processes_clients_come_to_one_row_each() -> None:
    told = (
        f"# TYPE {LAG} untyped\n"
        f'{LAG}{{client_id="a",}} 7.0\n'
        f'{LAG}{{client_id="b",}} NaN\n'
        f'{LAG}{{client_id="c",}} 5.0\n'
        f'{ERRORS}{{client_id="a"}} 1.5\n'
        f'{ERRORS}{{client_id="{{}}"}} 2.0\n'
        "kafka_producer_producer_metrics_record_error_rate_total 9\n"
    )

    class Agent(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(told.encode())

        def log_message(self, *_: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Agent) as server:
        threading.Thread(target=server.handle_request).start()
        where = f"127.0.0.1:{server.server_port}"
        found = host_sampler.metrics("kafka-rest@8082", where, [f"{LAG}{{", f"{ERRORS}{{"])
    assert [(unit, name, value) for unit, _, name, value in found] == [
        ("kafka-rest@8082", LAG, 7.0),
        ("kafka-rest@8082", ERRORS, 3.5),
    ]
    sampled = json.loads(line()) | {"metrics": found}
    row, _ = rows("rest1", UNITS, json.dumps(sampled).encode())["metrics"]
    at_us = found[0][1]
    who = {"host": "rest1", "service": "kafka_rest", "instance": "8082"}
    assert row == {**who, "at_us": at_us, "name": LAG, "value": 7.0}


@pytest.mark.parametrize(
    "told",
    [["kafka-rest@1", 1, LAG, 1.0], ["kafka-rest@8082", 1, "mine", 1.0], ["kafka-rest@8082", 1, LAG, "x"]],
)
def test_metrics_that_nobody_asked_for_are_refused(told: list[Any]) -> None:
    with pytest.raises(UntrustedError):
        rows("rest1", UNITS, json.dumps(json.loads(line()) | {"metrics": [told]}).encode())


def test_interfaces_of_the_host_alone_are_counted(tmp_path: Path) -> None:
    def interface(name: str, received: int, sent: int, speed: str, *, own: bool) -> None:
        (tmp_path / name / "statistics").mkdir(parents=True)
        for file, text in (
            ("statistics/rx_bytes", received),
            ("statistics/tx_bytes", sent),
            ("speed", speed),
        ):
            (tmp_path / name / file).write_text(f"{text}\n")
        if own:
            (tmp_path / name / "device").mkdir()

    assert host_sampler.links(str(tmp_path)) == []
    interface("eth0", 100, 10, "-1", own=True)
    interface("podman0", 5000, 5000, "10000", own=False)
    interface("eth1", 1, 2, "10000", own=True)
    assert host_sampler.links(str(tmp_path)) == [("eth0", 100, 10, None), ("eth1", 1, 2, 1_250_000_000)]


def test_a_processor_is_used_where_it_is_not_idle_and_not_the_disks_turn(tmp_path: Path) -> None:
    stat = tmp_path / "stat"
    # user nice system idle iowait irq softirq steal; a guest's time is within the user's.
    stat.write_text("cpu  100 10 50 700 90 1 2 47 30 0\ncpu0 1 2 3\n")
    tick_us = 1_000_000 // os.sysconf("SC_CLK_TCK")
    assert host_sampler.processors_us(str(stat)) == (210 * tick_us, 790 * tick_us, 47 * tick_us)


def test_a_kernel_that_does_not_tell_what_waits_is_no_error() -> None:
    assert host_sampler.waited_us("no such thing") is None


def test_command_follows_the_inventory_and_asks_no_question() -> None:
    access = to_access(
        "rest1",
        {
            "ansible_host": "10.0.0.1",
            "ansible_port": 2222,
            "ansible_user": "deploy",
            "ansible_become": True,
            "ansible_ssh_common_args": "-o UserKnownHostsFile=/known -o StrictHostKeyChecking=yes",
        },
    )
    command = ssh_command(access, UNITS)
    options = set(command[2:-2:2])
    assert {"BatchMode=yes", "Port=2222", "User=deploy", "UserKnownHostsFile=/known"} <= options
    assert "StrictHostKeyChecking=yes" in options
    assert not any(option.startswith("IdentityFile") for option in options)
    assert command[-2] == "10.0.0.1"
    assert command[-1].startswith("sudo -n python3 -c ")
    assert command[-1].endswith("kafka-rest@8082 kafka-rest@8083")


@pytest.mark.process
@pytest.mark.usefixtures("systemctl")
def test_connection_that_ends_is_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(host_watcher, "_AGAIN_S", 0.01)
    answer = line(["kafka-rest@8082", 5, 6, 7, 8]).decode()
    opened = tmp_path / "opened"
    script = f"echo x >> {opened}; echo '{answer}'; echo connection lost >&2"
    watcher = HostWatcher("rest1", UNITS, ["sh", "-c", script], tmp_path / "evidence")
    watcher.start()
    await_that(lambda: opened.exists() and len(opened.read_text()) >= 6, "it was opened three times")
    watcher.stop()
    found = pq.read_table(tmp_path / "evidence" / "processes").to_pylist()
    assert len(found) >= 2
    assert (found[0]["instance"], found[0]["fds"], found[0]["heap_bytes"]) == ("8082", 8, None)
    pressure = pq.read_table(tmp_path / "evidence" / "pressure").to_pylist()
    assert (len(pressure), pressure[0]["host"]) == (len(found), "rest1")
    # The same complaint is made once.
    assert capsys.readouterr().err == "rest1: no samples of its processes: connection lost\n"


@pytest.mark.process
def test_answer_that_is_no_sample_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    watcher = HostWatcher("rest1", UNITS, ["sh", "-c", "echo Welcome; exec sleep 60"], tmp_path)
    said = ""

    def complained() -> bool:
        nonlocal said
        said += capsys.readouterr().err
        return said.endswith("\n")

    watcher.start()
    await_that(complained, "it complains")
    watcher.stop()
    assert said == "rest1: no samples of its processes: not a line of samples: 'Welcome'\n"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("phase", "over"), [("draining", False), ("done", True), ("failed", True)])
def test_sampling_ends_with_the_load(tmp_path: Path, phase: str, over: bool) -> None:
    assert not ended(tmp_path)
    (tmp_path / "load.state").write_text(json.dumps({"phase": phase}))
    assert ended(tmp_path) is over
    (tmp_path / "load.json").touch()
    (tmp_path / "watch.json").touch()
    assert not ended(tmp_path)
    (tmp_path / "watch.state").write_text(json.dumps({"phase": "done"}))
    assert ended(tmp_path) is over


def test_plan_that_cannot_be_read_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--run-dir", str(tmp_path), "--inventory", "any"]) == 2
    assert "plan.json" in capsys.readouterr().err
