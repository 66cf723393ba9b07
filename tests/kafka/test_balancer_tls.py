"""A real HAProxy with the planned file, in front of real proxies whose listeners are encrypted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kedge.plan.hosts import Inventory
from kedge.services.balancer.probe import balancer_probe
from kedge.services.planning import make_plan
from lab.services.rest_proxies import VendorArchive, running_proxy, unpack, vendor_archives
from lab.services.serving import free_ports
from plugins.module_utils.probes import PROBES
from tests.awaiting import await_that
from tests.balancers import Running, files_of, placed, planned_balancer, running
from tests.kafka.certificates import make_authority, make_certificate
from tests.kafka.crashable import CrashableBroker
from tests.kafka.secured_site import written
from tests.rest_inventories import rest

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.timeout(300),
    pytest.mark.promise("TLS behind a balancer, by names and by faults"),
]
#: What clients call the balancer: no certificate of an instance names it.
NAME = "lb1"
_FOUND = vendor_archives()
_KAFKA_REST = [] if isinstance(_FOUND, str) else [v for v in _FOUND if v.distribution == "confluent"]


def inventory(version: str, folder: Path, topic: str, **more: Any) -> Inventory:
    """Return an inventory of one instance with TLS behind one balancer."""
    make_authority(folder)
    certificate, key = make_certificate(folder, "rest1")
    tls = {"certificate": str(certificate), "key": str(key), "ca": str(folder / "ca.pem")}
    build: dict[str, Any] = (
        {"distribution": "sandbox", "archive": None, "archive_checksum": None} if version == "1.0.0" else {}
    )
    fleet = {"fleet": {"name": "f"}} if build else {}
    return rest(
        groups={"rest_balancer": (NAME,)},
        common=fleet,
        version=version,
        tls=tls,
        ready_topic=topic,
        instances_per_host=1,
        **build,
        **more,
    )


@contextmanager
def balanced(home: Path, folder: Path, broker: CrashableBroker, inventory: Inventory) -> Iterator[Running]:
    """Run an instance with its planned listener, and the planned balancer before it."""
    plan = make_plan(inventory)
    assert [f.line() for f in plan.findings if f.severity == "error"] == []
    (instance,) = plan.services["rest1"]["kafka_rest"]
    (balancer,) = plan.services[NAME]["rest_balancer"]
    planned = written(instance, folder, "kafka-rest.properties", "/etc/kafka-rest/8082")
    keys = {key: value for key, value in planned.items() if key.startswith(("ssl.", "sni."))}
    at, port = free_ports(2)
    listener = {"listeners": f"https://127.0.0.1:{at}", "bootstrap.servers": broker.bootstrap_servers}
    written(balancer, folder, "", "")
    text = placed(files_of(planned_balancer(inventory))["haproxy.cfg"], {"rest1:8082": at}, port, folder)
    text = re.sub(r"(ca-file|crt) /etc/rest-balancer/haproxy/", rf"\1 {folder}/", text)
    heap = {"KAFKAREST_HEAP_OPTS": "-Xmx128M"}
    with (
        running_proxy(home, folder / "proxy", keys | listener, heap, folder / "ca.pem"),
        running(text, port, folder) as found,
    ):
        yield found


def complaint(balancer: Running, inventory: Inventory) -> str | None:
    """Return what a deploy would complain of the balancer: it asks as a client does."""
    probe = balancer_probe(planned_balancer(inventory), str(balancer.socket), changing=False)
    return PROBES["haproxy"](probe | {"front": str(balancer.client.base_url).rstrip("/")})


@pytest.fixture(
    params=["1.0.0", *_KAFKA_REST], ids=lambda v: v if isinstance(v, str) else f"kafka-rest-{v.version}"
)
def build(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """The sandbox, and each kafka-rest at hand: version and where it is unpacked."""
    given: str | VendorArchive = request.param
    archive = request.getfixturevalue("sandbox") if isinstance(given, str) else given.file
    return given if isinstance(given, str) else given.version, unpack(
        archive, tmp_path_factory.mktemp("proxy")
    )


def test_a_client_that_asks_for_the_balancer_is_served_by_an_instance_whose_certificate_names_itself(
    build: tuple[str, Path], broker: CrashableBroker, topic: str, tmp_path: Path
) -> None:
    version, home = build
    planned = inventory(version, tmp_path, topic)
    with balanced(home, tmp_path, broker, planned) as balancer:
        await_that(lambda: complaint(balancer, planned) is None, "it serves")
        # A client that takes a compressed answer, as kafka-rest would give it.
        headers = {"Content-Type": "application/vnd.kafka.v2+json", "Accept-Encoding": "gzip"}
        made = balancer.client.post("/consumers/g", json={"name": "mine"}, headers=headers)
        assert made.json()["instance_id"] == "mine"
        assert "key=mine/g " in balancer.ask("show table rest")


def test_an_instance_that_keeps_its_host_check_is_said_to_refuse_the_balancers_name(
    build: tuple[str, Path], broker: CrashableBroker, topic: str, tmp_path: Path
) -> None:
    version, home = build
    planned = inventory(version, tmp_path, topic, settings={"sni.host.check.enabled": "true"})
    with balanced(home, tmp_path, broker, planned) as balancer:
        if version.startswith("7."):  # its Jetty holds against the certificate what SNI names alone
            await_that(lambda: complaint(balancer, planned) is None, "it serves")
        else:
            await_that(lambda: "Invalid SNI" in str(complaint(balancer, planned)), "it is down, and why")
            said = str(complaint(balancer, planned))
            assert said.startswith("no instance is up: rest1:8082 DOWN, L7RSP 400 "), said
