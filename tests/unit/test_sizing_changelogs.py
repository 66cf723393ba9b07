"""Changelog topics as a cluster has them, against what the stores of their application need."""

from __future__ import annotations

from typing import Any

import pytest

from kedge.services.planning import make_plan
from kedge.services.streams.changelogs import (
    Changelog,
    Needs,
    changelog_files,
    check_changelogs,
    from_configs,
    is_changelog,
    needs,
)
from kedge.services.streams.load import applications_json
from kedge.services.streams.stores import Kept
from kedge.services.streams.variables import StateStore, streams_apps
from tests.planned import CLUSTERS, JOINS, findings, streams

WEEK_MS = 604_800_000
KEYED = {"name": "keyed", "kind": "key_value", "partitions": 12}
#: Two minutes each way and one of grace are 5 minutes; 10 more against clocks that differ.
WINDOW_MS, WINDOWED_MS = 300_000, 900_000


def needed(*stores: dict[str, Any]) -> Needs:
    variables, wrong = streams_apps(streams(stores=list(stores)))
    assert not wrong
    return needs(variables["st1"])


def test_a_changelog_of_keys_has_two_files_of_each_segment_until_it_is_cleaned() -> None:
    store = StateStore(name="k", kind="key_value", partitions=10, keys=1_000_000, record_bytes=1_000)
    # 100 MB a partition in segments of 10 MB: twice ten that wait for the cleaner, and the open one.
    assert changelog_files([store], Kept(0, 0, segment_bytes=10_000_000)) == 2 * 10 * (2 * 10 + 1)


def test_what_a_changelog_keeps_follows_from_the_windows() -> None:
    assert needed(JOINS) == Needs(WINDOWED_MS, WINDOW_MS, keyed=False, segment_ms=WINDOWED_MS // 2)
    assert needed(KEYED) == Needs(0, 0, keyed=True)
    assert needed(JOINS | {"changelog": False}) == Needs(0, 0, keyed=False)
    assert applications_json(streams())["joins"]["changelogs"]["windowed_ms"] == WINDOWED_MS


@pytest.mark.parametrize(
    ("stores", "policy", "retention_ms", "said"),
    [
        ([JOINS], "compact,delete", WINDOWED_MS, None),
        ([JOINS], "delete, compact", WINDOW_MS, None),
        (
            [JOINS],
            "compact,delete",
            WEEK_MS,
            "warning: keeps records for 604800000 ms, and its windows need 900000",
        ),
        ([JOINS], "compact,delete", WEEK_MS, "a restore reads and takes 672 times as much"),
        ([JOINS], "delete", -1, "warning: keeps records for ever"),
        (
            [JOINS],
            "compact,delete",
            WINDOW_MS - 1,
            "error: keeps records for 299999 ms, less than the window",
        ),
        ([JOINS], "compact", WEEK_MS, "warning: has cleanup.policy=compact: with a new key for each window"),
        ([KEYED], "compact", WEEK_MS, None),
        ([KEYED], "delete", WEEK_MS, "error: has cleanup.policy=delete, and is all that is left of its keys"),
        ([JOINS, KEYED], "compact", WEEK_MS, None),
    ],
)
def test_a_changelog_that_keeps_too_much_or_too_little_is_a_finding(
    stores: list[dict[str, Any]], policy: str, retention_ms: int, said: str | None
) -> None:
    log = "joins-store-changelog"
    found = check_changelogs("joins", needed(*stores), [Changelog(log, policy, retention_ms)])
    texts = [f"{f.severity}: {f.message.removeprefix(log).strip()}" for f in found]
    assert (said is None) == (texts == [])
    if said is not None:
        assert said in texts[0]


def test_a_segment_that_stays_open_for_longer_than_planned_is_a_warning() -> None:
    log = {"cleanup.policy": "compact,delete", "retention.ms": str(WINDOWED_MS)}

    def found(**segments: int) -> list[str]:
        configs = {"joins-a-changelog": log | {k.replace("_", "."): str(v) for k, v in segments.items()}}
        return [f.fix for f in check_changelogs("joins", needed(JOINS), from_configs(configs))]

    (fix,) = found(segment_ms=WEEK_MS, segment_bytes=2**30)
    assert fix.startswith(f"set segment.ms={WINDOWED_MS // 2} on it with kafka-configs")
    assert found(segment_ms=WINDOWED_MS // 2, segment_bytes=2**30) == []
    assert found() == []


def test_the_shorter_of_two_windows_may_keep_less_than_the_longer_one() -> None:
    long = JOINS | {"name": "long", "window_ms": WEEK_MS}
    short = Changelog("joins-a-changelog", "compact,delete", WINDOWED_MS)
    assert check_changelogs("joins", needed(JOINS, long), [short]) == []


def test_a_topic_belongs_to_the_application_with_the_longest_name_that_fits() -> None:
    apps = ["joins", "joins-late"]
    assert is_changelog("joins-a-changelog", "joins", apps)
    assert not is_changelog("joins-late-a-changelog", "joins", apps)
    assert is_changelog("joins-late-a-changelog", "joins-late", apps)
    assert not is_changelog("joins-a-repartition", "joins", apps)


def test_a_rate_without_the_size_of_its_records_is_no_rate() -> None:
    rated = JOINS | {"records_per_s": 9}
    assert make_plan(streams(stores=[rated], record_bytes=None)) == make_plan(streams(record_bytes=None))


@pytest.mark.parametrize(("brokers", "copies"), [(None, 3), (2, 2), (5, 3)])
def test_one_copy_is_answered_with_as_many_as_there_are_brokers_for(brokers: int | None, copies: int) -> None:
    leaf = {k: v for k, v in CLUSTERS["leaf"].items() if k not in ("brokers", "broker_count")}
    known = {**CLUSTERS, "leaf": leaf | ({"broker_count": brokers} if brokers else {})}
    inventory = streams(common={"kafka_clusters": known}, settings={"replication.factor": 1})
    (found,) = findings(inventory, "streams.changelog", "warning")
    assert found.fix.endswith(f"or set it to {copies}")
