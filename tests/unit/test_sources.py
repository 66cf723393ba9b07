"""Every source of a plan leads to title and address, in each form of the plan."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from kedge.plan.page import page as page_of
from kedge.plan.plan import Plan
from kedge.plan.settings import Setting
from kedge.plan.sources import cited, keys, leads_to, parts
from kedge.plan.text import text
from kedge.plan_command import main
from tests.rules import ROOT, put_and_planned


def test_every_source_of_a_plan_leads_to_a_known_source_and_section() -> None:
    tried, settings = put_and_planned()
    printed = {source for *_, source in tried} | {s.source for s in settings}
    assert len(printed) > 100
    nowhere = {part for source in printed for part in parts(source) if leads_to(part) is None}
    assert nowhere == set()


def test_a_source_that_nobody_knows_leads_nowhere() -> None:
    assert leads_to("Confluent REST Proxy production guide, Appendix") is None
    assert leads_to("Folklore") is None
    assert leads_to("kafka-rest, KafkaRestConfig") == ("kafka-rest", "KafkaRestConfig")
    assert leads_to("mirror_maker_flows.metrics.latency_budget_ms") == ("inventory", "")


def test_several_parts_lead_to_each_source_once() -> None:
    assert keys("kafka-rest, KafkaRestConfig; rest-utils; kafka-rest") == ("kafka-rest", "rest-utils")
    assert list(cited(["rest-utils", "kafka-rest; MapR article"])) == [
        "kafka-rest",
        "rest-utils",
        "mapr-rest-tuning",
    ]


PLAN = Plan(
    topics={
        "leaf": {
            "t": (
                Setting(
                    "", "partitions", "3", "a.rule", "it is so", "KIP-345, static membership", "documented"
                ),
                Setting("", "k", "1", "a.rule", "it ran", "REST proxy facts; measured by run-1", "measured"),
            )
        }
    }
)


def test_a_full_plan_prints_title_and_address_of_what_it_cites() -> None:
    printed = text(PLAN, full=True)
    assert "  KIP-345  (kafka-improvement-proposals)\n        Kafka Improvement Proposals; Apache" in printed
    assert "        https://cwiki.apache.org/confluence/display/KAFKA/" in printed
    assert "  REST proxy facts  (measured-rest-proxy)" in printed
    assert "        lab/measurements/rest-proxy.md" in printed
    assert "  measured by run-1  (your-measurement)" in printed
    assert "MapR" not in printed
    assert "https://" not in text(PLAN)


def test_json_has_the_keys_of_each_source_with_title_and_address() -> None:
    document = PLAN.to_json()
    (_, second) = document["topics"]["leaf"]["t"]["settings"]
    assert second["sources"] == ["measured-rest-proxy", "your-measurement"]
    assert document["sources"].keys() == {
        "kafka-improvement-proposals",
        "measured-rest-proxy",
        "your-measurement",
    }
    proposals = document["sources"]["kafka-improvement-proposals"]
    assert proposals["title"] == "Kafka Improvement Proposals"
    assert proposals["address"].startswith("https://cwiki.apache.org/")
    assert proposals["version"] == "KIP-81, KIP-345, KIP-618, KIP-900"


def test_the_page_links_each_source_and_needs_no_network() -> None:
    rude = Setting("/f", "k<", "<b>&", "a.rule", "it <ran>", "KIP-345; folklore", "estimate")
    hidden = Setting("/f", "ssl.key.password", "hunter2", "a.rule", "asked", "the inventory", "yours")
    written = page_of(replace(PLAN, clients={"app": (rude, hidden)}), "inventories/mine")
    assert '<a href="#kafka-improvement-proposals">KIP-345</a>; folklore' in written
    assert '<tr id="kafka-improvement-proposals"><td>Kafka Improvement Proposals</td>' in written
    assert '<a href="https://cwiki.apache.org/confluence/display/KAFKA/' in written
    assert "k&lt;=&lt;b&gt;&amp;" in written and "<b>" not in written
    assert "ssl.key.password=***" in written and "hunter2" not in written
    assert '<span class="estimate">estimate</span> 1' in written and "of 4 settings" in written
    assert not re.search(r"<(script|img|iframe)|url\(|@import", written)
    assert re.findall(r"<link [^>]*>", written) == ['<link rel="icon" href="data:,">']


def test_every_setting_of_the_examples_json_leads_to_its_map(capsys: pytest.CaptureFixture[str]) -> None:
    main(["-i", str(ROOT / "inventories" / "example"), "--format", "json"])
    document = json.loads(capsys.readouterr().out)
    rows = list(_rows(document))
    assert len(rows) > 1000
    assert all(row["sources"] and set(row["sources"]) <= document["sources"].keys() for row in rows)


def _rows(document: Any) -> Iterator[dict[str, Any]]:
    if isinstance(document, list):
        for part in document:
            yield from _rows(part)
    elif isinstance(document, dict):
        if "basis" in document:
            yield document
        for part in document.values():
            yield from _rows(part)
