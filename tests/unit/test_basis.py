"""Each setting says what its value rests on: documented, measured, derived, an estimate, or the person's own."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from kedge.plan.hosts import Inventory
from kedge.plan.settings import Choice, Setting, Sheet, weakest
from kedge.plan.sources import keys, sources
from kedge.plan_command import main
from kedge.services.planning import make_plan
from tests.planned import mirrors, of_topics, streams
from tests.rest_inventories import rest
from tests.rules import inventories, put_and_planned

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = str(ROOT / "inventories" / "example")
#: Its value is a folder; the reason estimates how much disk that takes.
OF_DISK = "state.dir"


@pytest.fixture(scope="module")
def planned() -> tuple[Setting, ...]:
    """Return the settings of all inventories' plans, by either advice."""
    return put_and_planned()[1]


def basis_of(inventory: Inventory, key: str, file: str = "") -> str:
    found = {
        s.basis for _, s in make_plan(inventory).settings() if s.key.endswith(key) and s.file.endswith(file)
    }
    (basis,) = found
    return basis


def test_without_a_basis_no_choice_can_be_made() -> None:
    with pytest.raises(TypeError, match="basis"):
        Choice(1, "it seemed right", "folklore")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="basis"):
        Setting("f", "k", "1", "a.rule", "it seemed right", "folklore")  # type: ignore[call-arg]


def test_what_is_measured_leads_to_a_measurement(planned: tuple[Setting, ...]) -> None:
    def kinds(s: Setting) -> set[str]:
        return {sources()[key].kind for key in keys(s.source)} | (
            {"measured"} if "your-measurement" in keys(s.source) else set()
        )

    assert [s for s in planned if s.basis == "measured" and "measured" not in kinds(s)] == []
    of_nobody = [s for s in planned if s.basis == "documented" and kinds(s) == {"yours"}]
    assert of_nobody == []


def test_only_what_the_inventory_sets_itself_is_the_persons(planned: tuple[Setting, ...]) -> None:
    for s in planned:
        assert (s.basis == "yours") == (s.by == "person"), s
        assert s.basis != "yours" or s.source == "the inventory", s


def test_a_reason_that_speaks_of_an_estimate_is_one(planned: tuple[Setting, ...]) -> None:
    said = [s for s in planned if re.search(r"\ban estimated?\b", s.because) and s.key != OF_DISK]
    assert len({s.rule for s in said}) > 5
    assert {s.basis for s in said} <= {"estimate", "yours"}


def test_of_several_parts_the_weakest_names_the_whole() -> None:
    assert weakest("documented", "estimate", "measured") == "estimate"
    assert weakest("documented", "measured", "derived") == "measured"
    assert weakest("documented", "derived") == "derived"


def test_the_basis_is_that_of_the_form_that_was_chosen() -> None:
    sheet = Sheet("here", "measured", {"own": 3})
    forms = (Choice(1, "a page says so", "a", "documented"), Choice(2, "it ran", "b", "measured"))
    for key in ("asked", "own"):
        sheet.put("f", key, "a.rule", *forms)
    strict = Sheet("here", "documented", {})
    strict.put("f", "asked", "a.rule", *forms)
    assert [s.basis for s in (*sheet.settings, *strict.settings)] == ["measured", "yours", "documented"]


QUIET: dict[str, Any] = {"consumers": 0, "connections": 10}
BUSY: dict[str, Any] = {"consumers": 400, "partitions": 12, "concurrent_requests": 300}


@pytest.mark.parametrize(
    ("inventory", "key", "file", "basis"),
    [
        # A floor that decides has its own basis, and how it is reached another; twice of what was measured is a
        # judgement.
        (rest(1, workload=QUIET), "KAFKAREST_HEAP_OPTS", "", "measured"),
        (rest(1, workload=BUSY), "KAFKAREST_HEAP_OPTS", "", "estimate"),
        (rest(1, workload=QUIET), "thread.pool.max", "", "documented"),
        (rest(1, workload=BUSY), "thread.pool.max", "", "derived"),
        (rest(1, workload={"consumers": 900, "records_per_s": 100}), "thread.pool.max", "", "estimate"),
        (rest(1, workload=BUSY), "consumer.receive.buffer.bytes", "", "measured"),
        (rest(1, workload=BUSY), "consumer.request.max.bytes", "", "measured"),
        (rest(1, workload=BUSY | {"record_bytes": 5_000_000}), "consumer.request.max.bytes", "", "estimate"),
        (rest(1, settings={"thread.pool.max": 77}), "thread.pool.max", "", "yours"),
        # A variable of the inventory is no judgement, its default in the kit is one.
        (rest(1), "TimeoutStopSec", "", "estimate"),
        (rest(1, stop_seconds=30), "TimeoutStopSec", "", "derived"),
        (rest(1), "file.strategy.max", "", "estimate"),
        (rest(1, log_mib=100), "file.strategy.max", "", "derived"),
        (rest(1), "file.type", "log4j2.properties", "derived"),
        (mirrors(flow={"latency_budget_ms": 5000}, common={"advice": "measured"}), "linger.ms", "producer.properties", "estimate"),
        (mirrors(flow={"latency_budget_ms": 90_000}), "linger.ms", "producer.properties", "documented"),
        (streams(1), "cache.bytes", "", "measured"),
        (streams(1, rocksdb_mib=512), "cache.bytes", "", "yours"),
    ],
)  # fmt: skip
def test_what_decides_a_value_is_what_it_rests_on(
    inventory: Inventory, key: str, file: str, basis: str
) -> None:
    assert basis_of(inventory, key, file) == basis


def test_partitions_follow_from_rates_of_the_inventory_or_are_the_default() -> None:
    told = {"target_mb_per_s": 20, "production_mb_per_s": 10, "consumption_mb_per_s": 20}
    assert basis_of(of_topics(told), "partitions") == "derived"
    assert basis_of(of_topics({}), "partitions") == "documented"


def test_the_settings_of_a_basis_are_listed_with_reason_and_share(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-i", EXAMPLE, "--basis", "estimate"]) == 0
    lines = capsys.readouterr().out.splitlines()
    every = [s for _, s in make_plan(example()).settings()]
    count = sum(s.basis == "estimate" for s in every)
    assert lines[-1] == f"estimate: {count} of {len(every)} settings, {count / len(every):.1%}"
    assert any(line.endswith("session.timeout.ms=10000") for line in lines)
    text = " ".join(" ".join(lines).split())
    assert "Two thirds of the 15 s" in text and "[rest.consumer.session; estimate; REST proxy" in text
    assert "; measured;" not in text
    # Four proxies of two hosts have the same estimate, and it is said once.
    assert "rest[1-2] kafka_rest@[8082-8083]" in lines
    assert sum(line.endswith("session.timeout.ms=10000") for line in lines) == 1


def test_several_bases_are_listed_together(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-i", EXAMPLE, "--basis", "yours", "--basis", "measured"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2].startswith("yours: ") and lines[-1].startswith("measured: ")
    text = " ".join(" ".join(lines).split())
    assert "[rest.consumer.buffer; measured;" in text and "; estimate;" not in text


@pytest.mark.parametrize(
    ("word", "mend"), [("esitmate", "did you mean estimate?"), ("magic", "it is one of documented, measured")]
)
def test_an_unknown_basis_is_one_line_with_the_nearest(
    capsys: pytest.CaptureFixture[str], word: str, mend: str
) -> None:
    assert main(["-i", EXAMPLE, "--basis", word]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"--basis {word}: ") and mend in printed.err
    assert printed.err.count("\n") == 1


def test_a_secret_is_not_listed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "hosts.yml").write_text(
        "all: {children: {rest_balancer: {hosts: {lb1: }}, kafka_rest: {hosts: {rest1: }}}, vars: {\n"
        "  host_cores: 4, host_memory_mib: 8192, kafka_clusters: {c: {version: 4.1.0,\n"
        "  bootstrap_servers: 'k:9092'}}, kafka_rest_cluster: c, kafka_rest_distribution: strimzi,\n"
        "  kafka_rest_version: 0.33.1, kafka_rest_archive: /x.tgz,\n"
        f"  kafka_rest_archive_checksum: '{'0' * 63}1', rest_balancer_users: {{ann: correct-horse}}}}}}\n"
    )
    assert main(["-i", str(tmp_path), "--basis", "derived"]) == 0, capsys.readouterr()
    listed = capsys.readouterr().out
    assert "ann=***" in listed and "correct-horse" not in listed


def example() -> Inventory:
    return next(i for i in inventories() if "mm1" in i.hosts and "rest1" in i.hosts and "streams1" in i.hosts)
