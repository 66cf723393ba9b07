"""What a REST proxy answers is read within bounds, and its word sends no login anywhere."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kedge.deploy.load_spec import load_spec
from kedge.evidence.border.proxy import instance, may_log_in, offsets, origin, place, records, refusal
from kedge.evidence.border.untrusted import UntrustedError
from kedge.evidence.load_options import RestLoad
from tests.unit.test_load_rest import planned
from tests.unit.test_load_rest_consumers import OtherProxy, Proxy, consume
from verify.load.ledger import OTHERS, UNKNOWN, Names
from verify.load.rest_connections import NoAnswerError, Wire
from verify.load.rest_consumers import ConsumerRefusedError
from verify.load.rest_producers import read_answer

TLS, PLAIN = "https://lb:8443/behind", "http://lb:8080"
OWN = ["https://rest1:8082", "http://rest2:8082"]
LOGIN = {"user": "me", "password": "own-word"}


def made(base_uri: Any) -> bytes:
    return json.dumps({"instance_id": "a", "base_uri": base_uri}).encode()


@pytest.mark.parametrize(
    ("url", "proxies", "told", "follows", "logs_in"),
    [
        (TLS, OWN, "https://lb:8443/consumers/g/instances/a", True, True),
        (TLS, OWN, "https://REST1:8082/consumers/g/instances/a", True, True),
        (TLS, OWN, "http://rest2:8082/consumers/g/instances/a", True, False),
        (TLS, OWN, "http://lb:8443/consumers/g/instances/a", False, False),
        (TLS, OWN, "https://evil:8082/consumers/g/instances/a", False, False),
        (TLS, OWN, "https://rest1/consumers/g/instances/a", False, False),
        (TLS, [], "https://rest1:8082/consumers/g/instances/a", True, False),
        (TLS, [], "http://rest1:8082/consumers/g/instances/a", False, False),
        (PLAIN, OWN, "http://rest2:8082/consumers/g/instances/a", True, True),
        (PLAIN, OWN, "https://rest1:8082/consumers/g/instances/a", True, True),
        (PLAIN, OWN, "http://169.254.169.254/consumers/g/instances/a", False, False),
        (PLAIN, [], "http://rest2:8082/consumers/g/instances/a", True, False),
        ("http://lb", [], "http://lb:80/consumers/g/instances/a", True, True),
        (PLAIN, ["http://[fe80::1]:8082"], "http://[FE80::1]:8082/consumers/g/instances/a", True, True),
    ],
)
def test_a_consumer_and_its_login_go_to_places_of_ours_alone(
    url: str, proxies: list[str], told: str, follows: bool, logs_in: bool
) -> None:
    if follows:
        assert place(made(told), url, proxies) == told
    else:
        with pytest.raises(UntrustedError, match="none of verify"):
            place(made(told), url, proxies)
    assert may_log_in(told, url, proxies) is logs_in


@pytest.mark.parametrize(
    "told",
    [
        "http://lb:8080@evil/consumers/g/instances/a",
        "http://lb:8080\\@evil/consumers",
        "http://lb:8080/consumers/g/instances/a?x=1",
        "http://lb:8080/consumers/g#a",
        "http://lb:8080/consumers/g\r\nX-Evil: 1",
        "http://lb:0/consumers",
        "http://lb:99999/consumers",
        "http://lb:8080/\u202e",
        "http://\u217cb:8080/",
        "file:///etc/shadow",
        "//lb:8080/consumers",
        "http:/lb",
        "http://",
        "lb:8080",
        "",
        "http://lb:8080/" + "x" * 2_000,
        None,
        5,
        ["http://lb:8080"],
    ],
)
def test_what_is_no_place_is_not_followed(told: Any) -> None:
    with pytest.raises(UntrustedError):
        place(made(told), PLAIN, [])


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    with Proxy() as server:
        yield server


@pytest.fixture
def other(proxy: Proxy) -> Iterator[OtherProxy]:
    with OtherProxy(proxy, ends=True) as server:
        yield server


def test_a_login_goes_to_no_other_place_that_a_proxy_names(
    proxy: Proxy, other: OtherProxy, tmp_path: Path
) -> None:
    proxy.elsewhere = [other]
    own = [proxy.url]
    with pytest.raises(
        ConsumerRefusedError, match=r"no consumer can begin: a proxy names .*proxies; name its"
    ):
        consume(proxy, tmp_path, proxies=own, **LOGIN)
    assert other.logins == []
    assert proxy.logins == ["Basic bWU6b3duLXdvcmQ="]


def test_a_consumer_that_is_sent_elsewhere_later_makes_itself_a_new_instance(
    proxy: Proxy, other: OtherProxy, tmp_path: Path
) -> None:
    proxy.elsewhere, proxy.emptied = [None, other], ["records"]
    assert consume(proxy, tmp_path, proxies=[proxy.url], **LOGIN) == 2
    assert other.logins == []
    assert proxy.made == 3


def test_a_login_is_withheld_where_no_proxy_is_known(proxy: Proxy, other: OtherProxy, tmp_path: Path) -> None:
    proxy.elsewhere = [other]
    assert consume(proxy, tmp_path, **LOGIN) == 0
    assert other.committed
    assert set(other.logins) == {None}
    assert None not in proxy.logins


def test_verify_yml_names_the_planned_proxies() -> None:
    plan = planned({}, {})
    first, second = plan["hosts"]["r1"]["services"]["kafka_rest"]["instances"]
    first["settings"] = [
        {"file": "/etc/kafka-rest/8082/kafka-rest.properties", "key": "advertised.listeners",
         "value": "https://r1:8082,INTERNAL://r1:1,http://r1:8083/path"}
    ]  # fmt: skip
    second |= {"port": 8084}
    second["settings"] = [{"file": "/etc/kafka-rest/8084/x.properties", "key": "host.name", "value": "r1"}]
    rest = {"topic": "t", "url": "http://x:1", "records_per_s": 1}
    found = load_spec({"cluster": "leaf", "rest": rest}, plan, "r")["rest"]["proxies"]
    assert found == ["http://r1:8083", "http://r1:8084", "https://r1:8082"]
    assert RestLoad.model_validate(rest | {"proxies": found}).proxies == found
    given = load_spec({"cluster": "leaf", "rest": rest | {"proxies": []}}, plan, "r")
    assert given["rest"]["proxies"] == []


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"{}",
        b"\xff",
        b"[" * 100_000,
        b'[{"partition": 1}]',
        b'[{"partition": "1", "offset": 1}]',
        b'[{"partition": NaN, "offset": 1}]',
        b'[{"partition": 1e400, "offset": 1}]',
        b'[{"partition": 2147483648, "offset": 1}]',
        b'[{"partition": -1, "offset": 1}]',
        b'[{"partition": 1, "offset": 9223372036854775808}]',
        b'[{"partition": 1, "offset": 1, "value": {"a": 1}}]',
        b'[{"partition": 1, "offset": 1, "value": "A"}]',
        '[{"partition": 1, "offset": 1, "value": "\u0661"}]'.encode(),
    ],
)
def test_records_are_numbers_that_evidence_can_hold(body: bytes) -> None:
    with pytest.raises(UntrustedError):
        records(body)


def test_what_distributions_say_beside_that_is_passed_over() -> None:
    body = b'[{"topic": "t", "key": null, "value": "QQ==", "partition": 1, "offset": 2, "headers": []},'
    body += b'{"topic": "t", "partition": 0, "offset": 3, "value": null}]'
    assert records(body) == ([1, 0], [2, 3], [b"A", None])


@pytest.mark.parametrize(
    "entry",
    ["5", "null", "[]", '{"partition": 2147483648, "offset": 1}', '{"partition": 1, "offset": 1e400}',
     '{"error_code": "x"}', '{"error": {"a": 1}}', "[" * 50_000],
)  # fmt: skip
def test_an_answer_that_is_none_leaves_records_unknown(entry: str) -> None:
    (found,) = read_answer(200, f'{{"offsets": [{entry}]}}'.encode(), 1)
    assert found.outcome == UNKNOWN
    assert found.error is not None
    assert found.error.isprintable()


def test_what_a_proxy_says_of_a_failure_is_one_short_line() -> None:
    for found in (
        *read_answer(500, b"\x1b[31m\n" + b"x" * 5_000_000, 1),
        *read_answer(
            200, json.dumps({"offsets": [{"error_code": 1, "error": "\x1b\n" * 9_999}]}).encode(), 1
        ),
    ):
        assert found.error is not None
        assert found.error.isprintable()
        assert len(found.error) < 2_000
    assert refusal(b'{"error_code": 7, "message": "a\\n b\\u001b"}', 99) == "error_code 7: a b\\x1b"
    assert refusal(b'{"message": "a"}', 9) == '{"message...'


def test_a_count_of_offsets_is_that_of_records() -> None:
    assert [one.offset for one in offsets(b'{"offsets": [{"partition": 0, "offset": 5, "x": 1}]}', 1)] == [5]
    with pytest.raises(UntrustedError, match="1 offsets for 2 records"):
        offsets(b'{"offsets": [{"partition": 0, "offset": 5}]}', 2)


@pytest.mark.parametrize("told", ["10.0.0.2:8083", "rest1", "[fe80::1]:8082", "rest-1.example:8082"])
def test_an_instance_is_a_host_and_a_port(told: str) -> None:
    assert instance(told) == told


@pytest.mark.parametrize(
    "told", [None, "", "a b", "r\x85evil: ", "x" * 300, "\u0661", "rest1:8082\n", "../x"]
)
def test_another_header_names_no_instance(told: str | None) -> None:
    assert instance(told) is None


def test_no_more_names_are_told_apart_than_a_ledger_can_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("verify.load.ledger._NAMES", 2)
    names = Names()
    numbers = [names.number(name) for name in ("a", "b", "c", "d", "a")]
    assert numbers == [1, 2, 3, 3, 1]
    assert OTHERS in names._numbers


@pytest.fixture
def answers() -> Iterator[list[bytes]]:
    """Yield what a server that speaks no better than this answers one request with."""
    said: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65_536)
                connection.sendall(said[1])

        said.append(b"%d" % listener.getsockname()[1])
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield said
        thread.join(10)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n" + b"x" * 5_000,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        + b"1388\r\n"
        + b"x" * 5_000
        + b"\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 5_000,
        b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\nA: " + b"x" * 70_000 + b"\r\n\r\n",
        b"\x00\xff\n",
    ],
)
def test_an_answer_that_is_too_long_or_not_whole_is_none(
    answers: list[bytes], answer: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("verify.load.rest_connections.ANSWER_BYTES", 1_000)
    answers.append(answer)
    rest = RestLoad(topic="t", url=f"http://127.0.0.1:{int(answers[0])}", records_per_s=1)
    with pytest.raises(NoAnswerError) as raised:
        Wire(rest, "/topics/t", {}).post(b"{}")
    assert str(raised.value).isprintable()


@pytest.mark.parametrize(
    "begin", [b"HTTP/1.1 200 OK\r\nA: ", b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n"]
)
def test_an_answer_that_comes_a_byte_at_a_time_is_due_as_a_whole(begin: bytes) -> None:
    enough, sent = threading.Event(), list[int]()

    def drip(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection, contextlib.suppress(OSError):
            connection.recv(65_536)
            connection.sendall(begin)
            while not enough.wait(0.1) and len(sent) < 100:
                connection.sendall(b"x")
                sent.append(1)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=drip, args=(listener,), daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        rest = RestLoad(topic="t", url=url, records_per_s=1, request_timeout_s=0.5)
        with pytest.raises(NoAnswerError, match="TimeoutError"):
            Wire(rest, "/topics/t", {}).post(b"{}")
        enough.set()
        thread.join(10)
    assert 0 < len(sent) < 50


def test_a_read_without_an_end_gives_the_instance_up(
    proxy: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("verify.load.rest_consumers.most_bytes", lambda asked: 1_000)
    handler = proxy.RequestHandlerClass
    real = handler.do_GET  # type: ignore[attr-defined]
    left = [b"x" * 4_096] * 3

    def endless(self: Any) -> None:
        if not left:
            real(self)
            return
        self.send_response(200)
        self.end_headers()
        self.wfile.write(left.pop())
        self.close_connection = True

    monkeypatch.setattr(handler, "do_GET", endless)
    assert consume(proxy, tmp_path) == 3
    assert proxy.committed


def test_an_origin_is_scheme_host_and_port() -> None:
    assert origin("https://A.example/x") == ("https", "a.example", 443)
