from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest

from tests.contract.answers import Answers
from tests.contract.rest_client import BINARY, JSON, V2, Consumer, b64, offsets, produce


def test_root_answers_an_object(rest: httpx.Client, answers: Answers) -> None:
    answer = rest.get("/")
    assert (answer.status_code, answer.json().keys()) == (200, answers.root.keys())


def test_topic_is_listed_and_described(rest: httpx.Client, topic: str) -> None:
    assert topic in rest.get("/topics", headers={"Accept": V2}).json()
    described = rest.get(f"/topics/{topic}", headers={"Accept": V2}).json()
    assert described["name"] == topic
    assert len(described["partitions"]) >= 2
    assert all(each["replicas"] for each in described["partitions"])


def test_unknown_topic_is_not_described(rest: httpx.Client, answers: Answers) -> None:
    answer = rest.get("/topics/no-such-topic", headers={"Accept": V2})
    assert (answer.status_code, answer.json()["error_code"]) == answers.unknown_topic


def test_brokers_and_clusters_show_that_the_cluster_is_reached(rest: httpx.Client, answers: Answers) -> None:
    if not answers.shows_cluster:
        assert {rest.get(path).status_code for path in ("/brokers", "/v3/clusters")} == {404}
        return
    assert rest.get("/brokers", headers={"Accept": V2}).json()["brokers"]
    assert rest.get("/v3/clusters").json()["data"][0]["cluster_id"]


def test_each_record_gets_its_offset(rest: httpx.Client, topic: str, tag: bytes) -> None:
    answer = produce(rest, topic, [{"value": b64(tag + bytes([i]))} for i in range(100)])
    assert len(set(offsets(answer))) == 100


def test_records_keep_their_order_in_a_partition(
    rest: httpx.Client, topic: str, tag: bytes, consumer: Callable[..., Consumer]
) -> None:
    sent = [tag + b"%03d" % i for i in range(60)]
    places: list[tuple[int, int]] = []
    for start in range(0, 60, 20):
        records = [{"partition": 1, "value": b64(value)} for value in sent[start : start + 20]]
        places += offsets(produce(rest, topic, records))
    assert [partition for partition, _ in places] == [1] * 60
    assert places == sorted(places)

    reader = consumer()
    reader.subscribe(topic)
    got = reader.read_until(lambda found: sum((each["value"] or b"").startswith(tag) for each in found) == 60)
    ours = [each for each in got if (each["value"] or b"").startswith(tag)]
    assert [each["value"] for each in ours] == sent
    assert [each["offset"] for each in ours] == [offset for _, offset in places]


def test_records_of_a_key_share_a_partition(rest: httpx.Client, topic: str, tag: bytes) -> None:
    records = [{"key": b64(tag + bytes([i])), "value": b64(tag)} for i in range(8)]
    first, second = (offsets(produce(rest, topic, records)) for _ in range(2))
    assert [partition for partition, _ in first] == [partition for partition, _ in second]


def test_all_bytes_survive_and_nulls_where_a_proxy_knows_them(
    rest: httpx.Client, topic: str, tag: bytes, consumer: Callable[..., Consumer], answers: Answers
) -> None:
    sent = [(tag, bytes(range(256))), (tag, b""), (tag, None)]
    records = [
        {"partition": 0, "key": b64(key), "value": None if value is None else b64(value)}
        for key, value in sent
    ]
    offsets(produce(rest, topic, records))
    reader = consumer()
    reader.subscribe(topic)
    got = reader.read_until(lambda found: sum(each["key"] == tag for each in found) == 3)
    came = [(key, answers.null_becomes if value is None else value) for key, value in sent]
    assert [(each["key"], each["value"]) for each in got if each["key"] == tag] == came


def test_json_values_are_taken(rest: httpx.Client, tag: bytes, topic: str, answers: Answers) -> None:
    values = [{"tag": tag.decode(), "n": 1.5, "l": [1, None, "ä"]}, "text"]
    answer = produce(rest, topic, [{"value": value} for value in values], JSON)
    assert len(offsets(answer)) == 2
    answer = produce(rest, topic, [{"value": 7}], JSON)
    if answers.json_numbers:
        assert len(offsets(answer)) == 1
    else:
        assert answer.status_code == 400


def test_encoded_topic_name_is_decoded(rest: httpx.Client, topic: str, tag: bytes) -> None:
    encoded = "".join(f"%{byte:02X}" for byte in topic.encode())
    answer = rest.post(
        f"/topics/{encoded}",
        json={"records": [{"value": b64(tag)}]},
        headers={"Content-Type": BINARY, "Accept": V2},
    )
    assert len(offsets(answer)) == 1


@pytest.mark.parametrize("kind", ["text/plain", "application/json"])
def test_body_of_another_type_is_refused(rest: httpx.Client, topic: str, kind: str, answers: Answers) -> None:
    answer = produce(rest, topic, [{"value": "eA=="}], kind)
    assert answer.status_code == answers.other_type


@pytest.mark.parametrize(
    ("what", "body"),
    [
        ("cut off", '{"records": ['),
        ("no record", '{"records": []}'),
        ("not base64", '{"records": [{"value": "***"}]}'),
        ("no object", "[]"),
        ("record is no object", '{"records": ["eA=="]}'),
    ],
    ids=lambda each: each if each.isascii() and each.replace(" ", "").isalnum() else "",
)
def test_malformed_request_is_refused(
    rest: httpx.Client, topic: str, what: str, body: str, answers: Answers
) -> None:
    answer = rest.post(f"/topics/{topic}", content=body, headers={"Content-Type": BINARY, "Accept": V2})
    if what in answers.takes_malformed:
        assert answer.status_code == 200
        return
    assert answer.status_code in {400, 422}
    assert {"error_code", "message"} <= answer.json().keys()


def test_record_for_an_unknown_topic_gets_no_offset(rest: httpx.Client, answers: Answers) -> None:
    """A proxy may answer 404, or 200 with the error where the offset would be."""
    answer = produce(rest, "no-such-topic", [{"value": "eA=="}, {"value": "eA=="}])
    if answer.status_code == 200:
        found = answer.json()["offsets"]
        assert [each.get("offset") for each in found] == [None, None]
        assert all(each["error_code"] for each in found)
    else:
        assert (answer.status_code, answer.json()["error_code"]) == answers.unknown_topic


def test_failed_record_is_named_in_its_place_and_the_others_are_kept(
    rest: httpx.Client, topic: str, tag: bytes, answers: Answers
) -> None:
    """A record beyond max.request.size (1 MiB by default) fails alone, and the status stays 200."""
    records = [{"value": b64(tag)}, {"value": b64(bytes(2 * 1024 * 1024))}, {"value": b64(tag)}]
    answer = produce(rest, topic, records)
    assert answer.status_code == 200
    found = answer.json()["offsets"]
    assert [each.get("error_code") is None for each in found] == [True, False, True]
    assert [each.get("offset") is None for each in found] == [False, True, False]
    assert all({"offset", "error_code"} <= each.keys() for each in found) == answers.full_entries


def test_unknown_path_is_not_found(rest: httpx.Client) -> None:
    assert rest.get("/no/such/path").status_code == 404
