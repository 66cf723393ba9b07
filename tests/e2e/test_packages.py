"""Hosts that cannot have a package: no way to their mirrors, or none that has it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.e2e.playing import local_fleet, on_node, play

INVENTORY = "molecule/kafka_rest/inventory"
FLEET = "kedge-molecule-kafka-rest"
#: No release of Debian has it, and no node.
WANTED = {"java_version": 25, "java_packages": {"Debian": ["kedge-no-such-package"]}}
#: Mirrors that nothing answers for.
ALONE = (
    'rm -rf /var/lib/apt/lists/*; echo \'Acquire::http::Proxy "http://127.0.0.1:1"; '
    'Acquire::https::Proxy "http://127.0.0.1:1"; Acquire::Retries "0";\' > /etc/apt/apt.conf.d/99none'
)

pytestmark = [pytest.mark.fleet, pytest.mark.long, pytest.mark.timeout(900)]


@pytest.fixture(scope="module", autouse=True)
def nodes() -> Iterator[None]:
    """Nodes on which nothing was deployed; they are removed at the end."""
    try:
        local_fleet("up", INVENTORY)
        yield
    finally:
        local_fleet("down", INVENTORY)


@pytest.mark.parametrize(
    ("before", "said"),
    [
        ("true", "No package matching 'kedge-no-such-package' is available."),
        (ALONE, "the host reaches no mirror of its packages."),
    ],
    ids=["no such package", "no network"],
)
def test_a_host_that_cannot_have_a_package_is_named_with_the_reason(before: str, said: str) -> None:
    on_node(FLEET, "leaf1", before)
    done = play("deploy.yml", "-e", json.dumps(WANTED), inventory=INVENTORY)
    assert done.returncode != 0
    told = " ".join((done.stdout + done.stderr).split())
    assert f"kedge-no-such-package could not be installed: {said} The host's services were left" in told
