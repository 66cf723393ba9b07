"""What the contract runs against: the sandbox and vendors' archives with a broker of its own, or a URL.

``KEDGE_REST_ARCHIVES=folder pytest tests/contract`` starts, beside the sandbox, each vendor's archive in that
folder (see lab/services/rest_proxies.py). ``KEDGE_REST_URL=http://host:8082 KEDGE_REST_TOPIC=t pytest
tests/contract`` asks a running proxy instead; the topic needs two partitions or more. ``KEDGE_REST_URL_2`` adds a
second proxy of the same cluster, ``KEDGE_REST_DISTRIBUTION`` says what it is (confluent unless it is said). Tests
that start, stop or configure a process run against the sandbox only.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from lab.services.brokers import Broker, running_broker
from lab.services.rest_proxies import RunningProxy, VendorArchive, running_proxy, unpack, vendor_archives
from tests.awaiting import await_that
from tests.contract.answers import ANSWERS, Answers
from tests.contract.rest_client import Consumer, produce

URL = os.environ.get("KEDGE_REST_URL")


@dataclass(frozen=True)
class Target:
    """The proxies asked (twice the same where there is one), what they speak, and a topic that is theirs.

    ``home`` is where they are unpacked, None for a URL; ``version`` is a vendor's.
    """

    url: str
    second_url: str
    topic: str
    answers: Answers
    home: Path | None = None
    version: str | None = None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.parent == here and URL is None:
            item.add_marker(pytest.mark.kafka)
            item.add_marker(pytest.mark.promise("the REST API's contract"))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run what asks a target once for each: the URL, or the sandbox and each vendor's archive."""
    if "target" not in metafunc.fixturenames:
        return
    if URL is not None:
        targets: list[object] = [pytest.param(None, id="url")]
    else:
        targets = [pytest.param(None, id="sandbox")]
        archives = vendor_archives()
        if isinstance(archives, str):
            targets.append(pytest.param(None, id="vendors", marks=pytest.mark.skip(reason=archives)))
        else:
            targets += [pytest.param(each, id=f"{each.distribution}-{each.version}") for each in archives]
    metafunc.parametrize("target", targets, indirect=True, scope="session")


@pytest.fixture(scope="session")
def sandbox_home(sandbox: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if URL is not None:
        pytest.skip("KEDGE_REST_URL names the proxy; this test starts and configures one itself")
    return unpack(sandbox, tmp_path_factory.mktemp("sandbox"))


@pytest.fixture(scope="session")
def broker(jars: Path) -> Iterator[Broker]:
    with running_broker(jars) as running:
        running.create_topic("contract.topic", partitions=4)
        yield running


@pytest.fixture(scope="session")
def target(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    if URL is not None:
        topic = os.environ.get("KEDGE_REST_TOPIC")
        if not topic:
            pytest.exit("KEDGE_REST_URL needs KEDGE_REST_TOPIC, a topic that the tests may write to", 4)
        said = os.environ.get("KEDGE_REST_DISTRIBUTION", "confluent")
        yield Target(URL, os.environ.get("KEDGE_REST_URL_2", URL), topic, ANSWERS[said])
        return
    vendor: VendorArchive | None = request.param
    answers = ANSWERS[vendor.distribution if vendor else "sandbox"]
    home: Path = (
        unpack(vendor.file, tmp_path_factory.mktemp(vendor.distribution))
        if vendor
        else request.getfixturevalue("sandbox_home")
    )
    running: Broker = request.getfixturevalue("broker")
    first, second = (
        running_proxy(
            home, tmp_path_factory.mktemp(name), answers.properties(running.bootstrap_servers, name)
        )
        for name in ("first", "second")
    )
    with first as one, second as two:
        for each in (one, two):
            _await_produce(each.url, "contract.topic")
        yield Target(one.url, two.url, "contract.topic", answers, home, vendor.version if vendor else None)


def _await_produce(url: str, topic: str) -> None:
    """Produce until it succeeds: a cold client on a busy machine needs longer than the short max.block.ms."""
    with httpx.Client(base_url=url, timeout=30) as rest:

        def produces() -> bool:
            answer = produce(rest, topic, [{"value": None}]).json()
            return not any(each.get("error_code") for each in answer["offsets"])

        await_that(produces, f"{url} produces")


@pytest.fixture
def topic(target: Target) -> str:
    return target.topic


@pytest.fixture
def answers(target: Target) -> Answers:
    return target.answers


@pytest.fixture
def rest(target: Target) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=target.url, timeout=90) as client:
        yield client


@pytest.fixture
def tag() -> bytes:
    """What marks the records of one test in a topic that other tests write to."""
    return uuid.uuid4().hex.encode()


@pytest.fixture
def group() -> str:
    return f"contract-{uuid.uuid4().hex}"


@pytest.fixture
def consumer(rest: httpx.Client, answers: Answers, group: str) -> Iterator[Callable[..., Consumer]]:
    """Makes instances in the test's group and deletes those that are left."""
    made: list[Consumer] = []

    def make(at: httpx.Client | None = None, **wishes: str) -> Consumer:
        made.append(Consumer(at or rest, group, answers, **wishes))
        return made[-1]

    yield make
    for each in made:
        each.delete()
        each.http.close()


@pytest.fixture
def own_proxy(
    sandbox_home: Path, broker: Broker, tmp_path: Path
) -> Callable[..., AbstractContextManager[RunningProxy]]:
    """Starts a sandbox of the test's own with the given properties."""

    def start(properties: dict[str, str]) -> AbstractContextManager[RunningProxy]:
        given = {"bootstrap.servers": broker.bootstrap_servers, **properties}
        return running_proxy(sandbox_home, tmp_path, given)

    return start
