"""A canary against a real broker: windows without a gap, verdicts by the audit, figures while it runs."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from kedge.evidence.canary import Window, WindowResult, folders, read_result, read_window
from kedge.services.canary.loads import judged
from lab.services.broker_cluster import BrokerNode
from lab.services.brokers import Broker
from lab.services.serving import free_ports
from tests.awaiting import await_that
from tests.kafka.crashable import CrashableBroker
from tests.kafka.mirror_site import Site, site

__all__ = ["site"]

pytestmark = pytest.mark.kafka
ROOT = Path(__file__).parents[2]
RATE = 40


class Canary:
    """A canary of one broker and the process that runs it; with ``target``, its topics are mirrored there."""

    def __init__(
        self, broker: Broker, home: Path, window_s: float = 6, target: BrokerNode | None = None
    ) -> None:
        self.home = home / "home"
        self.config = home / "config"
        self.leases = home / "leases.json"
        self.output = home / "output"
        self.scrape = ("127.0.0.1", *free_ports(1))
        name = f"canary-{uuid.uuid4().hex}"
        self.topics = [f"{name}-{turn}" for turn in "ab"]
        for topic in self.topics:
            broker.create_topic(topic, 2)
            if target is not None:
                target.create_topic(topic, 2)
        others = {"agg": {"bootstrap_servers": target.bootstrap_servers}} if target is not None else {}
        loads = [
            {
                "run_id": "set by the canary",
                "cluster": "leaf",
                "bootstrap_servers": broker.bootstrap_servers,
                "warm_up_s": 0.5,
                "drain_s": 20,
                "clusters": others,
                "mirrors": [
                    {
                        "flow": topic,
                        "source": {"cluster": "leaf", "topic": topic},
                        "target": {"cluster": name, "topic": topic},
                        "group": f"mirror-maker-{topic}",
                    }
                    for name in others
                ],
                "kafka": {
                    "topic": topic,
                    "group": topic,
                    "records_per_s": RATE,
                    "producer": {"delivery.timeout.ms": 20_000},
                    "consumer": {"heartbeat.interval.ms": 200},
                },
            }
            for topic in self.topics
        ]
        levels = {"latency": {"kafka": {"ack_p99_ms": 30_000}}}
        self.config.mkdir()
        numbers = {"name": "leaf", "window_s": window_s, "keep_windows": 50, "keep_mib": 50}
        numbers |= {"scrape_address": self.scrape[0], "scrape_port": self.scrape[1]}
        (self.config / "canary.yaml").write_text(yaml.safe_dump(numbers))
        (self.config / "loads.json").write_text(
            json.dumps({"loads": loads, "levels": judged(levels, rest=False, mirrored=bool(others))})
        )
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> Canary:
        with self.output.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "verify.canary", *self.words(), "--leases", str(self.leases)],
                cwd=ROOT,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        return self

    def words(self) -> list[str]:
        return ["--config", str(self.config), "--home", str(self.home)]

    def windows(self) -> list[Window]:
        return [window for folder in folders(self.home) if (window := read_window(folder))]

    def workers(self) -> list[str]:
        """Return what the newest window's processes do."""
        assert self.process is not None
        found = [one.cmdline() for one in psutil.Process(self.process.pid).children(recursive=True)]
        newest = str(folders(self.home)[-1]) if folders(self.home) else "none yet"
        return [line[-2] for line in found if "verify.load.worker" in line and newest in line]

    def await_closed(self, count: int) -> None:
        def there() -> bool:
            assert self.process is not None
            assert self.process.poll() is None, self.output.read_text()
            return sum(window.state == "closed" for window in self.windows()) >= count

        await_that(there, f"{count} windows are closed")

    def end(self, number: int = signal.SIGTERM) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(90)

    def figures(self) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
        address, port = self.scrape
        with urllib.request.urlopen(f"http://{address}:{port}/metrics", timeout=5) as answer:
            text = answer.read().decode()
        return {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    def total(self, name: str, **labels: str) -> float:
        return sum(
            value
            for (of, has), value in self.figures().items()
            if of == name and labels.items() <= dict(has).items()
        )

    def audit(self) -> None:
        """Audit in a process of its own, as the timer does: it lowers its priority for good."""
        words = ["audit", "--config", self.config, "--home", self.home, "--master", "local[1]"]
        subprocess.run([sys.executable, "-m", "verify.canary.command", *words], check=True)

    def results(self) -> list[WindowResult]:
        return [result for folder in folders(self.home) if (result := read_result(folder))]


@pytest.fixture
def running() -> Iterator[list[Canary]]:
    made: list[Canary] = []
    yield made
    for one in made:
        if one.process is not None and one.process.poll() is None:
            one.process.kill()
            one.process.wait()


@pytest.fixture
def canary(broker: CrashableBroker, tmp_path: Path, running: list[Canary]) -> Callable[..., Canary]:
    def make(**options: Any) -> Canary:
        running.append(Canary(broker, tmp_path, **options))
        return running[-1]

    return make


def test_windows_follow_without_a_gap_and_each_gets_its_verdict(canary: Callable[..., Canary]) -> None:
    one = canary().start()
    await_that(lambda: len(one.workers()) == 2, "one process makes the load, and one watches it")
    one.await_closed(3)
    acked = one.total("kedge_canary_records_total", outcome="acked")
    assert acked > 2 * 6 * RATE
    assert one.total("kedge_canary_records_total", outcome="failed") == 0
    await_that(
        lambda: one.total("kedge_canary_ack_seconds_count") >= acked, "files have what the board counts"
    )
    assert one.total("kedge_canary_delivery_seconds_count") > 2 * 6 * RATE
    assert one.total("kedge_canary_last_ack_age_seconds") < 5
    assert one.end() == 0, one.output.read_text()

    windows = one.windows()
    assert {window.state for window in windows} == {"closed"}
    runs = [json.loads((one.home / "windows" / w.run_id / "evidence/run.json").read_text()) for w in windows]
    for earlier, later in pairwise(runs):
        assert later["started_us"] + later["warm_up_us"] < earlier["measured_until_us"]
        assert later["topics"][0]["topic"] != earlier["topics"][0]["topic"]


@pytest.mark.long  # Spark starts for it
def test_windows_in_which_all_went_well_pass_and_their_evidence_goes(canary: Callable[..., Canary]) -> None:
    one = canary().start()
    one.await_closed(2)
    assert one.end() == 0, one.output.read_text()
    windows = one.windows()
    one.audit()
    results = one.results()
    assert [result.verdict for result in results] == ["pass"] * len(windows), results
    assert results[0].anomalies.get("lost", 0) == 0
    assert any(figure["what"] for figure in results[0].figures)
    assert not list(one.home.glob("windows/*/evidence"))
    assert list((one.home / "history").rglob("*.parquet"))


@pytest.mark.long  # Spark starts for it
def test_a_killed_canary_leaves_a_window_and_a_hole_that_are_unknown(canary: Callable[..., Canary]) -> None:
    one = canary(window_s=30).start()
    await_that(lambda: one.output.exists() and one.windows(), "a window runs")
    await_that(lambda: one.process and one.total("kedge_canary_sending") == 1, "it sends")
    one.end(signal.SIGKILL)
    ended = time.monotonic()
    await_that(lambda: time.monotonic() - ended > 3, "nothing was sent for a while")
    one.start()
    await_that(lambda: [w for w in one.windows() if w.state == "hole"], "the hole is noted")
    assert one.end() == 0, one.output.read_text()
    states = {window.state: window for window in one.windows()}
    assert states.keys() == {"broken", "hole", "closed"}
    assert states["broken"].why == "the canary ended while this window ran"
    one.audit()
    verdicts = {result.window.run_id: result.verdict for result in one.results()}
    assert verdicts[states["broken"].run_id] == verdicts[states["hole"].run_id] == "unknown"


@pytest.mark.long  # two clusters, and a real MirrorMaker
def test_the_delivery_age_of_a_stopped_mirror_grows_until_it_is_back(
    site: Site, tmp_path: Path, running: list[Canary]
) -> None:
    one = Canary(site.source, tmp_path, 30, site.target)
    running.append(one)
    mirrors = [site.mirror(topic) for topic in one.topics]
    one.start()

    def mirrored() -> tuple[float, float]:
        names = "kedge_canary_delivered_total", "kedge_canary_last_delivery_age_seconds"
        records, age = (one.total(name, path="mirror-agg-kafka") for name in names)
        return records, age

    await_that(lambda: one.process and one.windows() and mirrored()[0] > RATE, "its records are copied")
    assert mirrored()[1] < 20
    for process in mirrors:
        process.kill()
        process.wait()
    # What the alert asks for (verify/canary/rules.py).
    await_that(lambda: mirrored()[1] > 20, "nothing was copied for long enough for an alert")
    assert one.total("kedge_canary_last_delivery_age_seconds", path="kafka") < 20
    for topic in one.topics:
        site.mirror(topic)
    await_that(lambda: mirrored()[1] < 5, "copies go on")
    assert one.end() == 0, one.output.read_text()
