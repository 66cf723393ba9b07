"""A host that was set up by hand is reviewed: what runs there is found and planned, and nothing is changed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.awaiting import await_that
from tests.e2e.playing import ROOT, local_fleet, on_node, play, recap

INVENTORY: Final = "tests/e2e/inventory_review"
FLEET: Final = "kedge-e2e-review"
HOST: Final = "old1"
SECRETS: Final = ("sesame-of-the-broker", "sesame-of-the-store")

pytestmark = [pytest.mark.fleet, pytest.mark.timeout(900)]

#: Somebody's own unit, user and file, which only that user may read; of one key a letter is missing.
THEIRS: Final = f"""set -e
useradd --system orders
mkdir /srv/orders/conf
cat > /srv/orders/conf/orders.properties <<'END'
# {SECRETS[0]}
bootstrap.servers=10.78.17.11:9092
listeners=http://0.0.0.0:8090
client.security.protocol=SASL_PLAINTEXT
client.sasl.mechanism=PLAIN
client.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="o" \\
  password="{SECRETS[0]}";
producer.ack=all
consumer.request.max.bytes=33554432
END
chown -R orders: /srv/orders/conf
chmod -R go= /srv/orders/conf
cat > /etc/systemd/system/orders.service <<'END'
[Service]
User=orders
Environment=KAFKAREST_HEAP_OPTS=-Xmx128m LOG_DIR=/tmp
Environment=KAFKAREST_OPTS=-Djavax.net.ssl.trustStorePassword={SECRETS[1]}
ExecStart=/srv/orders/bin/kafka-rest-start /srv/orders/conf/orders.properties
LimitNOFILE=4096
[Install]
WantedBy=multi-user.target
END
systemctl daemon-reload
systemctl enable --now orders
"""
#: Files with their contents, owners and modes, units as they are enabled, and the process as it was started.
STATE: Final = """set -e
find /etc /srv /opt /root /usr/local /var/lib/systemd -xdev -type f -exec sha256sum {} + | sort
find /etc /srv /opt /root /usr/local /tmp -xdev -printf '%p %u %m %y\\n' | grep -v hsperfdata | sort
systemctl list-unit-files --no-legend
systemctl show orders -p MainPID -p NRestarts -p ActiveState -p ActiveEnterTimestampMonotonic
"""


@pytest.fixture
def old_host(sandbox: Path) -> Iterator[None]:
    """A host on which somebody unpacked the sandbox and wrote a unit."""
    try:
        local_fleet("up", INVENTORY)
        config = ROOT / ".cache" / "fleet" / FLEET / "ssh_config"
        unpack = "mkdir /srv/orders && tar -xz -C /srv/orders --strip-components=1 --no-same-owner"
        with sandbox.open("rb") as archive:
            subprocess.run(["ssh", "-F", str(config), HOST, unpack], stdin=archive, check=True)
        on_node(FLEET, HOST, THEIRS)
        await_that(lambda: ":8090" in on_node(FLEET, HOST, "ss -ltn"), "the proxy listens")
        yield
    finally:
        local_fleet("down", INVENTORY)


@pytest.mark.usefixtures("old_host")
def test_a_host_set_up_by_hand_is_reviewed_and_planned_and_left_as_it_is(tmp_path: Path) -> None:
    before = on_node(FLEET, HOST, STATE)
    found = tmp_path / "found"
    done = play("review.yml", "-e", f"found={found}", inventory=INVENTORY)
    assert done.returncode == 0, done.stdout + done.stderr
    assert on_node(FLEET, HOST, STATE) == before
    assert all(host["changed"] == 0 for host in recap(done.stdout).values())
    for report in (done.stdout, (found / "review.md").read_text()):
        assert "old1 orders" in report
        assert "did you mean producer.acks?" in report
        assert "orders.properties:8" in report
    planned = subprocess.run(
        [sys.executable, "-m", "kedge", "plan", "--all", "-i", str(found / "inventory")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert planned.returncode == 0, planned.stdout + planned.stderr
    assert "consumer.request.max.bytes=33554432" in planned.stdout
    written = [path.read_text() for path in found.rglob("*") if path.is_file()]
    assert any("client.sasl.jaas.config=***" in text for text in written)
    # Together with the inventory that says how the host is reached, as the page has it.
    shown = play("-i", str(found / "inventory"), "plan.yml", "-v", inventory=INVENTORY)
    assert "of orders.service)" in " ".join(shown.stdout.split()), shown.stdout + shown.stderr
    assert on_node(FLEET, HOST, STATE) == before
    for text in (*written, done.stdout, done.stderr, planned.stdout, shown.stdout, shown.stderr):
        assert not any(secret in text for secret in SECRETS)
