"""The canary of a host: its unit, its metrics at the planned address and nowhere else, its audit's timer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from verify.state.conftest import Instances, opened, value

testinfra_hosts = ["ansible://canary"]
Planned = Callable[[str], Instances]


def test_each_canary_is_a_running_unit_that_starts_with_the_host(host: Any, planned: Planned) -> None:
    for instance in planned("canary"):
        for name in (f"canary@{instance['name']}", f"canary-audit@{instance['name']}.timer"):
            unit = host.service(name)
            assert unit.is_running, name
            assert unit.is_enabled, name


def test_a_canary_listens_at_its_planned_address_alone(host: Any, planned: Planned) -> None:
    for instance in planned("canary"):
        pid = int(host.check_output("systemctl show -P MainPID %s", f"canary@{instance['name']}"))
        address = f"{value(instance, 'scrape_address')}:{value(instance, 'scrape_port')}"
        assert opened(host, pid) == {address}


def test_a_canary_sends_and_gets_answers(host: Any, planned: Planned) -> None:
    for instance in planned("canary"):
        url = f"http://{value(instance, 'scrape_address')}:{value(instance, 'scrape_port')}/metrics"
        code = f"import urllib.request as r; print(r.urlopen('{url}', timeout=5).read().decode())"
        figures = host.check_output("python3 -c %s", code)
        assert 'kedge_canary_sending{cluster="' in figures
        acked = [line for line in figures.splitlines() if 'outcome="acked"' in line and "_total" in line]
        assert any(float(line.split()[-1]) > 0 for line in acked), acked


def test_its_login_is_readable_by_the_canary_and_nobody_else(host: Any, planned: Planned) -> None:
    for instance in planned("canary"):
        file = host.file(f"/etc/canary/{instance['name']}/environment")
        assert (file.user, file.group, file.mode) == ("root", "canary", 0o640)
