"""What becomes of a planned kernel setting on a host as it is."""

from __future__ import annotations

from typing import Any

import pytest

from kedge.services.host.kernel_outcome import decide, decide_limit

SETTABLE: dict[str, Any] = {"writable": True, "container": False, "exact": False, "refused": {}}


@pytest.mark.parametrize(
    ("current", "more", "outcome", "value"),
    [
        ("128", {}, "set", "4096"),
        ("4096", {}, "kept", "4096"),
        ("60000", {}, "kept", "60000"),
        ("60000", {"exact": True}, "set", "4096"),
        (None, {}, "absent", None),
        ("128", {"writable": False}, "read-only", "128"),
        ("60000", {"writable": False}, "kept", "60000"),
        ("128", {"refused": {"net.core.somaxconn": "4096: Invalid argument"}}, "refused", "128"),
        ("128", {"refused": {"net.core.somaxconn": "512: Invalid argument"}}, "set", "4096"),
        ("128", {"container": True}, "set", "4096"),
    ],
)
def test_a_kernel_setting_is_set_kept_or_not_to_be_had(
    current: str | None, more: dict[str, Any], outcome: str, value: str | None
) -> None:
    decision = decide("net.core.somaxconn", "4096", current, **SETTABLE | more)
    assert (decision.outcome, decision.value) == (outcome, value)
    assert bool(decision.why) == (outcome not in ("set", "kept"))
    assert decision.persists == (outcome in ("set", "kept"))


def test_a_container_never_changes_the_machine_it_runs_on() -> None:
    decision = decide("vm.max_map_count", "262144", "65530", **SETTABLE | {"container": True})
    assert (decision.outcome, decision.value) == ("machine", "65530")


def test_white_space_of_the_kernel_is_no_difference() -> None:
    wide = "4096\t131072\t33554432"
    assert decide("net.ipv4.tcp_rmem", "4096 87380 16777216", wide, **SETTABLE).outcome == "kept"


@pytest.mark.parametrize(
    ("now", "ceiling", "outcome", "limits"),
    [
        ((1024, 524288), 1048576, "set", (40000, 524288)),
        ((1024, 4096), 1048576, "set", (40000, 40000)),
        ((50000, 524288), 1048576, "kept", (50000, 524288)),
        ((40000, 524288), 1048576, "kept", (40000, 524288)),
        ((20000, 20000), 20000, "refused", (20000, 20000)),
    ],
)
def test_a_login_gets_no_less_than_it_has_and_no_more_than_the_host_can_give(
    now: tuple[int, int], ceiling: int, outcome: str, limits: tuple[int, int]
) -> None:
    decision, got = decide_limit("* - nofile", 40000, now, ceiling)
    assert (decision.outcome, got) == (outcome, limits)
