"""What an answer of a REST proxy says of each record, and what load.json may say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from verify.load.config import LoadError, lanes, read_load, workers
from verify.load.ledger import ACKED, FAILED, UNKNOWN
from verify.load.rest_producers import instance_of, read_answer, transport_outcome


def body(*entries: dict[str, Any]) -> bytes:
    return json.dumps({"offsets": list(entries), "key_schema_id": None}).encode()


def test_entry_with_an_offset_is_acked() -> None:
    (entry,) = read_answer(200, body({"partition": 3, "offset": 9, "error_code": None, "error": None}), 1)
    assert (entry.outcome, entry.partition, entry.offset, entry.error) == (ACKED, 3, 9, None)


def test_error_inside_a_200_fails_that_record_alone() -> None:
    entries = read_answer(
        200,
        body({"partition": 0, "offset": 1}, {"error_code": 50003, "error": "timed out", "partition": None}),
        2,
    )
    assert [entry.outcome for entry in entries] == [ACKED, FAILED]
    assert entries[1].error == "error_code 50003: timed out"


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (503, FAILED),
        (404, FAILED),
        (422, FAILED),
        (429, FAILED),
        (408, UNKNOWN),
        (500, UNKNOWN),
        (502, UNKNOWN),
        (504, UNKNOWN),
    ],
)
def test_other_status_is_failed_only_if_nobody_took_the_request(status: int, outcome: int) -> None:
    entries = read_answer(status, b"why", 3)
    assert [entry.outcome for entry in entries] == [outcome] * 3
    assert entries[0].error == f"HTTP {status}: why"


@pytest.mark.parametrize("answer", [b"", b"[]", b"{}", b'{"offsets": 1}', body(), body({"partition": 1})])
def test_200_that_says_nothing_of_a_record_leaves_it_unknown(answer: bytes) -> None:
    assert [entry.outcome for entry in read_answer(200, answer, 1)] == [UNKNOWN]


def test_only_a_connection_that_never_came_about_is_a_failure() -> None:
    assert transport_outcome(httpx.ConnectError("refused")) == FAILED
    assert transport_outcome(httpx.ConnectTimeout("slow")) == FAILED
    assert transport_outcome(httpx.ReadTimeout("no answer")) == UNKNOWN
    assert transport_outcome(httpx.RemoteProtocolError("closed")) == UNKNOWN
    assert transport_outcome(httpx.WriteError("reset")) == UNKNOWN


def test_instance_is_what_the_balancer_says() -> None:
    assert instance_of(httpx.Response(200, headers={"X-Served-By": "10.0.0.2:8083"})) == "10.0.0.2:8083"
    assert instance_of(httpx.Response(200)) is None


KAFKA = {"topic": "t", "records_per_s": 100, "producers": 2, "consumers": 2, "group": "g"}
REST = {"topic": "u", "url": "http://x", "records_per_s": 100, "producers": 2, "consumers": 3, "group": "h"}
LOAD = {"run_id": "r", "cluster": "leaf", "bootstrap_servers": "x:1", "kafka": KAFKA, "rest": REST}


def write(folder: Path, load: dict[str, Any]) -> Path:
    (folder / "load.json").write_text(json.dumps(load))
    return folder


def test_producers_are_numbered_through_and_share_the_rate(tmp_path: Path) -> None:
    found = lanes(read_load(write(tmp_path, LOAD)))
    assert [(lane.actor, lane.producer, lane.rate, lane.per_request) for lane in found] == [
        ("kafka-producer-0", 0, 50.0, 1),
        ("kafka-producer-1", 1, 50.0, 1),
        ("rest-producer-2", 2, 50.0, 100),
        ("rest-producer-3", 3, 50.0, 100),
    ]


def test_every_actor_has_one_process(tmp_path: Path) -> None:
    assert workers(read_load(write(tmp_path, LOAD))) == {
        "watch": ["watch", "group-kafka", "group-rest"],
        "kafka-consumer-0": ["kafka-consumer-0"],
        "kafka-consumer-1": ["kafka-consumer-1"],
        "rest-consumers": ["rest-consumer-0", "rest-consumer-1", "rest-consumer-2"],
        "kafka-producer-0": ["kafka-producer-0"],
        "kafka-producer-1": ["kafka-producer-1"],
        "rest-producers": ["rest-producer-2", "rest-producer-3"],
    }


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kafka": None, "rest": None}, "nothing to load"),
        ({"kafka": {**KAFKA, "records_per_s": 0}}, r"kafka\.records_per_s"),
        ({"kafka": {**KAFKA, "record_bytes": 20}}, r"kafka\.record_bytes"),
        ({"kafka": {**KAFKA, "recrods": 20}}, r"kafka\.recrods"),
        ({"rest": {**REST, "topic": "t"}}, "share the topic"),
        ({"rest": {**REST, "group": "g"}}, "share a consumer group"),
    ],
)
def test_load_that_cannot_be_is_refused_in_one_line(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(LoadError, match=message) as caught:
        read_load(write(tmp_path, {**LOAD, **change}))
    assert "\n" not in str(caught.value)


def test_missing_and_broken_load_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match=r"load\.json cannot be read"):
        read_load(tmp_path)
    (tmp_path / "load.json").write_text("{")
    with pytest.raises(LoadError, match="not JSON"):
        read_load(tmp_path)
