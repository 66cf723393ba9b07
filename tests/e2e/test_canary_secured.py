"""A canary of a cluster with logins, whose proxies speak TLS: it passes, and it sees each instance."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.awaiting import await_that
from tests.e2e.playing import ROOT, deployed_fleet, on_node, own_inventory, play

FLEET = "kedge-canary-secured"
INVENTORY = f".cache/{FLEET}/inventory"
ADDRESS = "10.78.21.51"
METRICS = "http://127.0.0.1:9464/metrics"
#: A node has no curl.
ASK = f"python3 -c 'import urllib.request as r; print(r.urlopen(\"{METRICS}\").read().decode())'"

pytestmark = [pytest.mark.fleet, pytest.mark.timeout(1200), pytest.mark.long]


@pytest.fixture(scope="module", autouse=True)
def fleet() -> Iterator[None]:
    """Run a broker, two proxies, a balancer and a canary; instances ask for a login and for no certificate."""
    login = "  canary: \"{{ lookup('ansible.builtin.password', fleet_keys ~ '/passwords/canary ' ~ made_password) }}\"\n"
    changes = (
        ("group_vars/all/fleet.yml", "kedge-molecule-kafka-rest-secure", FLEET),
        ("group_vars/all/fleet.yml", "10.78.4.", "10.78.21."),
        ("hosts.yml", "10.78.4.", "10.78.21."),
        ("group_vars/all/secrets.yml", "passwords:\n", f"passwords:\n{login}"),
        ("group_vars/all/main.yml", "'proxy']", "'proxy', 'canary']"),
        ("group_vars/kafka_rest/security.yml", "  clients: required\n", ""),
    )
    own = ROOT / own_inventory("molecule/kafka_rest_secure/inventory", FLEET, changes)
    hosts = yaml.safe_load((own / "hosts.yml").read_text())
    hosts["all"]["children"]["nodes"]["children"]["canary"] = {
        "hosts": {"canary1": {"ansible_host": ADDRESS}}
    }
    (own / "hosts.yml").write_text(yaml.safe_dump(hosts))
    (own / "group_vars/canary").mkdir()
    variables = {
        "canary_cluster": "leaf",
        "canary_window_s": 60,
        "canary_user": "canary",
        "canary_password": "{{ passwords.canary }}",
        "canary_rest_ca": "{{ certificates }}/ca.pem",
        "canary_rest_user": "client",
        "canary_rest_password": "{{ passwords.client }}",
    }
    (own / "group_vars/canary/main.yml").write_text(yaml.safe_dump(variables))
    certified = play("lab/fleet/certificates.yml", inventory=INVENTORY)
    assert certified.returncode == 0, certified.stdout + certified.stderr
    with deployed_fleet(INVENTORY):
        yield


def total(name: str, **labels: str) -> float:
    """Return the sum of a metric over the series with these labels."""
    text = on_node(FLEET, "canary1", ASK)
    return sum(
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    )


def test_windows_pass_and_each_instance_that_speaks_tls_acknowledges() -> None:
    show = "runuser -u canary -- /opt/kedge/canary show --home /var/lib/canary/leaf"
    passed = re.compile(r"Z +pass\b")
    await_that(lambda: passed.search(on_node(FLEET, "canary1", show, check=False)), "a window passed", 600)
    for path in ("kafka", "rest", "rest-rest1:8082", "rest-rest1:8083"):
        assert total("kedge_canary_records_total", path=path, outcome="acked") > 0, path
        assert total("kedge_canary_last_ack_age_seconds", path=path) < 20, path


def test_the_metrics_tell_which_instance_has_stopped() -> None:
    on_node(FLEET, "rest1", "systemctl stop kafka-rest@8083")
    try:
        age = "kedge_canary_last_ack_age_seconds"
        await_that(lambda: total(age, path="rest-rest1:8083") > 20, "its records are acknowledged no more")
        assert total(age, path="rest-rest1:8082") < 20
        assert total(age, path="rest") < 20
    finally:
        on_node(FLEET, "rest1", "systemctl start kafka-rest@8083")
