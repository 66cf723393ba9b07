from __future__ import annotations

import time
from collections.abc import Callable
from urllib.parse import urlsplit

import httpx
import pytest

from tests.contract.answers import Answers
from tests.contract.conftest import Target
from tests.contract.rest_client import BINARY, JSON, V2, Consumer, Record, b64, offsets, produce

Make = Callable[..., Consumer]


def send(rest: httpx.Client, topic: str, tag: bytes, count: int, partition: int = 0) -> list[int]:
    """Produce records tag+number into a partition and return their offsets."""
    records = [{"partition": partition, "value": b64(tag + b"%05d" % i)} for i in range(count)]
    return [offset for _, offset in offsets(produce(rest, topic, records))]


def ours(found: list[Record], tag: bytes) -> list[int]:
    """Return the numbers of the test's own records."""
    return [int(each["value"][len(tag) :]) for each in found if (each["value"] or b"").startswith(tag)]


def read_ours(reader: Consumer, tag: bytes, count: int, **query: int) -> list[int]:
    """Read until that many of the test's own records came."""
    return ours(reader.read_until(lambda found: len(ours(found, tag)) >= count, **query), tag)


def test_instance_lives_from_creation_to_deletion(
    rest: httpx.Client, topic: str, tag: bytes, consumer: Make, answers: Answers
) -> None:
    send(rest, topic, tag, 20)
    reader = consumer()
    reader.subscribe(topic)
    # Where it tells the partitions, it tells the topics that they are of.
    assert reader.subscription()["topics"] == ([topic] if answers.tells_assignments else [])
    assert read_ours(reader, tag, 20) == list(range(20))
    assert reader.subscription()["topics"] == [topic]
    assert (topic, 0) in reader.assignment()
    assert reader.delete().status_code == 204
    gone = reader.get_records()
    assert (gone.status_code, gone.json()["error_code"]) == answers.unknown_instance


def test_base_uri_is_absolute_and_leads_to_the_instance(consumer: Make, group: str) -> None:
    reader = consumer()
    parts = urlsplit(reader.base_uri)
    assert parts.scheme in {"http", "https"}
    assert parts.hostname
    assert parts.path == f"/consumers/{group}/instances/{reader.instance_id}"
    assert reader.subscription()["topics"] == []


def test_name_may_be_chosen_once(rest: httpx.Client, consumer: Make, group: str, answers: Answers) -> None:
    assert consumer(name="chosen").instance_id == "chosen"
    again = rest.post(f"/consumers/{group}", json={"name": "chosen"}, headers={"Content-Type": V2})
    assert (again.status_code, again.json()["error_code"]) == answers.taken_name


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/records"), ("POST", "/offsets"), ("GET", "/assignments"), ("DELETE", "")],
)
def test_unknown_instance_is_not_found(
    rest: httpx.Client, group: str, method: str, path: str, answers: Answers
) -> None:
    answer = rest.request(
        method, f"/consumers/{group}/instances/nobody{path}", headers={"Accept": f"{BINARY}, {V2}"}
    )
    if path == "/assignments" and not answers.tells_assignments:
        assert answer.status_code == 405
        return
    assert (answer.status_code, answer.json()["error_code"]) == answers.unknown_instance


@pytest.mark.parametrize(
    "wishes", [{"format": "no-such-format"}, {"auto.offset.reset": "no-such-place"}], ids=["format", "reset"]
)
def test_instance_with_an_impossible_wish_is_refused(
    rest: httpx.Client, group: str, wishes: dict[str, str]
) -> None:
    answer = rest.post(f"/consumers/{group}", json=wishes, headers={"Content-Type": V2})
    assert answer.status_code in {400, 422}


def test_records_are_refused_in_a_format_that_the_instance_does_not_have(
    topic: str, consumer: Make, answers: Answers
) -> None:
    reader = consumer()
    reader.subscribe(topic)
    answer = reader.get_records(accept=JSON, timeout=100)
    assert (answer.status_code, answer.json()["error_code"]) == answers.other_format


def test_json_instance_gets_json_values(rest: httpx.Client, topic: str, tag: bytes, consumer: Make) -> None:
    value = {"tag": tag.decode(), "list": [1, 2.5, None, "ä"]}
    reader = consumer(format="json", **{"auto.offset.reset": "latest"})
    reader.subscribe(topic)
    # Until the instance stands at the end of its partitions, what is produced is not for it.
    reader.read_until(lambda found: bool(reader.assignment()))
    deadline = time.monotonic() + 20
    found: list[Record] = []
    while not any(each["value"] == value for each in found):
        assert time.monotonic() < deadline, found
        offsets(produce(rest, topic, [{"value": value}], JSON))
        found += reader.read(timeout=500)


def test_commit_survives_the_instance(rest: httpx.Client, topic: str, tag: bytes, consumer: Make) -> None:
    send(rest, topic, tag, 10)
    first = consumer()
    first.subscribe(topic)
    assert read_ours(first, tag, 10) == list(range(10))
    first.commit()
    first.delete()

    records = [{"partition": 0, "value": b64(tag + b"%05d" % i)} for i in range(10, 15)]
    offsets(produce(rest, topic, records))
    second = consumer()
    second.subscribe(topic)
    assert read_ours(second, tag, 5) == list(range(10, 15))


def test_explicit_commit_names_a_record(
    rest: httpx.Client, topic: str, tag: bytes, consumer: Make, answers: Answers
) -> None:
    """To kafka-rest it names the last one that was processed, to the bridge the next one to read."""
    places = send(rest, topic, tag, 10)
    first = consumer()
    first.subscribe(topic)
    read_ours(first, tag, 10)
    first.commit([{"topic": topic, "partition": 0, "offset": places[5]}])
    if answers.tells_assignments:
        committed = first.http.request(
            "GET", f"{first.base_uri}/offsets", json={"partitions": [{"topic": topic, "partition": 0}]}
        )
        assert [each["offset"] for each in committed.json()["offsets"]] == [places[5] + 1]
    first.delete()

    second = consumer()
    second.subscribe(topic)
    left = list(range(5 + answers.spoken.commit_adds, 10))
    assert read_ours(second, tag, len(left)) == left


def test_uncommitted_records_come_again(rest: httpx.Client, topic: str, tag: bytes, consumer: Make) -> None:
    send(rest, topic, tag, 5)
    for _ in range(2):
        reader = consumer()
        reader.subscribe(topic)
        assert read_ours(reader, tag, 5) == list(range(5))
        reader.delete()


def test_group_over_two_proxies_shares_the_partitions(
    target: Target, rest: httpx.Client, topic: str, tag: bytes, consumer: Make
) -> None:
    partitions = len(rest.get(f"/topics/{topic}").json()["partitions"])
    with httpx.Client(base_url=target.second_url, timeout=90) as other:
        pair = [consumer(), consumer(at=other)]
    for each in pair:
        each.subscribe(topic)
    deadline = time.monotonic() + 60
    while not all(each.assignment() for each in pair) or pair[0].assignment() & pair[1].assignment():
        assert time.monotonic() < deadline, [each.assignment() for each in pair]
        for each in pair:
            each.read(timeout=300)
    owned = [each.assignment() for each in pair]
    assert owned[0] | owned[1] == {(topic, partition) for partition in range(partitions)}
    for partition in range(partitions):
        send(rest, topic, tag, 5, partition)
    got: list[Record] = []
    while len(ours(got, tag)) < 5 * partitions:
        assert time.monotonic() < deadline, len(ours(got, tag))
        for each, mine in zip(pair, owned, strict=True):
            found = each.read(timeout=300)
            assert {(topic, record["partition"]) for record in found} <= mine
            got += found
    assert sorted(ours(got, tag)) == sorted(list(range(5)) * partitions)

    pair[1].delete()
    while pair[0].assignment() != owned[0] | owned[1]:
        assert time.monotonic() < deadline, pair[0].assignment()
        pair[0].read(timeout=300)


def test_read_of_nothing_ends_at_its_timeout(topic: str, consumer: Make) -> None:
    reader = consumer(**{"auto.offset.reset": "latest"})
    reader.subscribe(topic)
    reader.read_until(lambda found: bool(reader.assignment()))
    started = time.monotonic()
    assert reader.read(timeout=400) == []
    assert 0.2 < time.monotonic() - started < 2


def test_read_stays_under_max_bytes_and_goes_on_where_it_ended(
    rest: httpx.Client, topic: str, tag: bytes, consumer: Make, answers: Answers
) -> None:
    values = [tag + b"%05d" % i + bytes(1000 - len(tag) - 5) for i in range(10)]
    reader = consumer(**{"auto.offset.reset": "latest"})
    reader.subscribe(topic)
    reader.read_until(lambda found: bool(reader.assignment()))
    offsets(produce(rest, topic, [{"partition": 0, "value": b64(value)} for value in values]))
    deadline = time.monotonic() + 60
    if not answers.spoken.max_bytes:
        while (answer := reader.get_records(timeout=1000, max_bytes=3500)).status_code == 200:
            assert answer.json() == []
            assert time.monotonic() < deadline
        assert answer.status_code == 422
        (place,) = send(rest, topic, tag, 1)
        # What was refused is passed over.
        assert reader.read_until(bool, max_bytes=3500)[0]["offset"] == place
        return
    found: list[bytes] = []
    while len(found) < 10:
        assert time.monotonic() < deadline
        records = reader.read(timeout=1000, max_bytes=3500)
        assert sum(len(each["value"] or b"") + len(each["key"] or b"") for each in records) <= 3500
        found += [each["value"] for each in records if (each["value"] or b"").startswith(tag)]
    assert found == values
