"""Set-up on a Debian that has nothing but python3, make, git and certificates, run in a container.

It takes packages from where this machine takes them: apt's sources and proxies, the settings of pip and Maven, and
the certificates of this machine's own authorities. What a container in a container does not allow is not tried
here: the engine that set-up installs holds the nodes' image, and starts no node from it, for which it would need
control groups of its own. So ``make demo`` ends here with its set-up.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kedge.setup.paths import PROJECT
from kedge.setup.problem import Problem
from lab.fleet import node_image
from lab.fleet.engine import Engine, find_engine
from lab.fleet.nodes import limits

pytestmark = [pytest.mark.bare, pytest.mark.timeout(1800)]

IMAGE = f"localhost/kedge-bare:{os.getpid()}"
#: Where a person says which index, mirror or proxy is to be used.
TOLD = re.compile(
    r"(PIP|UV)_(EXTRA_|DEFAULT_)?INDEX(_URL)?|PIP_TRUSTED_HOST|(HTTPS?|NO|ALL)_PROXY|GO(NO)?(PROXY|SUMDB)",
    re.I,
)
PIP_FILES = (Path("/etc/pip.conf"), Path.home() / ".config/pip/pip.conf", Path.home() / ".pip/pip.conf")
AUTHORITIES = Path("/usr/local/share/ca-certificates")
PHASES = (
    "system packages",
    "Java and Maven",
    "virtual environment",
    "jars",
    "sandbox REST proxy",
    "nodes' image",
)

#: Set up twice, then look: the kit can be imported from anywhere, and the engine has the image.
SET_UP = """
git config --global --add safe.directory /kit.git
git clone -q /kit.git ~/kedge
if [ -e /machine/settings.xml ]; then mkdir -p ~/.m2 && cp /machine/settings.xml ~/.m2/; fi
cd ~/kedge
make setup
echo AGAIN
python3 -m kedge.setup demo
echo LOOK
(cd / && ~/kedge/.venv/bin/python -c 'import kedge, spark_checks, verify, lab, plugins')
python3 -m kedge.setup setup --check
"""
#: Then what the tests need: programs that no demo installs.
SET_UP_TESTS = """
echo TESTS
python3 -m kedge.setup test-fast
python3 -m kedge.setup test-kafka
.venv/bin/python -m pytest -q tests/render/test_balancer.py
"""
#: What a control machine needs that has hosts of its own.
OWN_HOSTS = """
git config --global --add safe.directory /kit.git
git clone -q /kit.git ~/kedge
if [ -e /machine/settings.xml ]; then mkdir -p ~/.m2 && cp /machine/settings.xml ~/.m2/; fi
cd ~/kedge
python3 -m kedge.setup --without-fleet
echo LOOK
.venv/bin/kedge plan -i inventories/example
"""
AS_USER = """
apt-get update -q >/dev/null && apt-get install -y -q sudo >/dev/null
useradd --create-home person && echo 'person ALL=(ALL) NOPASSWD: ALL' > /etc/sudoers.d/person
exec runuser -u person -- env HOME=/home/person bash -euc "$0"
"""


@pytest.fixture(scope="module")
def engine() -> Engine:
    try:
        return find_engine()
    except Problem as problem:
        pytest.skip(str(problem))


@pytest.fixture(scope="module", params=[node_image.SUITE])
def bare(
    engine: Engine, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[list[str]]:
    """Make the root; yield what starts a container of it with a clone of the project."""
    folder = tmp_path_factory.mktemp("bare")
    proxies = folder / "proxies"
    proxies.write_text("".join(f"{line};\n" for line in node_image.proxies()))
    command = ["mmdebstrap", "--variant=minbase", "--include=python3,make,git,ca-certificates"]
    command += ["--dpkgopt=force-unsafe-io"]
    command += [f"--aptopt={line}" for line in node_image.proxies()]
    if AUTHORITIES.is_dir():
        command += [f"--customize-hook=copy-in {AUTHORITIES} {AUTHORITIES.parent}"]
    command += ['--customize-hook=chroot "$1" update-ca-certificates']
    command += [f"--customize-hook=upload {proxies} /etc/apt/apt.conf.d/proxies"]
    suite = str(request.param)
    command += [suite, str(folder / "root.tar"), *node_image.machine_sources(suite)]
    done = subprocess.run([*engine.prefix, *command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    engine.run("import", str(folder / "root.tar"), IMAGE)
    (folder / "root.tar").unlink()
    # A folder of work shares its repository with others, which lie elsewhere.
    subprocess.run(["git", "clone", "-q", "--bare", str(PROJECT), str(folder / "kit.git")], check=True)
    try:
        yield _start(folder / "kit.git")
    finally:
        engine.run("rmi", IMAGE, check=False)


def _start(kit: Path) -> list[str]:
    files = {kit: "/kit.git", Path.home() / ".m2" / "settings.xml": "/machine/settings.xml"}
    files |= {file: "/etc/pip.conf" for file in PIP_FILES if file.is_file()}
    volumes = [f"--volume={file}:{place}:ro" for file, place in files.items() if file.exists()]
    told = [f"--env={name}" for name in os.environ if TOLD.fullmatch(name)]
    # The engine inside cannot lay its layers over those of the container.
    store = ["--volume=/var/lib/containers"]
    return ["run", "--rm", "--privileged", "--network=host", *limits(), *store, *volumes, *told, IMAGE]


def set_up(engine: Engine, bare: list[str], *script: str) -> str:
    """Run a script of bash to its end; return all that it said."""
    command = [*engine.prefix, engine.name, *bare, "bash", "-euc", *script]
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        env={**os.environ, **engine.environment},
    )
    assert done.returncode == 0, done.stdout[-5000:]
    return done.stdout


def is_complete(said: str) -> None:
    first, _, rest = said.partition("AGAIN\n")
    again, _, look = rest.partition("LOOK\n")
    for phase in PHASES:
        assert f"set-up: {phase}: done in " in first
    assert "pip installs the same files" not in first
    # Nothing is done twice: the second time says that all is there, and no more.
    assert re.fullmatch(r"set-up: complete \(.+ s\)\n", again), again
    assert "set-up is complete" in look


def test_root_is_set_up_for_the_demo_and_for_the_tests(engine: Engine, bare: list[str]) -> None:
    said = set_up(engine, bare, SET_UP + SET_UP_TESTS)
    is_complete(said)
    tests = said.partition("TESTS\n")[2]
    assert "set-up: Toxiproxy: done in " in tests
    assert re.search(r"\d+ passed", tests.splitlines()[-1]), tests[-2000:]
    assert "skipped" not in tests.splitlines()[-1]


@pytest.mark.long
def test_ordinary_user_with_sudo_is_set_up_for_the_demo(engine: Engine, bare: list[str]) -> None:
    is_complete(set_up(engine, bare, AS_USER, SET_UP))


@pytest.mark.long
@pytest.mark.parametrize("bare", ["trixie"], indirect=True)
def test_debian_13_is_set_up_for_hosts_that_are_there(engine: Engine, bare: list[str]) -> None:
    said = set_up(engine, bare, OWN_HOSTS)
    first, _, look = said.partition("LOOK\n")
    assert "set-up: virtual environment: done in " in first
    assert "errors, " in look, "a plan was made"
