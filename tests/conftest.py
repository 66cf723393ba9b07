"""What all tests share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ansible.module_utils
import pytest
from xdist.scheduler import LoadScopeScheduling

from local.fleet.nodes import unusable
from local.services.brokers import kafka_jars
from local.services.rest_proxies import sandbox_archive, vendor_archives

# Ansible ships a module with its helpers as ansible.module_utils; tests import the modules the same way.
ansible.module_utils.__path__.append(str(Path(__file__).resolve().parents[1] / "plugins" / "module_utils"))


class _ByFile(LoadScopeScheduling):
    """Workers take whole files, whose tests share brokers and fleets; a molecule scenario stands alone.

    What needs a Spark session stays with one worker: its JVM compiles for a minute before it is quick.
    """

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.partition("::")[0]
        if path.startswith(("tests/spark/", "tests/faults/")):
            return "spark"
        return nodeid if path.endswith("test_molecule.py") else path


# --dist loadgroup would do, but xdist 3.8 does not see the groups of pytest 9.
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> _ByFile:
    """Share tests out between the workers of ``-n``, whatever ``--dist`` says."""
    return _ByFile(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs nodes where no engine can run them, and say why."""
    needing = [item for item in items if item.get_closest_marker("fleet")]
    if needing and (reason := unusable()):
        for item in needing:
            item.add_marker(pytest.mark.skip(reason=reason))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Play a test of a vendor once for each archive that is at hand; skip it, with the reason, where none is."""
    if "vendor" not in metafunc.fixturenames:
        return
    archives = vendor_archives()
    if isinstance(archives, str):
        vendors = [pytest.param(None, id="vendors", marks=pytest.mark.skip(reason=archives))]
    else:
        vendors = [pytest.param(each, id=f"{each.distribution}-{each.version}") for each in archives]
    metafunc.parametrize("vendor", vendors)


@pytest.fixture(scope="session")
def jars() -> Path:
    """The folder of a broker's jars; what needs them is skipped where they are not cached."""
    found = kafka_jars()
    if found is None:
        pytest.skip("Kafka's jars are not cached: make setup")
    return found


@pytest.fixture(scope="session")
def sandbox() -> Path:
    """The archive of the sandbox proxy; what needs it is skipped where it is not built."""
    found = sandbox_archive()
    if found is None:
        pytest.skip("the sandbox is not built: mvn -q -B -f local/services/sandbox_rest/pom.xml package")
    return found


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print what tests counted: the property ``counted`` that they recorded, also in a worker of ``-n``."""
    done = [each for of in ("passed", "failed") for each in terminalreporter.stats.get(of, [])]
    for name, said in (each for report in done for each in report.user_properties):
        if name == "counted":
            terminalreporter.write_line(str(said))


@pytest.fixture(autouse=True)
def umask() -> Iterator[None]:
    """Leave the umask as it was: modules that run in this process set their own."""
    before = os.umask(0o022)
    os.umask(before)
    yield
    os.umask(before)
