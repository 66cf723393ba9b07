"""The kernel and the limits of a host: what is planned is in force, as far as the host can have it."""

from __future__ import annotations

from typing import Any

import pytest

from kedge.services.host.kernel import effective
from verify.state.conftest import name_of

testinfra_hosts = ["ansible://all"]
SYSCTLS = "/etc/sysctl.d/60-kedge.conf"
LIMITS = "/etc/security/limits.d/60-kedge.conf"


@pytest.fixture
def settings(plan: dict[str, Any], host: Any) -> list[dict[str, Any]]:
    """The planned kernel settings of the host."""
    services = plan["hosts"].get(name_of(host), {}).get("services", {})
    if "host_tuning" not in services:
        pytest.skip("no kernel setting is planned for this host")
    found: list[dict[str, Any]] = services["host_tuning"]["instances"][0]["settings"]
    return found


def running(host: Any, key: str) -> str | None:
    """What the kernel has of a key; None where it has no such key."""
    path = host.file("/proc/sys/" + key.replace(".", "/"))
    return " ".join(path.content_string.split()) if path.exists else None


def lines(host: Any, path: str) -> list[str]:
    return [x for x in host.file(path).content_string.splitlines() if x and not x.startswith("#")]


def test_the_kernel_has_what_is_planned_or_more_where_it_lets_it_be_set(
    host: Any, settings: list[dict[str, Any]]
) -> None:
    kept = dict(line.split("=", 1) for line in lines(host, SYSCTLS))
    for setting in settings:
        key, now = setting["key"], running(host, setting["key"])
        if setting["file"] != SYSCTLS or key not in kept:
            continue
        assert now is not None, f"{key} is in {SYSCTLS}, and the kernel has no such key"
        assert now == kept[key], key
        if setting["by"] == "plan":
            assert effective(key, now, setting["value"]) == now, f"{key} is below the plan"


def test_what_is_not_set_is_not_there_or_cannot_be_written(host: Any, settings: list[dict[str, Any]]) -> None:
    text = host.file(SYSCTLS).content_string if host.file(SYSCTLS).exists else ""
    kept = {line.split("=", 1)[0] for line in text.splitlines() if line and not line.startswith("#")}
    for setting in settings:
        key, now = setting["key"], running(host, setting["key"])
        if setting["file"] != SYSCTLS or key in kept:
            continue
        writable = host.run("test -w %s", "/proc/sys/" + key.replace(".", "/")).rc == 0
        said = [line for line in text.splitlines() if line.startswith(f"# {key}=")]
        assert said, f"{SYSCTLS} does not say why {key} is not set"
        assert now is None or not writable or "was refused" in said[0] or "container" in said[0], said


def test_a_login_gets_the_planned_limits(host: Any, settings: list[dict[str, Any]]) -> None:
    for setting in (s for s in settings if s["file"] == LIMITS):
        soft, hard = (int(line.split()[-1]) for line in lines(host, LIMITS))
        told = host.check_output("su -s /bin/sh nobody -c 'ulimit -Sn; ulimit -Hn'").split()
        assert [int(x) for x in told] == [soft, hard]
        assert soft == int(setting["value"]) or hard < int(setting["value"]), "the host can have the planned"


def test_the_files_are_nobodys_to_write_but_roots(host: Any, settings: list[dict[str, Any]]) -> None:
    for path in {s["file"] for s in settings}:
        file = host.file(path)
        assert (file.user, file.group, file.mode) == ("root", "root", 0o644), path
