"""The sandbox, and kafka-rest where its archive is at hand, held against what kafka-rest 8.3.1 showed."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import httpx
import pytest

from lab.services.brokers import Broker
from lab.services.rest_proxies import RunningProxy, running_proxy
from lab.services.serving import free_ports
from tests.contract.answers import ANSWERS
from tests.contract.conftest import Target
from tests.contract.exchanges import played, recorded, speaks_http2
from tests.kafka.certificates import make_authority, make_certificate

#: What is answered otherwise, by whom; the sandbox's README names its own.
DIFFERENT: Final[Mapping[str | None, frozenset[str]]] = {
    None: frozenset({"root, options", "produce, nothing"}),
    # Jetty 9 answers in HTML.
    "7.9.9": frozenset({"root, path of 9 KiB"}),
}


@pytest.fixture
def kafka_rest(target: Target) -> Target:
    """What speaks as kafka-rest does; the bridge has its own dialect."""
    if target.answers is not ANSWERS["confluent"]:
        pytest.skip("kafka-rest's answers were recorded, this is another product")
    return target


def test_each_request_is_answered_as_by_kafka_rest(kafka_rest: Target, group: str) -> None:
    found, known = played(kafka_rest.url, kafka_rest.topic, group), recorded()
    assert found.keys() == known.keys()
    if kafka_rest.version == "7.9.9":  # where its Jetty compresses, it looks at the client's name too
        for row in (*found.values(), *known.values()):
            row.pop("Vary", None)
    other = {name: (found[name], row) for name, row in known.items() if found[name] != row}
    assert other.keys() == DIFFERENT.get(kafka_rest.version, frozenset()), other


def test_http2_is_spoken_beside_http1(kafka_rest: Target) -> None:
    assert speaks_http2(kafka_rest.url)


def test_compression_http2_and_longer_headers_are_settings(
    own_proxy: Callable[[dict[str, str]], AbstractContextManager[RunningProxy]],
) -> None:
    settings = {"compression.enable": "false", "http2.enabled": "false", "max.request.header.size": "32768"}
    with own_proxy(settings) as proxy:
        assert not speaks_http2(proxy.url)
        answer = httpx.get(proxy.url, headers={"X-Long": "x" * 9 * 1024})
        assert (answer.status_code, answer.headers.get("Content-Encoding")) == (200, None)


@pytest.mark.parametrize("sent", ["nothing", "half a request", "a whole request"])
def test_a_silent_connection_is_closed_without_a_word(
    kafka_rest: Target, broker: Broker, tmp_path: Path, sent: str
) -> None:
    words = {
        "nothing": b"",
        "half a request": b"GET / HTTP/1.1\r\nHost: a\r\n",
        "a whole request": b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    }
    if kafka_rest.home is None:
        pytest.skip("a running proxy is not started with another time-out")
    properties = {"bootstrap.servers": broker.bootstrap_servers, "idle.timeout.ms": "1500"}
    with running_proxy(kafka_rest.home, tmp_path, properties) as proxy:
        place = urlsplit(proxy.url)
        with socket.create_connection((str(place.hostname), place.port), timeout=20) as made:
            made.sendall(words[sent])
            got = b"".join(iter(lambda: made.recv(4096), b""))
    assert got.count(b"HTTP/1.1") == (sent == "a whole request"), got


def test_tls_offers_http2_first(kafka_rest: Target, broker: Broker, tmp_path: Path) -> None:
    if kafka_rest.home is None:
        pytest.skip("a running proxy is not started with TLS")
    make_authority(tmp_path)
    certificate, key = make_certificate(tmp_path, "localhost")
    (port,) = free_ports(1)
    both = tmp_path / "both.pem"
    both.write_text(key.read_text() + certificate.read_text())
    properties = {
        "bootstrap.servers": broker.bootstrap_servers,
        "listeners": f"https://localhost:{port}",
        "ssl.keystore.location": str(both),
        "ssl.keystore.type": "PEM",
    }
    context = ssl.create_default_context(cafile=tmp_path / "ca.pem")
    context.set_alpn_protocols(["http/1.1", "h2"])
    with (
        running_proxy(kafka_rest.home, tmp_path / "proxy", properties, ca=tmp_path / "ca.pem"),
        socket.create_connection(("localhost", port), timeout=20) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as made,
    ):
        assert made.selected_alpn_protocol() == "h2"
