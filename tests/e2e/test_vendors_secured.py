"""A secured fleet with each vendor's proxy whose archive is at hand: what is deployed serves, through the balancer."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from lab.demo.archive import checksum
from lab.services.rest_proxies import VendorArchive
from tests.e2e.playing import ROOT, local_fleet, own_inventory, play, recap

FLEET = "kedge-vendors-secured"
BALANCER = "https://10.78.20.31:8080"
SCENARIO = "molecule/kafka_rest_secure/inventory"
BUILD = "group_vars/kafka_rest/main.yml"
SECURITY = "group_vars/kafka_rest/security.yml"

pytestmark = [pytest.mark.fleet, pytest.mark.long, pytest.mark.timeout(1800)]


def changes(vendor: VendorArchive) -> Iterator[tuple[str, str, str]]:
    """What the scenario's inventory lacks for a vendor's proxy, on a fleet of its own."""
    yield "group_vars/all/fleet.yml", "kedge-molecule-kafka-rest-secure", FLEET
    for file in ("group_vars/all/fleet.yml", "hosts.yml"):
        yield file, "10.78.4.", "10.78.20."
    wanted = {
        "distribution": vendor.distribution,
        "version": vendor.version,
        "archive": str(vendor.file),
        "archive_checksum": checksum(vendor.file),
    }
    text = (ROOT / SCENARIO / BUILD).read_text()
    sandbox = text[text.index("kafka_rest_distribution") : text.index("kafka_rest_cluster")]
    yield BUILD, sandbox, "".join(f"kafka_rest_{key}: {json.dumps(value)}\n" for key, value in wanted.items())
    if vendor.distribution == "strimzi":  # its listeners are not secured: the balancer's are, alone
        text = (ROOT / SCENARIO / SECURITY).read_text()
        yield SECURITY, text[text.index("kafka_rest_users") : text.index("kafka_rest_consumers_via")], ""


@pytest.fixture
def inventory(vendor: VendorArchive) -> Iterator[str]:
    """The scenario's inventory with the vendor's proxy; its fleet is up, and removed at the end."""
    own = own_inventory(SCENARIO, FLEET, changes(vendor))
    try:
        made = play("lab/fleet/certificates.yml", inventory=own)
        assert made.returncode == 0, made.stdout + made.stderr
        local_fleet("up", own)
        yield own
    finally:
        local_fleet("down", own)


@pytest.mark.promise("TLS, logins and SASL: deployed on a fleet, restarted under load, audited")
def test_a_secured_proxy_of_a_vendor_is_deployed_once_serves_and_is_proven(inventory: str) -> None:
    first = play("deploy.yml", inventory=inventory)
    assert first.returncode == 0, first.stdout[-6000:]
    secrets = ROOT / ".cache" / "fleet" / FLEET
    authority = secrets / "certificates" / "ca.pem"
    password = (secrets / "passwords" / "client").read_text().strip()
    assert [answer(authority, said) for said in (None, "wrong", password)] == [401, 401, 200]
    again = play("deploy.yml", inventory=inventory)
    assert all(host["changed"] == 0 for host in recap(again.stdout).values()), again.stdout[-6000:]
    proven = play("verify.yml", inventory=inventory)
    assert proven.returncode == 0, proven.stdout[-6000:]
    verdicts = json.loads((ROOT / "runs/latest/report/verdicts.json").read_text())
    assert verdicts["verdict"] == "pass"


def answer(authority: Path, password: str | None) -> int:
    """The status of a produce request through the balancer."""
    return httpx.post(
        f"{BALANCER}/topics/kedge-verify-rest",
        headers={"Content-Type": "application/vnd.kafka.binary.v2+json"},
        content=b'{"records":[{"value":"eA=="}]}',
        verify=ssl.create_default_context(cafile=authority),
        auth=("client", password) if password else None,
        timeout=70,
    ).status_code
