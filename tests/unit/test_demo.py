"""What make demo takes and refuses: the load that a machine carries, and a vendor's archive; no fleet here."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from rich.status import Status

from kedge.plan.inventory.reading import read_inventory
from kedge.services.planning import make_plan
from kedge.services.registry import SERVICES
from kedge.setup.problem import Problem
from lab.demo import __main__ as demo
from lab.demo import load
from lab.demo.archive import VENDORS, checksum
from lab.demo.foreign import compared
from lab.demo.inventory import derive
from lab.demo.options import DemoOptions, Vendor, main, parse

ROOT = Path(__file__).resolve().parents[2]
BASE = ROOT / "inventories/local"
CONFLUENT, STRIMZI = "bin/kafka-rest-start", "bin/kafka_bridge_run.sh"

Pack = Callable[..., Path]


@pytest.fixture
def pack(tmp_path: Path) -> Pack:
    """Pack files of a folder as vendors do; the contents are nothing."""

    def packed(folder: str, *files: str) -> Path:
        archive = tmp_path / f"{folder}.tar.gz"
        with tarfile.open(archive, "w:gz") as writer:
            for name in files:
                member = tarfile.TarInfo(f"{folder}/{name}")
                member.size = 60_000
                # Noise, which stays as long in the archive as it is.
                writer.addfile(member, io.BytesIO(bytes(hash((name, n)) % 256 for n in range(60_000))))
        return archive

    return packed


@pytest.mark.parametrize(
    ("cores", "busy", "expected"),
    [
        (2, 0.0, 14_000),
        (2, 1.0, 7_000),
        (2, 2.0, 5_000),
        (2, 2.4, 5_000),
        (1, 0.1, 6_000),
        (4, 0.2, 27_000),
        (64, 0.0, 52_000),
    ],
)
def test_the_load_takes_half_of_the_idle_cores_and_no_more_than_the_inventory_has(
    cores: float, busy: float, expected: int
) -> None:
    assert load.suited(cores, busy) == expected
    assert expected * load.COST_US / 1e6 <= max(0.5 * (cores - busy), load.LEAST * load.COST_US / 1e6)


def test_a_vendors_proxy_that_costs_more_is_given_less() -> None:
    assert load.suited(2, 0, 130) == 7_000
    assert "at 130 µs a record" in load.why(7_000, 2, 0, 130)
    assert all(vendor.cost_us > load.COST_US for vendor in VENDORS.values())


@pytest.mark.parametrize(
    ("cores", "busy", "reason"),
    [
        (2, 0.3, "0.3 of 2 cores are busy, and it takes half of the rest at 70 µs a record"),
        (2, 2.0, "2.0 of 2 cores are busy, so this is the least"),
        (16, 0.0, "0.0 of 16 cores are busy, and it takes 3.6; more is not needed"),
    ],
)
def test_a_line_says_which_load_was_chosen_and_why(cores: float, busy: float, reason: str) -> None:
    chosen = load.suited(cores, busy)
    line = load.why(chosen, cores, busy)
    assert line.startswith(f"load: {chosen:,} Kafka and {chosen / 10:,.0f} REST records/s: ")
    assert reason in line
    assert line.endswith("(LOAD=... overrides)")


def test_how_busy_the_machine_is_comes_from_what_its_cores_did_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stat = tmp_path / "stat"
    stat.write_text("cpu  100 0 100 1000 50 0 0 0 7 0\ncpu0 1 2 3\n")

    def later(seconds: float) -> None:
        assert seconds == 1.0
        stat.write_text("cpu  140 0 110 1140 60 0 0 0 9 0\ncpu0 1 2 3\n")  # 50 of 200 ticks were busy

    monkeypatch.setattr("os.cpu_count", lambda: 4)
    assert load.busy_cores(1.0, stat, later) == pytest.approx(1.0)
    assert load.busy_cores(1.0, stat, lambda _: None) == 0.0
    assert 1 <= load.cores() <= 4096


def test_a_load_keeps_the_proportions_of_the_inventory_and_plans_without_an_error(tmp_path: Path) -> None:
    folder = derive(BASE, 20_000, None, tmp_path / "demo")
    variables = yaml.safe_load((folder / "group_vars/all/main.yml").read_text())
    verify, levels = variables["verify"], variables["service_levels"]["throughput"]
    assert (verify["kafka"]["records_per_s"], verify["rest"]["records_per_s"]) == (20_000, 2_000)
    assert (levels["kafka"]["records_per_s"], levels["rest"]["records_per_s"]) == (19_231, 1_923)
    assert verify["min_records"] == 2_000_000
    least = derive(BASE, load.LEAST, None, tmp_path / "least")
    plan = make_plan(read_inventory(least, SERVICES))
    assert [one for one in plan.findings if one.severity != "note"] == []
    # Another load is another verification, and not another plan of the hosts.
    assert plan.to_json()["hosts"] == make_plan(read_inventory(BASE, SERVICES)).to_json()["hosts"]


def test_what_inventories_local_sends_is_the_most_that_is_chosen() -> None:
    variables = yaml.safe_load((BASE / "group_vars/all/main.yml").read_text())
    rates = {via: variables["verify"][via]["records_per_s"] for via in ("kafka", "rest")}
    assert load.suited(64, 0) == rates["kafka"]
    assert rates["rest"] == rates["kafka"] * load.REST_SHARE


@pytest.mark.parametrize(
    "value", ["abc", "20k", "-5", "0", "4999", "150001", "1e4", "20 000", "²0000", "9" * 30]
)
def test_a_load_that_is_none_gets_one_line(value: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([f"--load={value}"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(
        f"make demo: LOAD={value}: write Kafka records/s, a whole number from 5000 to 150000"
    )


def test_what_is_left_out_or_empty_asks_for_nothing() -> None:
    empty = [f"--{name}=" for name in ("load", "distribution", "version", "archive", "checksum")]
    assert parse(empty) == parse([]) == parse(["--distribution=sandbox"]) == DemoOptions()


def test_a_vendors_archive_is_taken_with_its_checksum(pack: Pack, tmp_path: Path) -> None:
    archive = pack("confluent-8.3.1", "README", CONFLUENT)
    words = ["--distribution=confluent", "--version=8.3.1", f"--archive={archive}"]
    has = checksum(archive)
    assert parse(words).vendor == Vendor("confluent", "8.3.1", archive, has)
    assert parse([*words, f"--checksum=sha256:{has.upper()}"]).vendor == Vendor(
        "confluent", "8.3.1", archive, has, compared=True
    )
    folder = derive(BASE, 20_000, parse(words).vendor, tmp_path / "demo")
    warm_up_s = yaml.safe_load((folder / "group_vars/all/main.yml").read_text())["verify"]["warm_up_s"]
    assert warm_up_s > yaml.safe_load((BASE / "group_vars/all/main.yml").read_text())["verify"]["warm_up_s"]
    variables = yaml.safe_load((folder / "group_vars/kafka_rest/main.yml").read_text())
    assert variables["kafka_rest_distribution"] == "confluent"
    assert variables["kafka_rest_archive_checksum"] == has
    # What the sandbox needs is too little for it.
    assert "kafka_rest_ready_seconds" not in variables
    assert variables["kafka_rest_workload"]["consumers"] == 4
    rest = make_plan(read_inventory(folder, SERVICES)).services["rest1"]["kafka_rest"]
    assert len(rest) == 2


def test_a_bridge_is_taken_from_its_archive(pack: Pack) -> None:
    archive = pack("kafka-bridge-0.33.1", STRIMZI)
    vendor = parse(["--distribution=strimzi", "--version=0.33.1", f"--archive={archive}"]).vendor
    assert vendor is not None
    assert vendor.distribution == "strimzi"
    # A folder that somebody renamed tells no version.
    parse(["--distribution=strimzi", "--version=0.33.1", f"--archive={pack('mine', STRIMZI)}"])


def test_a_bridge_that_the_nodes_java_does_not_start_is_refused_before_a_node_starts(pack: Pack) -> None:
    archive = pack("kafka-bridge-1.1.0", STRIMZI)
    asked = parse(["--distribution=strimzi", "--version=1.1.0", f"--archive={archive}", "--load=20000"])
    with pytest.raises(Problem, match=r"java_version: .* starts on Java 21 or later, and java_version is 17"):
        demo.inventory_of(asked, lambda _: None)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--distribution=mapr"], "DISTRIBUTION=mapr: the demo runs confluent or strimzi from an archive"),
        (["--version=8.3.1"], "VERSION is of a vendor's proxy, and DISTRIBUTION is missing"),
        (["--distribution=sandbox", "--archive=x"], "ARCHIVE is of a vendor's proxy, and DISTRIBUTION is sandbox"),
        (["--distribution=confluent"], "VERSION is missing: DISTRIBUTION=confluent needs it, such as VERSION=8.3.1"),
        (["--distribution=strimzi", "--version=0.33.1"], "ARCHIVE is missing: DISTRIBUTION=strimzi needs it"),
        (["--distribution=confluent", "--version=new", "--archive=x"], "VERSION=new: write numbers with dots"),
        (["--distribution=confluent", "--version=8.3.1", "--archive=x", "--checksum=12"], "CHECKSUM=12: write the"),
        (["--distribution=confluent", "--version=8.3.1", "--archive=/no/such"], "cannot be read: No such file"),
        (["--distribution=confluent", "--version=8.3.1", "--archive=/"], "is a folder; name the .tar.gz"),
        (["--variants=stock"], "VARIANTS=stock: name two or more of stock, documented, planned"),
        (["--variants=stock,plan"], "VARIANTS=stock,plan: name two or more of stock, documented, planned or files"),
        (["--inventory=inventories/local-mirror", "--load=6000"], "LOAD and DISTRIBUTION are of inventories/local"),
    ],
)  # fmt: skip
def test_what_cannot_be_gets_one_line(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("make demo: ")
    assert said in line


@pytest.mark.parametrize(
    ("given", "variants"),
    [("", ["documented", "planned"]), ("stock,planned", ["stock", "planned"]), ("planned,planned", ["planned"] * 2)],
)  # fmt: skip
def test_the_variants_that_are_asked_for_take_turns(given: str, variants: list[str]) -> None:
    asked = parse(["--trials=compare", f"--variants={given}"])
    *_, last = demo.phases("inventories/local", asked.trials, asked.variants)
    assert [one for one in last.command if "arms" in one] == [json.dumps({"arms": variants})]
    *_, last = demo.phases("inventories/local", "capacity", asked.variants)
    assert not [one for one in last.command if "arms" in one]


def test_a_watch_ends_a_demo_whose_load_is_taken_for_anothers() -> None:
    *_, last = demo.phases("inventories/local", parse(["--trials=watch", "--load=5000"]).trials)
    assert last.command[1:] == ("-m", "lab.demo.foreign", "inventories/local")


@pytest.mark.parametrize(("watched_s", "status"), [(7.1, 0), (8.0, 1), (None, 1)])
def test_a_watch_is_held_against_what_clients_saw(watched_s: float | None, status: int) -> None:
    exact = {"by_restart": [{"by": {"g": {"consume_stall_s": seen}}} for seen in (2.0, 5.0)]}
    about = {"delivery_gap_s": watched_s, "commits_every_s": 1.5}
    assert compared(exact, {"interval_s": 0.5, "by_group": {"g": about}}) == status


def refused(archive: Path, distribution: str = "confluent", version: str = "8.3.1", *more: str) -> str:
    words = [f"--distribution={distribution}", f"--version={version}", f"--archive={archive}", *more]
    with pytest.raises(Problem) as error:
        parse(words)
    (line,) = str(error.value).splitlines()
    return line


def test_an_archive_that_is_none_is_refused(pack: Pack, tmp_path: Path) -> None:
    page = tmp_path / "page.tar.gz"
    page.write_text("<html>404</html>")
    assert "is no whole .tar.gz" in refused(page)
    empty = tmp_path / "empty.tar.gz"
    empty.touch()
    assert "is no whole .tar.gz" in refused(empty)
    whole = pack("confluent-8.3.1", CONFLUENT, "share/a", "share/b", "share/c")
    content = whole.read_bytes()
    # As a fetch that broke off leaves it: behind the start script, too.
    for part in (0.9, 0.6, 0.3):
        whole.write_bytes(content[: int(len(content) * part)])
        assert "is no whole .tar.gz" in refused(whole)


def test_an_archive_of_another_product_or_version_is_refused(pack: Pack) -> None:
    assert "holds kafka_2.13-4.3.1 and no bin/kafka-rest-start" in refused(
        pack("kafka_2.13-4.3.1", "bin/kafka-server-start.sh")
    )
    bridge = refused(pack("kafka-bridge-0.33.1", STRIMZI))
    assert "holds Strimzi's bridge (kafka-bridge-0.33.1); write DISTRIBUTION=strimzi" in bridge
    assert "Kedge's own sandbox" in refused(pack("sandbox-rest-1.0.0", CONFLUENT))
    assert "holds confluent-7.9.9, and VERSION is 8.3.1; write VERSION=7.9.9" in refused(
        pack("confluent-7.9.9", CONFLUENT)
    )


def test_another_checksum_is_refused_with_both(pack: Pack) -> None:
    archive = pack("confluent-8.3.1", CONFLUENT)
    line = refused(archive, "confluent", "8.3.1", f"--checksum={'0' * 64}")
    assert checksum(archive) in line
    assert "0" * 64 in line


def test_nothing_is_started_for_what_the_plan_refuses(
    pack: Pack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def start(*_: object) -> None:
        raise AssertionError("a phase began")

    monkeypatch.setattr(demo, "run", start)
    monkeypatch.setattr(demo, "DERIVED", tmp_path / "demo")
    archive = pack("confluent-5.0.0", CONFLUENT)
    words = ["--load=6000", "--distribution=confluent", "--version=5.0.0", f"--archive={archive}"]
    assert demo.main(words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "5.0.0" in line
    assert not (tmp_path / "demo").exists()


def test_the_demo_deploys_the_inventory_that_it_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "DERIVED", tmp_path / "demo")
    monkeypatch.setattr(demo, "LOG", tmp_path / "demo.log")
    commands: list[tuple[str, ...]] = []

    def run(phase: demo.Phase, log: object, shown: object) -> tuple[float, int]:
        commands.append(phase.command)
        return 1.0, 0

    monkeypatch.setattr(demo, "run", run)
    monkeypatch.setattr(load, "cores", lambda: 2.0)
    monkeypatch.setattr(load, "busy_cores", lambda: 0.5)
    assert demo.main([]) == 0
    assert "load: 10,000 Kafka and 1,000 REST records/s: 0.5 of 2 cores are busy" in capsys.readouterr().out
    made = {word for command in commands for word in command if word.endswith("/demo")}
    assert {(ROOT / word).resolve() for word in made} == {tmp_path / "demo"}
    variables = yaml.safe_load((tmp_path / "demo/group_vars/all/main.yml").read_text())
    assert variables["verify"]["kafka"]["records_per_s"] == 10_000


@pytest.mark.process
def test_a_terminal_shows_what_was_done_and_the_log_every_task(capfd: pytest.CaptureFixture[str]) -> None:
    printed = """
PLAY [Deploy] **********
TASK [instances : Start [one]] **********
skipping: [rest1]
ok: [lb1]
kafka_rest@8082 of rest1 ready after 5.1 s
changed: [rest1]
ok: [localhost] =>
    msg: a note
PLAY RECAP *****
rest1                      : ok=12   changed=3    unreachable=0
"""
    phase = demo.Phase("deploy", (sys.executable, "-c", f"print({printed!r})"))
    log = io.StringIO()
    status = Status("")
    assert demo.run(phase, log, status)[1] == 0
    assert capfd.readouterr().out.splitlines() == [
        "kafka_rest@8082 of rest1 ready after 5.1 s",
        "ok: [localhost] =>",
        "    msg: a note",
    ]
    assert "instances : Start [one]" in str(status.renderable.text)
    assert log.getvalue() == f"{printed}\n"
    demo.run(phase, log)
    assert "TASK [instances" in capfd.readouterr().out


@pytest.mark.process
def test_make_hands_over_the_command_line_and_not_the_environment() -> None:
    def asked(*words: str, **variables: str) -> str:
        done = subprocess.run(
            ["make", "-n", "--no-print-directory", "demo-asked", "PYTHON=python3", *words],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
            env={"PATH": "/usr/bin:/bin", **variables},
        )
        return done.stdout.split("lab.demo.options", 1)[1].strip()

    assert asked(VERSION="7", LOAD="x") == ""
    assert asked("LOAD=20000") == "--load='20000'"
    assert asked("ARCHIVE=/it's here.tar.gz") == r"--archive='/it'\''s here.tar.gz'"
