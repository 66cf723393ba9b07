"""What trials used of their machines, and what of it is called the limit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kedge.evidence.load_options import LoadSpec
from kedge.evidence.writing import rows_to_columns, write_json, write_table
from kedge.trials.bottleneck import GENERATORS, Used, costs, limit_of
from tests.trials import LOAD, write_samples
from verify.load.actors import lanes


def write_run(folder: Path, cpu_cores: float, generator_s: float, *, shared: bool) -> None:
    """Ten seconds of load; one proxy on rest1, which has two cores, uses so many of them."""
    machines = [{"hosts": ["rest1"], "load": shared, "cores": 2}] + (
        [] if shared else [{"load": True, "cores": 8}]
    )
    run = {
        "started_us": 0,
        "warm_up_us": 0,
        "measured_until_us": 10_000_000,
        "cost": {"rest-producer": {"cpu_s": generator_s, "records": 1}, "rest-consumer": {"cpu_s": 0.5}},
        "subject": {"machines": machines},
    }
    (folder / "evidence").mkdir(parents=True)
    (folder / "evidence" / "run.json").write_text(json.dumps(run))
    (folder / "load.state").write_text(json.dumps({"acked": 20_000}))
    (folder / "load.json").write_text(json.dumps(LOAD))
    write_samples(folder, [cpu_cores * second for second in range(10)])


@pytest.mark.parametrize(
    ("cores", "generator_s", "shared", "what"),
    [
        (0.5, 2.0, False, None),
        (1.9, 2.0, False, "cpu of kafka_rest"),
        (0.5, 9.5, False, "generator"),
        (1.4, 5.0, True, "cpu of the one machine"),
    ],
)
def test_what_was_used_up_is_told_from_the_samples(
    tmp_path: Path, cores: float, generator_s: float, shared: bool, what: str | None
) -> None:
    write_run(tmp_path, cores, generator_s, shared=shared)
    used = costs(tmp_path)
    found = limit_of(used)
    assert (found.what if found else None) == what
    assert used.figures["kafka_rest_rss_mib"] == 300
    # 2,000 records/s.
    assert used.figures["kafka_rest_cpu_us_a_record"] == pytest.approx(cores * 500, rel=0.01)


@pytest.mark.parametrize(
    ("memory", "disk", "sent", "used", "what"),
    [
        (0.2, 0.1, 0.1, 0.5, "memory of rest1"),
        (0.01, 0.6, 0.1, 0.5, "disk of rest1"),
        (0.01, 0.1, 0.95, 0.5, "network of rest1"),
        (0.01, 0.1, 0.1, 0.95, "cpu of rest1"),
        (0.01, 0.4, 0.8, 0.8, None),
    ],
)
def test_what_a_host_used_up_or_waited_for_is_the_limit(
    tmp_path: Path, memory: float, disk: float, sent: float, used: float, what: str | None
) -> None:
    write_run(tmp_path, 0.5, 2.0, shared=False)
    rows = [
        {
            "host": "rest1",
            "at_us": second * 1_000_000,
            "cpu_used_us": int(second * used * 8e6),
            "cpu_idle_us": int(second * (1 - used) * 8e6),
            "memory_waited_us": int(second * memory * 1e6),
            "io_waited_us": int(second * disk * 1e6),
            "interface": interface,
            "received_bytes": 0,
            "sent_bytes": int(second * share * 1e9),
            "link_bytes_per_s": 1_000_000_000,
        }
        for second in range(10)
        for interface, share in (("eth0", 0.0), ("eth1", sent))
    ]
    write_table(tmp_path / "evidence", "pressure", "watch", rows_to_columns("pressure", rows))
    found = limit_of(costs(tmp_path))
    assert (found.what if found else None) == what
    # A host that makes the load is no host of the service.
    path = tmp_path / "load.json"
    write_json(path, json.loads(path.read_text()) | {"generators": ["rest1"]})
    found = limit_of(costs(tmp_path))
    assert (found.what if found else None) == ("generator" if what else None)


def test_a_host_that_only_brokers_use_is_told_to_be_a_broker() -> None:
    shares = {"leaf1": {"cpu": 0.97}}
    alone = limit_of(Used(cores={"leaf1": {"kafka_broker": 0.4}}, shares=shares))
    shared = limit_of(Used(cores={"leaf1": {"kafka_broker": 0.4, "kafka_rest": 1.0}}, shares=shares))
    assert alone is not None
    assert shared is not None
    assert (alone.what, alone.others) == ("cpu of broker leaf1", "brokers")
    assert (shared.what, shared.others) == ("cpu of leaf1", "")


@pytest.mark.parametrize(
    ("share", "ms", "what"), [(0.6, 40.0, "generator"), (0.6, 3.0, None), (0.3, 40.0, None)]
)
def test_a_generator_that_keeps_its_records_waiting_is_the_limit(
    tmp_path: Path, share: float, ms: float, what: str | None
) -> None:
    write_run(tmp_path, 0.5, 2.0, shared=False)
    path = tmp_path / "evidence" / "run.json"
    run = json.loads(path.read_text())
    run["cost"]["rest-producer"] |= {"own_share": share, "own_ms": ms}
    path.write_text(json.dumps(run))
    found = limit_of(costs(tmp_path))
    assert (found.what if found else None) == what


@pytest.mark.parametrize(("used_s", "what"), [(9.5, "consumers of the load"), (8.0, None)])
def test_consumers_that_share_one_process_are_the_limit_where_nothing_else_is(
    tmp_path: Path, used_s: float, what: str | None
) -> None:
    write_run(tmp_path, 0.5, 2.0, shared=False)
    path = tmp_path / "evidence" / "run.json"
    run = json.loads(path.read_text())
    run["cost"]["rest-consumer"]["cpu_s"] = used_s
    path.write_text(json.dumps(run))
    found = limit_of(costs(tmp_path))
    assert (found.what if found else None) == what


@pytest.mark.parametrize(("stolen", "told"), [(0.2, ", 20% by the hypervisor"), (0.01, "was used")])
def test_what_a_hypervisor_took_is_told_beside_what_was_used(
    tmp_path: Path, stolen: float, told: str
) -> None:
    write_run(tmp_path, 0.5, 2.0, shared=False)
    names = ("memory_waited_us", "io_waited_us", "interface", "received_bytes", "sent_bytes")
    rows = [
        {
            "host": "rest1",
            "at_us": second * 1_000_000,
            "cpu_used_us": int(second * 1.9e6),
            "cpu_idle_us": int(second * 0.1e6),
            "cpu_stolen_us": int(second * stolen * 2e6),
            **dict.fromkeys((*names, "link_bytes_per_s")),
        }
        for second in range(10)
    ]
    write_table(tmp_path / "evidence", "pressure", "watch", rows_to_columns("pressure", rows))
    used = costs(tmp_path)
    assert used.shares["rest1"]["stolen"] == pytest.approx(stolen)
    found = limit_of(used)
    assert found is not None
    assert found.what == "cpu of rest1"
    assert told in found.because


def test_generators_are_called_as_the_load_calls_them() -> None:
    load = LoadSpec.model_validate(LOAD | {"kafka": LOAD["kafka"] | {"group": "g"}})
    assert {lane.actor.rpartition("-")[0] for lane in lanes(load)} == set(GENERATORS)


def test_of_a_load_that_did_not_end_in_order_is_told_what_is_known(tmp_path: Path) -> None:
    write_run(tmp_path, 1.9, 2.0, shared=False)
    path = tmp_path / "evidence" / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"ended_us": None, "measured_until_us": None}))
    found = limit_of(costs(tmp_path))
    assert (found.what if found else None) == "cpu of kafka_rest"


def test_the_start_of_a_restarted_process_counts_as_its_processor_time(tmp_path: Path) -> None:
    write_run(tmp_path, 0.5, 2.0, shared=False)
    for file in (tmp_path / "evidence" / "processes").glob("*.parquet"):
        file.unlink()
    # Seconds of processor time at each second: it begins anew after 10, and its start takes 6.
    used = [10, 10.5, 11, 6, 6.5, 7, 7.5, 8, 8.5, 9]
    write_samples(tmp_path, used)
    found = costs(tmp_path)
    # 1 s of the old process and 9 s of the new one, in nine seconds.
    assert found.cores["rest1"]["kafka_rest"] == pytest.approx(10 / 9)
    assert found.figures["kafka_rest_cpu_us_a_record"] == pytest.approx(10 / 9 * 500, rel=0.01)


def test_without_samples_nothing_is_said_to_be_used_up(tmp_path: Path) -> None:
    assert costs(tmp_path) == Used()
    assert limit_of(Used()) is None


def test_the_table_of_samples_may_be_empty(tmp_path: Path) -> None:
    write_run(tmp_path, 1.0, 1.0, shared=False)
    for file in (tmp_path / "evidence" / "processes").glob("*.parquet"):
        file.unlink()
    assert costs(tmp_path).figures == {}
