"""Molecule's scenarios: each role from nothing, twice, and the tests that also follow a production deploy.

Each has a fleet of its own, so that they may run side by side: ``make test-fleet`` has two at a time.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from lab.fleet.node_image import CHOICE
from tests.e2e.playing import ROOT

#: For the night: what takes three times as long as any other, has stubs of vendors' software alone, or is a part of what
#: the demo and the other scenarios deploy.
_LONG = ("canary", "host_tuning", "kafka_topics", "mirror_maker2", "rest_distributions")
SCENARIOS = [
    pytest.param(name, marks=[pytest.mark.long] * (name in _LONG))
    for name in sorted(path.parent.name for path in (ROOT / "molecule").glob("*/molecule.yml"))
]
#: What installs something on a host.
_INSTALLING = ("host_tuning", "kafka_rest", "mirror_maker", "rest_balancer", "streams_app")
_LAST = 12_000  # characters of what molecule said; the rest is of what went well before

pytestmark = [pytest.mark.fleet, pytest.mark.timeout(900)]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_scenario_passes(scenario: str) -> None:
    played(scenario)


@pytest.mark.long
@pytest.mark.parametrize("suite", ["bookworm", "trixie"])
@pytest.mark.parametrize("scenario", _INSTALLING)
def test_a_scenario_passes_on_hosts_that_have_nothing(scenario: str, suite: str) -> None:
    played(scenario, {CHOICE: suite})


def played(scenario: str, variables: Mapping[str, str] = MappingProxyType({})) -> None:
    """Play a scenario to its end."""
    programs = Path(sys.executable).parent
    done = subprocess.run(
        [programs / "molecule", "test", "--scenario-name", scenario],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # Molecule looks for Ansible on the PATH.
        env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "NO_COLOR": "1", **variables},
        check=False,
    )
    assert done.returncode == 0, f"molecule test --scenario-name {scenario}:\n{done.stdout[-_LAST:]}"
