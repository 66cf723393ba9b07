"""docs/sources.yml knows every source that a plan prints, and docs/sources.md says what it knows."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from sizing.core.settings import Choice, Sheet
from sizing.inventory.reading import read_inventory
from sizing.plan import make_plan
from sizing.services import SERVICES
from tests.rules import ROOT, inventories, settings
from tests.sources import DOCS, PAGE, found, page, parts, read

SOURCES = read()


@pytest.fixture(scope="module")
def printed() -> Iterator[set[str]]:
    """Yield the sources of all inventories' plans, by either advice."""
    seen: set[str] = set()
    put = Sheet.put

    def noted(
        sheet: Sheet,
        file: str,
        key: str,
        rule: str,
        documented: Choice | None,
        measured: Choice | None = None,
    ) -> str | None:
        seen.update(choice.source for choice in (documented, measured) if choice)
        return put(sheet, file, key, rule, documented, measured)

    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(Sheet, "put", noted)
        for inventory in (
            *inventories(),
            read_inventory(ROOT / "tests" / "e2e" / "inventory_rest", SERVICES),
        ):
            for advice in ("documented", "measured"):
                seen.update(s.source for s in settings(make_plan(inventory, advice)))  # type: ignore[arg-type] # a literal of two
        yield seen


def test_every_source_of_a_plan_leads_to_a_known_source_and_section(printed: set[str]) -> None:
    assert len(printed) > 100
    nowhere = {part for source in printed for part in parts(source) if found(part, SOURCES) is None}
    assert nowhere == set()


def test_a_source_that_nobody_knows_leads_nowhere() -> None:
    assert found("Confluent REST Proxy production guide, Appendix", SOURCES) is None
    assert found("Folklore", SOURCES) is None
    assert found("kafka-rest, KafkaRestConfig", SOURCES) == ("kafka-rest", "KafkaRestConfig")
    assert found("mirror_maker_flows.metrics.latency_budget_ms", SOURCES) == ("inventory", "")


def test_every_known_source_is_told_apart() -> None:
    aliases = [alias for source in SOURCES.values() for alias in source["aliases"]]
    assert len(aliases) == len(set(aliases))
    for key, source in SOURCES.items():
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", key)
        assert source["kind"] in {"document", "code", "measured", "yours"}, key
        assert {"title", "publisher", "address", "version"} <= source.keys(), key


def test_every_address_is_of_the_web_or_a_file_that_exists() -> None:
    for key, source in SOURCES.items():
        address = source["address"]
        assert address.startswith("https://") or (DOCS / address).exists(), key


def test_every_section_of_a_measurement_is_a_heading_of_its_page() -> None:
    for key, source in SOURCES.items():
        if source["kind"] == "measured" and source["address"].endswith(".md"):
            headings = re.findall(r"^## (.+)$", (DOCS / source["address"]).read_text(), flags=re.MULTILINE)
            sections = {section.lower() for section in source.get("sections", ())}
            assert sections <= {heading.lower() for heading in headings}, key


def test_the_page_is_made_from_the_file() -> None:
    assert PAGE.read_text() == page(SOURCES), "python -m tests.sources"
