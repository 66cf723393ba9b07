"""What hosts print becomes settings, pauses and clock offsets."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from verify.collect.__main__ import _pause_rows, _sample_rows, collect, main, read_actions
from verify.collect.clocks import ClockOffset, RoundTrip, offset
from verify.collect.gc import Pause, pauses
from verify.collect.hosts import CollectError, ssh_options, to_access
from verify.collect.reading import (
    GcLog,
    HostFiles,
    SampleLog,
    gc_logs,
    pairs,
    read_command,
    read_output,
    sample_logs,
    settings_rows,
    wanted_settings,
)
from verify.collect.rocksdb import samples

PROPERTIES = "/etc/kafka-rest/8082/kafka-rest.properties"
FLAGS = "-XX:+UseG1GC -Xlog:gc*:file=/var/log/kafka-rest/8082/gc.log:time,uptime,level,tags:filecount=5"


def setting(file: str, key: str, value: str, **more: Any) -> dict[str, Any]:
    return {
        "file": file,
        "key": key,
        "value": value,
        "rule": "r",
        "because": "b",
        "source": "s",
        "basis": "derived",
        **more,
    }


def plan(*settings: dict[str, Any], service: str = "kafka_rest") -> dict[str, Any]:
    return {
        "hosts": {"rest1": {"services": {service: {"instances": [{"name": "8082", "settings": settings}]}}}}
    }


def rows_of(planned: dict[str, Any], lines: list[str] | None) -> dict[str, tuple[str, str | None]]:
    read = read_output(
        [
            f"@@kedge file {PROPERTIES}",
            *(["@@kedge missing"] if lines is None else [f" {line}" for line in lines]),
        ]
    )
    return {
        row["key"]: (row["planned"], row["running"])
        for row in settings_rows(wanted_settings(planned), {"rest1": read})
    }


def test_planned_value_stands_beside_the_running_one() -> None:
    planned = plan(setting(PROPERTIES, "id", "rest1-8082"), setting(PROPERTIES, "consumer.threads", "50"))
    lines = ["# consumer.threads=1 would be a comment", "id=rest1-8082", "consumer.threads = 20", "other=1"]
    assert rows_of(planned, lines) == {"id": ("rest1-8082", "rest1-8082"), "consumer.threads": ("50", "20")}


def test_value_that_could_not_be_read_is_null() -> None:
    planned = plan(setting(PROPERTIES, "id", "x"))
    assert rows_of(planned, ["other=1"]) == {"id": ("x", None)}
    assert rows_of(planned, None) == {"id": ("x", None)}
    assert [row["running"] for row in settings_rows(wanted_settings(planned), {})] == [None]


@pytest.mark.parametrize(
    "secret",
    [
        setting(PROPERTIES, "anything", "hunter2", secret=True),
        setting(PROPERTIES, "client.ssl.keystore.password", "hunter2"),
        setting(PROPERTIES, "client.sasl.jaas.config", "x password=hunter2"),
    ],
)
def test_secret_appears_in_no_column(secret: dict[str, Any]) -> None:
    found = rows_of(plan(secret), [f"{secret['key']}=hunter2"])
    assert found == {secret["key"]: ("***", "***")}


def test_empty_and_quoted_values_are_read_as_they_are_meant() -> None:
    lines = [
        "schema.registry.url=",
        'KAFKAREST_HEAP_OPTS="-Xms1g -Xmx1g"',
        "[Service]",
        "MemoryMax=1G",
        "a=b=c",
    ]
    assert pairs(lines) == {
        "schema.registry.url": "",
        "KAFKAREST_HEAP_OPTS": "-Xms1g -Xmx1g",
        "MemoryMax": "1G",
        "a": "b=c",
    }


def test_only_files_of_pairs_are_compared_and_only_of_instances() -> None:
    assert wanted_settings(plan(setting("/etc/haproxy/haproxy.cfg", "bind", "1:2"))) == []
    tuning = plan(setting("/etc/sysctl.d/60-kedge.conf", "vm.swappiness", "1"), service="host_tuning")
    assert wanted_settings(tuning) == []


def test_gc_log_is_where_the_planned_flags_say() -> None:
    planned = plan(setting("/etc/kafka-rest/8082/environment", "KAFKAREST_JVM_PERFORMANCE_OPTS", FLAGS))
    assert gc_logs(planned) == [GcLog("rest1", "kafka_rest", "8082", "/var/log/kafka-rest/8082/gc.log")]


@pytest.mark.process
def test_command_reads_files_and_logs_that_are_there_and_names_those_that_are_not(tmp_path: Path) -> None:
    here, log = tmp_path / "a file.properties", tmp_path / "gc.log"
    here.write_text("a=1\nb=2")
    log.write_text("[t] GC(0) Pause Young 1.5ms\nConcurrent Mark 3ms\n")
    (tmp_path / "gc.log.0").write_text("[t] GC(9) Pause Remark 2.5ms\n")
    command = read_command([str(here), str(tmp_path / "no")], [str(log), str(tmp_path / "none")])
    output = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True).stdout
    read = read_output(output.splitlines())
    assert read.files == {str(here): ["a=1", "b=2"], str(tmp_path / "no"): None}
    assert read.logs == {
        str(log): ["[t] GC(0) Pause Young 1.5ms", "[t] GC(9) Pause Remark 2.5ms"],
        str(tmp_path / "none"): None,
    }


GC_LINES = """\
[2026-11-21T10:00:00.123+0000][0.012s][info][gc] Using G1
[2026-11-21T10:00:01.000+0000][1.002s][info][gc,start    ] GC(0) Pause Young (Normal) (G1 Evacuation Pause)
[2026-11-21T10:00:01.004+0000][gc  ] GC(0) Pause Young (Normal) (G1 Evacuation Pause) 25M->3M(512M) 3.500ms
[2026-11-21T10:00:01.004+0000][1.006s][info][gc,cpu      ] GC(0) User=0.00s Sys=0.00s Real=0.00s
[2026-11-21T10:00:02.000+0000][2.006s][info][gc] GC(1) Pause Remark 30M->30M(512M) 1.000ms
[2026-11-21T12:00:03.000+0200][3.006s][info][gc] GC(2) Pause Full (System.gc()) 30M->3M(512M) 12.345ms
[2026-11-21T10:00:04.000+0000][4.006s][info][gc] GC(3) Concurrent Mark Cycle 9.000ms
[2026-11-21T10:00:05.000+0000][5.006s][info][gc] GC(4) Pause Young (Normal) (G1 Evac""".splitlines()
TEN = 1_795_255_200_000_000


def test_pauses_begin_before_their_line_is_written() -> None:
    assert list(pauses(GC_LINES, TEN, TEN + 10_000_000)) == [
        Pause(TEN + 1_004_000 - 3_500, 3_500, "Pause Young (Normal) (G1 Evacuation Pause)"),
        Pause(TEN + 2_000_000 - 1_000, 1_000, "Pause Remark"),
        Pause(TEN + 3_000_000 - 12_345, 12_345, "Pause Full (System.gc())"),
    ]


def test_pauses_outside_the_run_are_left_out() -> None:
    assert [pause.kind for pause in pauses(GC_LINES, TEN + 1_500_000, TEN + 2_500_000)] == ["Pause Remark"]


SAMPLES = "/var/log/streams-app/joins/samples.jsonl"


@pytest.mark.parametrize("bounded", [True, False])
def test_samples_are_where_the_plan_says_and_a_bounded_application_shares_its_cache(bounded: bool) -> None:
    told = setting("/etc/streams-app/joins/environment", "KEDGE_SAMPLES_FILE", SAMPLES)
    bound = [setting("/etc/streams-app/joins/rocksdb.properties", "cache.bytes", "1")] if bounded else []
    found = sample_logs(plan(told, *bound, service="streams_app"))
    assert found == [SampleLog("rest1", "streams_app", "8082", SAMPLES, bounded)]


@pytest.mark.process
def test_the_older_samples_come_first(tmp_path: Path) -> None:
    path, missing, moved = (tmp_path / name for name in ("samples.jsonl", "none", "moved"))
    path.write_text('{"at_us":2}\n')
    for older in ("samples.jsonl.1", "moved.1"):
        (tmp_path / older).write_text('{"at_us":1}\n')
    command = read_command([], [], [str(path), str(missing), str(moved)])
    output = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True).stdout
    assert read_output(output.splitlines()).samples == {
        str(path): ['{"at_us":1}', '{"at_us":2}'],
        str(missing): None,
        str(moved): ['{"at_us":1}'],
    }


def told(at_us: int, rss: int = 9, **more: Any) -> str:
    return json.dumps(
        {"at_us": at_us, "state": "RUNNING", "rss_bytes": rss, "block_cache_most_bytes": 3}
        | {"block_cache_sum_bytes": 24, "pinned_most_bytes": 1, "pinned_sum_bytes": 8, "memtables_bytes": 2}
        | more
    )


@pytest.mark.parametrize(("shared", "cache", "pinned"), [(True, 3, 1), (False, 24, 8)])
def test_a_shared_cache_counts_once_and_caches_apart_add_up(shared: bool, cache: int, pinned: int) -> None:
    (row,) = samples([told(5)], 0, 10, shared_cache=shared)
    assert (row["block_cache_bytes"], row["pinned_bytes"], row["memtable_bytes"]) == (cache, pinned, 2)
    assert row["table_readers_bytes"] is None


def test_samples_that_are_cut_off_empty_or_of_another_time_are_passed_over() -> None:
    lines = [told(5)[:20], "[]", "null", told(5, rss=0), told(1), told(20), told(6)]
    assert [row["at_us"] for row in samples(lines, 2, 10, shared_cache=True)] == [6]


def test_what_came_after_the_end_of_the_run_is_not_collected() -> None:
    run = {"started_us": 2, "ended_us": 10}
    sampled = SampleLog("st1", "streams_app", "joins", SAMPLES, shared_cache=True)
    read = HostFiles({}, {}, {SAMPLES: [told(6), told(20)]})
    assert [row["at_us"] for row in _sample_rows([sampled], {"st1": read}, run)] == [6]
    # Of a run that did not end properly all is evidence that there is.
    assert len(_sample_rows([sampled], {"st1": read}, run | {"ended_us": None})) == 2
    paused = GcLog("rest1", "kafka_rest", "8082", "gc.log")
    run = {"started_us": TEN, "ended_us": TEN + 2_500_000}
    found = _pause_rows([paused], {"rest1": HostFiles({}, {"gc.log": GC_LINES}, {})}, run)
    assert [row["kind"] for row in found] == ["Pause Young (Normal) (G1 Evacuation Pause)", "Pause Remark"]


def test_clock_is_told_by_the_shortest_round_trip() -> None:
    slow, fast = RoundTrip(0, 5_000_900, 1_000), RoundTrip(10_000, 5_010_060, 10_100)
    assert offset([slow, fast]) == ClockOffset(5_000_010, 50)


def test_ssh_options_are_read_from_ansibles_arguments() -> None:
    assert ssh_options('-o UserKnownHostsFile="/a b/known" -oStrictHostKeyChecking=no -C') == {
        "userknownhostsfile": "/a b/known",
        "stricthostkeychecking": "no",
    }


def test_access_follows_ansibles_variables() -> None:
    access = to_access("h", {"ansible_host": "10.0.0.1", "ansible_user": "u", "ansible_port": 2222})
    assert (access.address, access.port, access.user, access.strict, access.become) == (
        "10.0.0.1",
        2222,
        "u",
        "yes",
        False,
    )


def test_template_that_ansible_did_not_fill_in_is_refused() -> None:
    with pytest.raises(CollectError, match="ansible_ssh_private_key_file of host h holds a template"):
        to_access("h", {"ansible_ssh_private_key_file": "{{ key }}"})


ACTION = {
    "host": "rest1",
    "service": "kafka_rest",
    "instance": "8082",
    "action": "stop",
    "started_us": 1,
    "ended_us": 2,
    "ok": True,
}


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    (tmp_path / "evidence").mkdir()
    (tmp_path / "evidence" / "run.json").write_text(json.dumps({"started_us": 1, "ended_us": 2}))
    (tmp_path / "inventory.yml").write_text(
        "all: {hosts: {rest1: {ansible_host: 127.0.0.1, ansible_port: 1, ansible_user: nobody}}}"
    )
    (tmp_path / "plan.json").write_text(json.dumps(plan(setting(PROPERTIES, "id", "x"))))
    (tmp_path / "actions.jsonl").write_text(json.dumps(ACTION) + "\n")
    return tmp_path


@pytest.mark.process
def test_host_that_cannot_be_reached_is_one_line_and_missing_evidence(
    run_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):  # collecting again replaces, it does not add
        assert main(["--run-dir", str(run_dir), "--inventory", str(run_dir / "inventory.yml")]) == 0
    (line,) = set(capsys.readouterr().err.strip().splitlines())
    assert line.startswith("rest1 cannot be reached over SSH")
    settings = pq.read_table(run_dir / "evidence" / "settings").to_pylist()
    assert [row["running"] for row in settings] == [None]
    assert pq.read_table(run_dir / "evidence" / "actions").to_pylist() == [ACTION]
    assert pq.read_table(run_dir / "evidence" / "gc_pauses").num_rows == 0
    assert json.loads((run_dir / "evidence" / "run.json").read_text())["clock_offsets"] == {}


@pytest.mark.process
def test_host_that_is_not_in_the_inventory_is_refused(run_dir: Path) -> None:
    (run_dir / "inventory.yml").write_text("all: {hosts: {other: {}}}")
    with pytest.raises(CollectError, match="host rest1 is in the plan, but not in inventory"):
        collect(run_dir, str(run_dir / "inventory.yml"))


def test_input_that_is_missing_or_broken_is_said_in_one_line(run_dir: Path) -> None:
    (run_dir / "actions.jsonl").write_text('{"host": 1}\n{"ho')
    with pytest.raises(CollectError, match="line 2, is no JSON object"):
        read_actions(run_dir / "actions.jsonl")
    (run_dir / "plan.json").unlink()
    with pytest.raises(CollectError, match=r"plan\.json cannot be read"):
        collect(run_dir, "any")
