"""The pages of docs/measurements have the last figures of the benches, and all that such a page has to say."""

from __future__ import annotations

import json
import re
import statistics
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bench.rest.__main__ import report
from sizing.plan import make_plan
from sizing.topics.cluster_limits import CLUSTER_PARTITIONS, LEADERS_NOTE, LEADERS_WARNING
from tests.rest_inventories import of_rule, rest

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs" / "measurements"
MEASURED = sorted(path for path in PAGES.glob("*.md") if path.name != "README.md")


def rows(text: str) -> set[str]:
    """Return the rows of all tables."""
    return {line for line in text.splitlines() if line.startswith("|")}


def figures(name: str) -> Any:
    return json.loads((ROOT / "bench" / name).read_text())


@pytest.mark.parametrize("path", MEASURED, ids=lambda p: p.name)
def test_a_page_says_what_it_does_not_say_and_how_to_repeat_it(path: Path) -> None:
    headings = re.findall(r"^## (.+)$", path.read_text(), flags=re.MULTILINE)
    assert headings[-2:] == ["What this page does not say", "Repeat it"]
    assert f"({path.name})" in (PAGES / "README.md").read_text()


@pytest.mark.parametrize(
    ("page", "report"),
    [
        ("mirror-maker.md", "mirror/metrics.md"),
        ("mirror-maker.md", "mirror/logs.md"),
        ("mirror-maker.md", "mirror/processes.md"),
        ("rebalance.md", "rebalance/report.md"),
    ],
)
def test_a_page_has_every_row_of_the_bench_s_last_run(page: str, report: str) -> None:
    assert rows((ROOT / "bench" / report).read_text()) <= rows((PAGES / page).read_text())


def short(value: float) -> str:
    """Return a figure by the two digits that repetitions agree on."""
    return f"{float(f'{value:.1e}'):g}"


class Bench:
    """The last figures of ``bench.rest`` on a distribution, as medians."""

    def __init__(self, distribution: str) -> None:
        self.figures = figures(f"rest/reports/{distribution}/results.json")["figures"]

    def of(self, table: str, case: str, figure: str) -> float:
        return statistics.median(self.figures[table][case][figure])

    def times(self, table: str, case: str, base: str, figure: str = "records_per_s") -> str:
        return short(self.of(table, case, figure) / self.of(table, base, figure))

    def cell(self, table: str, case: str, base: str, figure: str = "records_per_s") -> str:
        """Return a ratio with the spread of its case, as the page has them."""
        values = self.figures[table][case][figure]
        spread = (max(values) - min(values)) / statistics.median(values)
        return f"{self.times(table, case, base, figure)} ({spread:.0%})"


@pytest.mark.parametrize("distribution", ["confluent", "strimzi", "sandbox"])
def test_a_report_is_drawn_from_the_figures_beside_it(distribution: str) -> None:
    folder = ROOT / "bench" / "rest" / "reports" / distribution
    assert report(json.loads((folder / "results.json").read_text())) == (folder / "report.md").read_text()


def test_what_is_said_of_rest_proxies_is_what_the_bench_measured() -> None:
    proxy, bridge = Bench("confluent"), Bench("strimzi")
    ten, hundred, thousand = (
        proxy.times("requests", f"{n} records", "1 record") for n in ("10", "100", "1000")
    )
    waits, waited = (proxy.of("requests", f"{n} records", "p50_ms") for n in ("1000", "100"))
    split = proxy.times("split", "two processes, half the heap each", "one process")
    region = proxy.times("collectors", "the guide's set without the region size", "the guide's set")
    reads = proxy.times("advice, one consumer", "measured", "defaults", "mb_per_s")
    first = (ROOT / "docs/rules.md").read_text().partition("## Advice that was measured")[2]
    for said in (
        f"10 reach {ten} times the records/s, 100 reach {hundred} and 1,000 reach {thousand}. With 1,000 the "
        f"median answer takes {waits:.0f} ms, with 100 it takes {waited:.0f} ms",
        f"two processes with half the heap each reached {split} of the records/s of one (kafka-rest)",
        f"less than the spread ({region} times)",
    ):
        assert said in first, said
    page = (PAGES / "real-proxies.md").read_text()
    rows_of = (
        ("10 records a request | 1 record", "requests", "10 records", "1 record", "records_per_s"),
        ("100 records a request | 1 record", "requests", "100 records", "1 record", "records_per_s"),
        ("1,000 records a request | 1 record", "requests", "1000 records", "1 record", "records_per_s"),
        ("producing, documented advice | defaults", "advice", "documented", "defaults", "records_per_s"),
        ("producing, measured advice | defaults", "advice", "measured", "defaults", "records_per_s"),
        (
            "reading, documented advice | defaults",
            "advice, one consumer",
            "documented",
            "defaults",
            "mb_per_s",
        ),
        ("reading, measured advice | defaults", "advice, one consumer", "measured", "defaults", "mb_per_s"),
    )
    for said, *case in rows_of:
        assert f"{said} | {proxy.cell(*case)} | {bridge.cell(*case)} |" in page, said
    for said, *case in (
        ("half the heap each | one process", "split", "two processes, half the heap each", "one process"),
        (
            "without the region size | the guide's",
            "collectors",
            "the guide's set without the region size",
            "the guide's set",
        ),
        ("no collector flags | the guide's", "collectors", "nothing set", "the guide's set"),
    ):
        assert f"{said} | {proxy.cell(*case)} | |" in page, said
    plan = make_plan(rest(cores=2))
    (one,) = of_rule(plan, "rest.instances")
    assert f"two processes with half the heap each did {split} of one" in one.message
    (flags,) = (s for s in plan.services["rest1"]["kafka_rest"][0].settings if s.rule == "rest.gc")
    assert f"records/s were {region} times as many, within the spread" in flags.because
    assert f"**Reading** gains {reads} times on kafka-rest" in page


def test_readme_says_what_the_plan_is_worth_to_a_reader_of_a_backlog() -> None:
    readme = " ".join((ROOT / "README.md").read_text().split())
    for said, distribution in (
        ("{:.0f} times as fast as with the defaults of kafka-rest", "confluent"),
        ("{:.1f} times as fast as with those of Strimzi's bridge", "strimzi"),
    ):
        (rate,) = figures(f"worth/reports/{distribution}/backlog.json")["figures"]["planned"]
        assert said.format(statistics.median(rate["after"]) / statistics.median(rate["before"])) in readme


def test_the_rules_page_has_the_gaps_of_drained_proxies_by_protocol() -> None:
    row = re.compile(
        r"^\| confluent-\S+ \| \d+ \| drain \| (\w+) \| \d+ \| [\d.]+ \| ([\d.]+) s", flags=re.MULTILINE
    )
    gaps: dict[bool, list[float]] = {True: [], False: []}
    for group, gap in row.findall((ROOT / "bench/rebalance/proxies.md").read_text()):
        gaps[group == "consumer"].append(float(gap))
    (low, high), (least, most) = ((min(gaps[which]), max(gaps[which])) for which in (True, False))
    said = f"a median delivery gap of {low} to {high} s instead of {least} to {most}"
    assert said in (ROOT / "docs/rules.md").read_text()


def test_pages_say_of_write_buffers_what_the_bench_measured() -> None:
    cases = figures("streams/streams.json")["time"]["cases"]
    rates = {name: case["records_per_s"] for name, case in cases.items()}
    planned, large = (
        f"{rates[name] / rates['defaults']:.0%}"[:-1] for name in ("planned", "2048 MiB, buffers of 8 MiB")
    )
    said = f"buffers of 4 MiB left {planned} percent of the throughput with defaults, buffers of 8 MiB {large} percent"
    assert said in (ROOT / "docs/rules.md").read_text()
    assert f"it kept {large} percent of the throughput" in " ".join(
        (ROOT / "docs/streams.md").read_text().split()
    )
    assert f"Buffers of 8 MiB left {large} percent" in page("streams-memory.md")


def test_the_pages_of_topics_have_the_limits_that_the_plan_applies() -> None:
    note, warning, partitions = (f"{n:,}" for n in (LEADERS_NOTE, LEADERS_WARNING, CLUSTER_PARTITIONS))
    assert f"| {warning}; the plan already notes more than {note} |" in (ROOT / "docs/topics.md").read_text()
    assert f"| partitions of the cluster | {partitions} |" in (ROOT / "docs/topics.md").read_text()
    assert f"| {note} (a note) and {warning} (a warning) |" in page("topics.md")
    assert f"[more than {partitions} partitions]" in (ROOT / "docs/rules.md").read_text()


def test_what_the_readme_says_of_mirrors_is_on_their_page() -> None:
    said = re.findall(r"\d+\.\d ± \d\.\d", (ROOT / "README.md").read_text())
    assert len(said) == 5
    assert [each for each in said if each not in (PAGES / "mirror-maker.md").read_text()] == []


def test_the_clients_page_has_what_fetches_held() -> None:
    text = (PAGES / "clients.md").read_text()
    for one in figures("clients/fetched.json"):
        assert f"| {' | '.join(str(value) for value in one.values())} |" in text


def test_the_streams_page_has_each_case_of_the_last_run() -> None:
    text = (PAGES / "streams-memory.md").read_text()
    last = figures("streams/streams.json")
    for part in ("curve", "time"):
        for case in last[part]["cases"].values():
            assert f"| {case['records_per_s']:,} |" in text
            assert re.search(rf"\| {case['rss_mib']:,}\b", text)


def test_the_audit_page_has_the_figures_of_the_last_run() -> None:
    text = (PAGES / "audit.md").read_text()
    last = figures("audit/scale.json")
    for ways in last["sizes"].values():
        for took in ways.values():
            assert f"{took['seconds']:.2f} s, {took['peak_gb']:.2f} GB" in text
    assert f"{last['kafka']['records_per_s']:,}" in text


def reason_of(rule: str, distribution: str, version: str) -> str:
    """Return the reason of a rule for a proxy with four consumers."""
    common: dict[str, Any] = {
        "fleet": {"name": "x"},
        "kafka_clusters": {"leaf": {"version": "4.3.1", "brokers": "kafka_leaf"}},
        "service_levels": {"rebalance": {"consume_stall_s": 15}},
    }
    groups = {"kafka_leaf": ("leaf1",), "kafka_broker": ("leaf1",)}
    plan = make_plan(rest(1, {"consumers": 4}, common, groups, distribution=distribution, version=version))
    proxy = plan.services["rest1"]["kafka_rest"][0]
    return next(one.because for one in proxy.settings if one.rule == rule)


def test_the_pause_of_reads_has_the_figures_of_its_table() -> None:
    rows = re.findall(
        r"^\| (4|80) \| (classic|consumer), (50|25) ms \| ([\d, ]+) \| ([\d, ]+) \| ([\d., ]+) \|$",
        page("real-proxies.md"),
        flags=re.MULTILINE,
    )
    found = {tuple(row[:3]): [[float(turn) for turn in of.split(", ")] for of in row[3:]] for row in rows}
    assert len(found) == 6

    def by_turn(figure: int, one: tuple[str, ...], other: tuple[str, ...]) -> list[float]:
        return [a - b for a, b in zip(found[one][figure], found[other][figure], strict=True)]

    reason = reason_of("rest.consumer.pause", "confluent", "8.3.1")
    for figure in (0, 1):
        sooner = by_turn(figure, ("4", "consumer", "50"), ("4", "consumer", "25"))
        assert f"records came {statistics.median(sooner):.0f} ms sooner" in reason
    took = by_turn(2, ("80", "consumer", "25"), ("80", "consumer", "50"))
    # Microseconds a record, of 5,000 records/s, as percent of a core for each consumer.
    each = statistics.median(took) * 5_000 / 1e6 * 100 / 80
    assert f"took {each:.1f} percent of a core for each of 80 consumers" in reason
    later = [late for n in ("4", "80") for late in by_turn(0, (n, "consumer", "50"), (n, "classic", "50"))]
    assert (min(later), max(later)) == (0, 3)


def test_the_reason_for_the_consumer_protocol_states_its_price_as_it_was_measured() -> None:
    reason = partial(reason_of, "rest.consumer.protocol")
    # Load tests on a fleet: variant, group protocol, p99, processor time a record.
    took: dict[str, list[int]] = {"classic": [], "consumer": []}
    for row in re.findall(
        r"^\| \d \| \w+ \| (\w+) \| \d+ \| (\d+) \|$", page("trials.md"), flags=re.MULTILINE
    ):
        took[row[0]].append(int(row[1]))
    assert [len(of) for of in took.values()] == [4, 4]
    more = statistics.mean(took["consumer"]) / statistics.mean(took["classic"])
    assert more == pytest.approx(4 / 3, abs=0.02)
    assert "the price: a third more processor time of the proxy a record" in reason("sandbox", "1.0.0")
    # Turns of the classic protocol, and as many of the other.
    turns = re.findall(
        r"^\| kafka-rest 8\.3\.1\b[^|]* \| ([\d., ]+) \| ([\d., ]+) \|$", page("real-proxies.md"), re.M
    )
    pairs = [pair for row in turns for pair in zip(*(map(float, of.split(", ")) for of in row), strict=True)]
    shares = [consumer / classic for classic, consumer in pairs]
    assert len(shares) == 9
    assert statistics.median(shares) == pytest.approx(1, abs=0.05)
    said = reason("confluent", "8.3.1")
    assert "with a pause of 50 ms the median delivery was 0 to 3 ms later on one proxy" in said
    assert "processor time did not differ" in said
    assert "the price: not measured here" in reason("strimzi", "1.1.0")


def page(name: str) -> str:
    return (PAGES / name).read_text()
