"""Each request of the contract as it goes over the wire, and what a client or a balancer sees of its answer.

``python -m tests.contract.exchanges http://host:8082 TOPIC`` asks a running kafka-rest 8.3.1, whose ``host.name`` is
the one in the URL, and writes what it shows into the table that stands for it.
"""

from __future__ import annotations

import gzip
import http.client
import json
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from tests.contract.rest_client import BINARY, JSON, V2, b64

_HEADERS: Final = ("Content-Type", "Content-Encoding", "Vary", "Connection", "Location", "Allow")
_RECORDED: Final = Path(__file__).with_name("kafka_rest_8_3_1.json")
_TYPED: Final = {"Content-Type": V2, "Accept": V2}
_VALUE: Final = {"value": b64(b"x")}
#: What an answer shows; header to value, `body` to the names and types in it.
Row = dict[str, Any]


@dataclass(frozen=True)
class Sent:
    """A request; ``{topic}``, ``{group}`` and ``{instance}`` stand for the run's own in path and body."""

    method: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str | bytes | None = None


def _produce(records: Any, kind: str = BINARY, path: str = "/topics/{topic}") -> Sent:
    return Sent("POST", path, {"Content-Type": kind, "Accept": V2}, json.dumps({"records": records}))


def _raw(body: str | bytes, **headers: str) -> Sent:
    return Sent("POST", "/topics/{topic}", {"Content-Type": BINARY, "Accept": V2} | headers, body)


def _of(
    method: str, what: str, body: str | None = None, accept: str = V2, instance: str = "{instance}"
) -> Sent:
    path = f"/consumers/{{group}}/instances/{instance}{what}"
    return Sent(method, path, {"Content-Type": V2, "Accept": accept}, body)


def _create(**wishes: str) -> Sent:
    return Sent("POST", "/consumers/{group}", _TYPED, json.dumps(wishes))


#: In this order, since a consumer is made, used and deleted.
SENT: Final[Mapping[str, Sent]] = {
    "root": Sent("GET", "/"),
    "root, head": Sent("HEAD", "/"),
    "root, not acceptable": Sent("GET", "/", {"Accept": "text/html"}),
    "root, another method": Sent("DELETE", "/"),
    "root, options": Sent("OPTIONS", "/"),
    "root, closing": Sent("GET", "/", {"Connection": "close"}),
    "root, header of 7 KiB": Sent("GET", "/", {"X-Long": "x" * 7 * 1024}),
    "root, header of 9 KiB": Sent("GET", "/", {"X-Long": "x" * 9 * 1024}),
    "root, path of 9 KiB": Sent("GET", "/" + "x" * 9 * 1024),
    "topics": Sent("GET", "/topics", {"Accept": V2}),
    "topics, any type": Sent("GET", "/topics"),
    "topics, plain JSON": Sent("GET", "/topics", {"Accept": "application/json"}),
    "topics, other records": Sent("GET", "/topics", {"Accept": BINARY}),
    "topics, not acceptable": Sent("GET", "/topics", {"Accept": "text/html"}),
    "topics, another method": Sent("PUT", "/topics/{topic}", _TYPED, "{}"),
    "topic": Sent("GET", "/topics/{topic}", {"Accept": V2}),
    "topic, unknown": Sent("GET", "/topics/no-such-topic", {"Accept": V2}),
    "brokers": Sent("GET", "/brokers", {"Accept": V2}),
    "clusters": Sent("GET", "/v3/clusters"),
    "unknown path": Sent("GET", "/no/such/path"),
    "produce": _produce([_VALUE]),
    "produce, 100 records": _produce([_VALUE] * 100),
    "produce, uncompressed answer": Sent(
        "POST",
        "/topics/{topic}",
        {"Content-Type": BINARY, "Accept": V2, "Accept-Encoding": "identity"},
        json.dumps({"records": [_VALUE] * 100}),
    ),
    "produce, any answer": Sent(
        "POST", "/topics/{topic}", {"Content-Type": BINARY}, json.dumps({"records": [_VALUE]})
    ),
    "produce, JSON": _produce([{"key": {"a": 1}, "value": {"b": [1, None]}}], JSON),
    "produce, null": _produce([{"key": b64(b"k"), "value": None}]),
    "produce, plain text": _produce([_VALUE], "text/plain"),
    "produce, another JSON": _produce([_VALUE], "application/json"),
    "produce, not acceptable": Sent(
        "POST", "/topics/{topic}", {"Content-Type": BINARY, "Accept": "text/html"}, '{"records": []}'
    ),
    "produce, compressed": _raw(gzip.compress(b'{"records": []}'), **{"Content-Encoding": "gzip"}),
    "produce, cut off": _raw('{"records": ['),
    "produce, no record": _raw('{"records": []}'),
    "produce, no records": _raw("{}"),
    "produce, nothing": _raw(""),
    "produce, not base64": _raw('{"records": [{"value": "***"}]}'),
    "produce, no object": _raw("[]"),
    "produce, record is no object": _raw('{"records": ["eA=="]}'),
    "produce, records are no list": _raw('{"records": {}}'),
    "produce, a number for base64": _raw('{"records": [{"value": 1}]}'),
    "produce, partition as text": _raw('{"records": [{"value": "eA==", "partition": "1"}]}'),
    "produce, partition no number": _raw('{"records": [{"value": "eA==", "partition": "x"}]}'),
    "produce, unknown field above": _raw('{"records": [{"value": "eA=="}], "colour": "red"}'),
    "produce, unknown field": _raw('{"records": [{"value": "eA==", "colour": "red"}]}'),
    "produce, no such partition": _produce([{"partition": -1, "value": b64(b"x")}]),
    "produce, unknown topic": _produce([_VALUE] * 2, path="/topics/no-such-topic"),
    "produce, one record of 2 MiB": _produce([_VALUE, {"value": b64(bytes(2 << 20))}]),
    "produce, 8 MiB": _produce([{"value": b64(bytes(800_000))}] * 8),
    "create": _create(name="{instance}", format="binary", **{"auto.offset.reset": "earliest"}),
    "create, name taken": _create(name="{instance}", format="binary"),
    "create, unknown format": _create(format="avocado"),
    "create, unknown reset": _create(**{"auto.offset.reset": "sometimes"}),
    "create, unknown field": _create(colour="red"),
    "create, other records": Sent("POST", "/consumers/{group}", {"Content-Type": V2, "Accept": JSON}, "[]"),
    "create, plain JSON": Sent(
        "POST", "/consumers/{group}", {"Content-Type": V2, "Accept": "application/json"}, "[]"
    ),
    "create, plain text": Sent("POST", "/consumers/{group}", {"Content-Type": "text/plain"}, "{}"),
    "create, not JSON": Sent("POST", "/consumers/{group}", _TYPED, "{"),
    "records, no subscription": _of("GET", "/records", accept=BINARY),
    "subscribe": _of("POST", "/subscription", '{"topics": ["{topic}"]}'),
    "subscribe, unknown instance": _of("POST", "/subscription", '{"topics": ["{topic}"]}', instance="nobody"),
    "subscribe, nothing": _of("POST", "/subscription", "{}"),
    "subscribe, pattern as well": _of("POST", "/subscription", '{"topic_pattern": "x.*"}'),
    "subscription": _of("GET", "/subscription"),
    "records": _of("GET", "/records?timeout=20000", accept=BINARY),
    "records, other format": _of("GET", "/records", accept=JSON),
    "records, not acceptable": _of("GET", "/records", accept="text/html"),
    "records, unknown instance": _of("GET", "/records", accept=BINARY, instance="nobody"),
    "assignments": _of("GET", "/assignments"),
    "commit": _of("POST", "/offsets"),
    "commit, explicit": _of(
        "POST", "/offsets", '{"offsets": [{"topic": "{topic}", "partition": 0, "offset": 0}]}'
    ),
    "commit, not JSON": _of("POST", "/offsets", "{"),
    "committed": _of("GET", "/offsets", '{"partitions": [{"topic": "{topic}", "partition": 0}]}'),
    "unsubscribe": _of("DELETE", "/subscription"),
    "instance, another method": _of("PUT", "/subscription", "{}"),
    "unknown action": _of("GET", "/colour"),
    "delete": _of("DELETE", ""),
    "delete, unknown instance": _of("DELETE", ""),
}


def played(url: str, topic: str, group: str) -> dict[str, Row]:
    """Return what each request shows of its answer, asked as a client that takes gzip."""
    names = {"{topic}": topic, "{group}": group, "{instance}": "one", "{url}": url}
    found = {}
    for name, sent in SENT.items():
        if sent.path.endswith("/records?timeout=20000"):
            _await_records(url, sent, names)
        found[name] = _row(url, sent, names)
    return found


def _await_records(url: str, sent: Sent, names: Mapping[str, str]) -> None:
    """Read until the instance has its partitions: the first answers may be empty."""
    while _row(url, sent, names)["body"] == []:
        pass


def _row(url: str, sent: Sent, names: Mapping[str, str]) -> Row:
    path, body = _named(sent.path, names), sent.body
    if isinstance(body, str):
        body = _named(body, names)
    place = urlsplit(url)
    connection = http.client.HTTPConnection(str(place.hostname), place.port, timeout=90)
    try:
        connection.request(sent.method, path, body, {"Accept-Encoding": "gzip"} | dict(sent.headers))
        answer = connection.getresponse()
        content = answer.read()
    finally:
        connection.close()
    if answer.headers["Content-Encoding"] == "gzip":
        content = gzip.decompress(content)
    row: Row = {"status": answer.status}
    row |= {name: answer.headers[name] for name in _HEADERS if answer.headers[name] is not None}
    try:
        row["body"] = _shape(json.loads(content), names)
    except ValueError:
        row["body"] = "nothing" if not content else "no JSON"
    return row


def _named(text: str, names: Mapping[str, str]) -> str:
    for name, value in names.items():
        text = text.replace(name, value)
    return text


def _shape(value: Any, names: Mapping[str, str], key: str = "") -> Any:
    """Return names and types; of values only codes of errors and what points to a place."""
    if isinstance(value, dict):
        return {name: _shape(each, names, name) for name, each in sorted(value.items())}
    if isinstance(value, list):
        return [json.loads(x) for x in sorted({json.dumps(_shape(x, names)) for x in value})]
    if key in {"error_code", "base_uri"}:
        for name, own in names.items():
            value = value.replace(own, name) if isinstance(value, str) else value
        return value
    return type(value).__name__


def speaks_http2(url: str) -> bool:
    """Return whether a listener without TLS answers the preface of HTTP/2 with its settings."""
    place = urlsplit(url)
    with socket.create_connection((str(place.hostname), place.port), timeout=10) as made:
        made.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5))
        return made.recv(9)[3:4] == b"\x04"


def recorded() -> dict[str, Row]:
    """Return what kafka-rest 8.3.1 showed."""
    found: dict[str, Row] = json.loads(_RECORDED.read_text(encoding="utf-8"))
    return found


if __name__ == "__main__":
    rows = (
        f"{json.dumps(name)}: {json.dumps(row)}"
        for name, row in played(sys.argv[1], sys.argv[2], "g").items()
    )
    _RECORDED.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")
