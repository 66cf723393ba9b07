"""What all tests share."""

from __future__ import annotations

import gc
import ipaddress
import os
import re
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import ansible.utils.display  # noqa: F401 - asks ldconfig where libc is: no test does
import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

from lab.fleet.nodes import unusable
from lab.services.brokers import kafka_jars
from lab.services.rest_proxies import sandbox_archive, vendor_archives
from tests.supported import Promises, promise_of

# The garbage collector would walk over thousands of collected tests again and again: a quarter of all time.
gc.set_threshold(50_000, 20, 50)

# How long an example takes says how busy the machine is.
settings.register_profile("kedge", deadline=None)
settings.load_profile("kedge")

#: Marks of what is not for `make check`; every other test of these folders is.
_NOT_CHECK = ("process", "spark", "kafka", "fleet", "bare", "slow", "long")
_CHECKED = ("tests/unit/", "tests/render/")
_STARTS = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.exec", "os.system"}


def _outside(host: object) -> bool:
    try:
        address = ipaddress.ip_address(str(host))
    except ValueError:
        return host != "localhost"
    return not (address.is_loopback or address.is_unspecified)


class _Guard:
    """Sees what a test of `make check` starts and where it connects to."""

    def __init__(self) -> None:
        self.watches = False
        self.seen: list[str] = []
        sys.addaudithook(self)

    def __call__(self, event: str, args: tuple[Any, ...]) -> None:
        if not self.watches:
            return
        if event in _STARTS:
            self.seen.append(f"starts a process ({' '.join(map(str, (event, *args[1:2])))[:100]})")
        elif event == "socket.connect" and isinstance(args[1], tuple) and _outside(args[1][0]):
            self.seen.append(f"connects to {args[1][0]}")


_guard = _Guard()
_unusable = cache(unusable)


def _guarded(item: pytest.Item) -> Generator[None, object, object]:
    """Fail a test of `make check` that does what such a test must not do, wherever it runs."""
    _guard.watches, _guard.seen = item.get_closest_marker("check") is not None, []
    try:
        done = yield
    finally:
        _guard.watches = False
    if _guard.seen:
        pytest.fail(f"{item.nodeid} {_guard.seen[0]}: mark it pytest.mark.process", pytrace=False)
    return done


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    """Guard the fixtures of a test, name what it promises, and skip it where no engine can run its nodes."""
    promise_of(item)
    # Asked here and not of what is collected: the answer starts a node, and most runs select no such test.
    if item.get_closest_marker("fleet") and (reason := _unusable()):
        pytest.skip(reason)
    return (yield from _guarded(item))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Guard a test itself."""
    return (yield from _guarded(item))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--area``, as of ``make check AREA=rest``."""
    parser.addoption("--area", help="only files that are named after a service or package, or import it")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out, unread, what is not of the area."""
    area = config.getoption("area")
    if not area or not collection_path.is_file() or area in collection_path.stem.split("_"):
        return None
    imports = rf"^\s*(from|import) .*\b{re.escape(area)}\b"
    return None if re.search(imports, collection_path.read_text(encoding="utf-8"), re.MULTILINE) else True


class _ByFile(LoadScopeScheduling):
    """Workers take whole files, whose tests share brokers and fleets; a molecule scenario stands alone."""

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.partition("::")[0]
        return nodeid if path.endswith("test_molecule.py") else path


# --dist loadgroup would do, but xdist 3.8 does not see the groups of pytest 9.
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> _ByFile:
    """Share tests out between the workers of ``-n``, whatever ``--dist`` says."""
    return _ByFile(config, log)


def pytest_configure(config: pytest.Config) -> None:
    """Keep what real proxies did, where the reports of all workers arrive."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Promises())


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what `make check` runs."""
    for item in items:
        if item.nodeid.startswith(_CHECKED) and not any(map(item.get_closest_marker, _NOT_CHECK)):
            item.add_marker("check")


def pytest_collection_finish() -> None:
    """Leave what was collected out of the garbage collector's walks: it lives to the end."""
    gc.freeze()


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
        pytest.skip("the sandbox is not built: mvn -q -B -f lab/services/sandbox_rest/pom.xml package")
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


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Mounts a small file system."""
    if os.geteuid() != 0:
        pytest.skip("root alone mounts a file system")
    place = tmp_path / "small"
    place.mkdir()

    def mounted(options: str) -> Path:
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "small", place], check=False)
        if done.returncode:
            pytest.skip("no file system can be mounted here")
        return place

    yield mounted
    subprocess.run(["umount", place], check=False)
