"""A small client of the v2 API, for the contract's tests only."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import quote

import httpx

from tests.contract.answers import ANSWERS, Answers

V2: Final = "application/vnd.kafka.v2+json"
BINARY: Final = "application/vnd.kafka.binary.v2+json"
JSON: Final = "application/vnd.kafka.json.v2+json"

Record = dict[str, Any]


def b64(data: bytes) -> str:
    """Return what the binary format puts into JSON."""
    return base64.b64encode(data).decode()


def produce(rest: httpx.Client, topic: str, records: list[Record], kind: str = BINARY) -> httpx.Response:
    """Send records, already in the form of the API, in one request."""
    return rest.post(
        f"/topics/{quote(topic, safe='')}",
        json={"records": records},
        headers={"Content-Type": kind, "Accept": V2},
    )


def offsets(answer: httpx.Response) -> list[tuple[int, int]]:
    """Return partition and offset of each record of a produce request in which none failed."""
    assert answer.status_code == 200, answer.text
    found = answer.json()["offsets"]
    assert all(each.get("error_code") is None for each in found), found
    return [(each["partition"], each["offset"]) for each in found]


class Consumer:
    """One consumer instance, used through the base_uri that its creation was answered with."""

    def __init__(
        self, rest: httpx.Client, group: str, answers: Answers = ANSWERS["sandbox"], **wishes: str
    ) -> None:
        body = {"format": "binary", "auto.offset.reset": "earliest", **answers.spoken.own_commits, **wishes}
        self.answers = answers
        answer = rest.post(f"/consumers/{group}", json=body, headers={"Content-Type": V2})
        assert answer.status_code == 200, answer.text
        self.format = str(body["format"])
        self.instance_id = answer.json()["instance_id"]
        self.base_uri = answer.json()["base_uri"]
        self.http = httpx.Client(headers={"Accept": V2, "Content-Type": V2}, timeout=60)

    def subscribe(self, topic: str) -> None:
        answer = self.http.post(f"{self.base_uri}/subscription", json={"topics": [topic]})
        assert answer.status_code == 204, answer.text

    def subscription(self) -> dict[str, Any]:
        answer = self.http.get(f"{self.base_uri}/subscription")
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def get_records(self, accept: str | None = None, **query: int) -> httpx.Response:
        wanted = accept or {"binary": BINARY, "json": JSON}[self.format]
        return self.http.get(f"{self.base_uri}/records", params=query, headers={"Accept": wanted})

    def read(self, **query: int) -> list[Record]:
        answer = self.get_records(None, **query)
        assert answer.status_code == 200, answer.text
        found: list[Record] = answer.json()
        for each in found if self.format == "binary" else []:
            each["value"] = base64.b64decode(each["value"]) if each["value"] is not None else None
            each["key"] = base64.b64decode(each["key"]) if each["key"] is not None else None
        return found

    def read_until(
        self, enough: Callable[[list[Record]], bool], limit_s: float = 30, **query: int
    ) -> list[Record]:
        """Read on until ``enough`` says so of all that came; fails after ``limit_s`` seconds."""
        found: list[Record] = []
        deadline = time.monotonic() + limit_s
        while not enough(found):
            assert time.monotonic() < deadline, f"only {len(found)} records within {limit_s} s"
            found += self.read(**({"timeout": 1000} | query))
        return found

    def assignment(self) -> set[tuple[str, int]]:
        """Return the partitions that the instance has, as itself or as its subscription tells."""
        if self.answers.tells_assignments:
            answer = self.http.get(f"{self.base_uri}/assignments")
            assert answer.status_code == 200, answer.text
            return {(each["topic"], each["partition"]) for each in answer.json()["partitions"]}
        topics = self.subscription()["partitions"]
        return {(topic, number) for each in topics for topic, numbers in each.items() for number in numbers}

    def commit(self, explicit: list[Record] | None = None) -> None:
        uri = f"{self.base_uri}/offsets"
        answer = self.http.post(uri) if explicit is None else self.http.post(uri, json={"offsets": explicit})
        assert answer.status_code in {200, 204}, answer.text

    def delete(self) -> httpx.Response:
        return self.http.delete(self.base_uri)
