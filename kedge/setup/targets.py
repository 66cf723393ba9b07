"""What each target of the Makefile needs on this machine: one table, and nothing is installed beside it."""

from __future__ import annotations

from dataclasses import dataclass, replace

BASE = "requirements.txt"
TESTS = "requirements/tests.txt"
LINT = "requirements/lint.txt"
BENCH = "requirements/bench.txt"
AUDIT = "requirements/audit.txt"
FUZZ = "requirements/fuzz.txt"

KAFKA = "kafka-4.3.1"
CLASSIC_KAFKA = "kafka-3.9.2"  # the last with the classic MirrorMaker
STREAMS = "kafka-streams-4.3.1"
OLDER_STREAMS = "kafka-streams-3.9.2"
METRICS = "jmx-agent-1.0.1"
S3A = "hadoop-aws-3.4.1"  # Hadoop as Spark brings it


@dataclass(frozen=True)
class Target:
    """What a target needs: locked files, jar sets, builds of ours, the fleet, and programs beside theirs.

    ``fleet`` is an engine, the nodes' image and what reaches nodes; ``link`` is Toxiproxy, the long way
    between two clusters; ``store`` is MinIO, an object store; ``metrics`` is Prometheus. ``programs``
    are what the target's own code calls and nothing else here brings. ``bundled`` jars need no Maven to fetch
    them.
    """

    requirements: tuple[str, ...] = (BASE,)
    jars: tuple[str, ...] = ()
    sandbox: bool = False
    sample: bool = False
    link: bool = False
    store: bool = False
    metrics: bool = False
    fleet: bool = False
    programs: tuple[str, ...] = ()
    bundled: bool = False


#: `make setup --without-fleet`: planning, deploying, verifying and auditing hosts that are there already.
OWN_HOSTS = Target(jars=(KAFKA,), programs=("ssh",))
#: What a bundle brings: that, and the jar sets that a deploy fetches when an inventory asks for them.
BUNDLE = replace(OWN_HOSTS, jars=(KAFKA, CLASSIC_KAFKA, METRICS), programs=("java", "ssh"), bundled=True)
DEMO = replace(OWN_HOSTS, sandbox=True, fleet=True)
_TESTS = Target(requirements=(BASE, TESTS))
_BROKER = replace(_TESTS, jars=(KAFKA,), sandbox=True, programs=("ss",))
_BENCH = Target(requirements=(BASE, BENCH))

TARGETS = {
    "setup": DEMO,
    "bundle": replace(BUNDLE, bundled=False),
    "demo": DEMO,
    "demo-streams": replace(DEMO, jars=(KAFKA, STREAMS), sample=True),
    "demo-capacity": DEMO,
    "demo-compare": DEMO,
    "demo-watch": DEMO,
    "demo-canary": replace(DEMO, metrics=True),
    "demo-mirror": replace(DEMO, jars=(KAFKA, CLASSIC_KAFKA), link=True),
    "fleet-up": Target(fleet=True),
    "release": Target(programs=("git",)),
    "check": Target(requirements=(BASE, TESTS, LINT)),
    "lint": Target(requirements=(BASE, TESTS, LINT)),
    # The browser looks at reports; haproxy and systemd read the files that are rendered for them.
    "test-fast": replace(
        _BROKER,
        jars=(KAFKA, STREAMS),
        metrics=True,
        programs=(
            "chromium",
            "dpkg-deb",
            "git",
            "haproxy",
            "make",
            "mvn",
            "openssl",
            "ss",
            "ssh",
            "ssh-keygen",
            "systemd-analyze",
        ),
    ),
    "test-java": Target(requirements=(), programs=("mvn",)),
    "test-proxy": replace(_BROKER, fleet=True, programs=("curl", "ss", "ssh")),
    "test-demo": replace(DEMO, requirements=(BASE, TESTS), programs=("ssh", "curl")),
    "test-kafka": replace(
        _BROKER,
        jars=(KAFKA, STREAMS, CLASSIC_KAFKA),
        sample=True,
        link=True,
        programs=("curl", "haproxy", "openssl", "ss"),
    ),
    "test-fleet": replace(
        DEMO,
        requirements=(BASE, TESTS),
        jars=(KAFKA, STREAMS, CLASSIC_KAFKA, METRICS),
        sample=True,
        link=True,
        programs=("curl", "dpkg-deb", "ssh"),
    ),
    "test-bare": replace(_TESTS, fleet=True, programs=("git",)),
    "bench": replace(
        _BENCH,
        jars=(KAFKA, STREAMS, CLASSIC_KAFKA),
        sandbox=True,
        sample=True,
        link=True,
        metrics=True,
        fleet=True,
        programs=("chromium", "haproxy", "jcmd", "ss"),
    ),
    "bench-clients": replace(_BENCH, jars=(KAFKA,), programs=("javac",)),
}
TARGETS["fuzz"] = _TESTS
TARGETS["mutants"] = replace(_TESTS, programs=("git",))
# Its oracle asks Kafka's own classes of both lines.
TARGETS["test-slow"] = replace(TARGETS["test-fast"], jars=(KAFKA, STREAMS, CLASSIC_KAFKA, OLDER_STREAMS))
TARGETS["test-long"] = replace(
    TARGETS["test-fleet"],
    requirements=(BASE, TESTS, AUDIT, FUZZ),
    jars=(*TARGETS["test-fleet"].jars, OLDER_STREAMS, S3A),
    store=True,
    metrics=True,
    programs=tuple(sorted({*TARGETS["test-kafka"].programs, *TARGETS["test-fleet"].programs, "git", "make"})),
)
