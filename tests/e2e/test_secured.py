"""A secured fleet on real nodes: what a full run leaves behind, what a renewal touches, what faults come to."""

from __future__ import annotations

import base64
import json
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lab.fleet.engine import find_engine
from tests.awaiting import await_that
from tests.e2e.playing import ROOT, begin, local_fleet, on_node, own_inventory, play, recap

FLEET = "kedge-secured"
#: As deep as a scenario's, whose paths lead to the kit from there.
INVENTORY = f".cache/{FLEET}/inventory"
SECRETS = ROOT / ".cache" / "fleet" / FLEET
CERTIFICATES = SECRETS / "certificates"
PROXIES = [(host, port) for host in ("rest1", "rest2") for port in ("8082", "8083")]

pytestmark = [pytest.mark.fleet, pytest.mark.timeout(1200), pytest.mark.long]


@dataclass
class Run:
    """What a deploy, a second one, a plan and a proof printed, and which command lines there were meanwhile."""

    printed: dict[str, str] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    commands: set[str] = field(default_factory=set)


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    """A full run from nothing on two REST hosts of two instances each; the fleet stays for the other tests."""
    changes = (
        ("group_vars/all/fleet.yml", "kedge-molecule-kafka-rest-secure", FLEET),
        ("group_vars/all/fleet.yml", "10.78.4.", "10.78.5."),
        ("hosts.yml", "10.78.4.", "10.78.5."),
        ("hosts.yml", "rest1: {ansible_host: 10.78.5.21}", "rest[1:2]: {}"),
    )
    own = ROOT / own_inventory("molecule/kafka_rest_secure/inventory", FLEET, changes)
    for number in (1, 2):
        address = own / "host_vars" / f"rest{number}.yml"
        address.parent.mkdir(exist_ok=True)
        address.write_text(f"ansible_host: 10.78.5.2{number}\n")
    done = Run()
    ended = threading.Event()
    watcher = threading.Thread(target=watch_commands, args=(done.commands, ended))
    try:
        certify()
        local_fleet("up", INVENTORY)
        watcher.start()
        for name, arguments in (
            ("deploy", ("deploy.yml", "--diff", "-v")),
            ("again", ("deploy.yml", "--diff")),
            ("plan", ("plan.yml", "-v")),
            ("verify", ("verify.yml",)),
        ):
            played = play(*arguments, inventory=INVENTORY)
            done.printed[name] = played.stdout + played.stderr
            if played.returncode:
                done.failed.append(name)
        ended.set()
        yield done
    finally:
        ended.set()
        local_fleet("down", INVENTORY)


def watch_commands(found: set[str], ended: threading.Event) -> None:
    """Collect the command lines of all processes, as any user of the machine or of a node could."""
    while not ended.wait(0.2):
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                found.add(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
            except OSError:
                continue  # it has ended


def certify(*options: str) -> None:
    done = play("lab/fleet/certificates.yml", *options, inventory=INVENTORY)
    assert done.returncode == 0, done.stdout + done.stderr


def planted() -> dict[str, str]:
    """What must be nowhere: each password, each login as HTTP sends it, and the middle of each private key."""
    found = {}
    for file in (SECRETS / "passwords").iterdir():
        password = file.read_text().strip()
        found[f"password of {file.name}"] = password
        found[f"login of {file.name}"] = base64.b64encode(f"{file.name}:{password}".encode()).decode()
    for key in CERTIFICATES.glob("*.key"):
        found[f"key {key.name}"] = key.read_text().splitlines()[1]
    return found


def leaked(text: str) -> list[str]:
    return sorted(name for name, secret in planted().items() if secret in text)


def started(host: str, unit: str) -> str:
    """When a unit last became active; another process, another time."""
    return on_node(FLEET, host, f"systemctl show -P ActiveEnterTimestampMonotonic {unit}").strip()


def proxies() -> dict[tuple[str, str], str]:
    return {(host, port): started(host, f"kafka-rest@{port}") for host, port in PROXIES}


def in_force(key: str) -> list[str]:
    """The value of a key in the configuration that each proxy has in force; empty where it is not set."""
    command = f"sed -n 's/^{key}=//p' /etc/kafka-rest/%s/kafka-rest.properties"
    return [on_node(FLEET, host, command % port).strip() for host, port in PROXIES]


def settings(**own: str | int) -> tuple[str, str]:
    return "-e", json.dumps({"kafka_rest_settings": {k.replace("_", "."): v for k, v in own.items()}})


def test_a_secured_fleet_is_deployed_once_and_proven(run: Run) -> None:
    assert run.failed == [], run.printed[run.failed[0]][-4000:]
    assert all(host["changed"] == 0 for host in recap(run.printed["again"]).values())
    verdicts = json.loads((ROOT / "runs/latest/report/verdicts.json").read_text())
    assert verdicts["verdict"] == "pass"


def test_nothing_that_a_run_printed_has_a_secret(run: Run) -> None:
    # The differences did show the lines that hold one.
    assert "sasl.jaas.config=***" in run.printed["deploy"]
    assert {name: names for name, text in run.printed.items() if (names := leaked(text))} == {}


def test_no_command_line_has_a_secret(run: Run) -> None:
    # Those of the nodes' processes were among them.
    assert any("kafka-rest.properties" in command for command in run.commands)
    assert any("verify.load" in command for command in run.commands)
    assert leaked("\n".join(run.commands)) == []


def test_nothing_that_a_run_left_behind_has_a_secret(run: Run) -> None:
    del run
    folder = (ROOT / "runs/latest").resolve()
    files = [file for file in folder.rglob("*") if file.is_file()]
    assert {"plan.json", "load.json", "run.json", "report.html"} <= {file.name for file in files}
    found = {str(file.relative_to(folder)): leaked(file.read_text(errors="replace")) for file in files}
    assert {name: names for name, names in found.items() if names} == {}


def test_on_the_nodes_secrets_lie_where_only_their_service_reads_and_in_no_log(run: Run) -> None:
    del run
    secrets = "\n".join(planted().values())
    for host in ("leaf1", "rest1", "rest2", "lb1"):
        # The secrets go in by standard input: not even the test has one on a command line.
        command = (
            "cat > /run/planted && chmod 600 /run/planted; "
            "grep -rlFs -f /run/planted /etc /var /opt /tmp /home /root /usr/local | xargs -r stat -c '%A %n'; "
            "echo; journalctl --no-pager -o cat | grep -cF -f /run/planted; rm /run/planted"
        )
        config = str(SECRETS / "ssh_config")
        done = subprocess.run(
            ["ssh", "-F", config, host, command], input=secrets, capture_output=True, text=True, check=False
        )
        files, _, journal = done.stdout.rpartition("\n\n")
        assert journal.strip() == "0", host
        holding = [line.split(maxsplit=1) for line in files.splitlines() if line]
        assert holding, f"nothing on {host} holds a secret: it was not looked for rightly"
        assert [(mode, file) for mode, file in holding if mode[7:10] != "---"] == [], host
        assert not [file for _, file in holding if file.startswith(("/var/log/", "/tmp/"))], host


def test_a_login_is_asked_for_at_the_balancer_and_at_each_instance(run: Run) -> None:
    del run
    instance = "https://10.78.5.21:8082/topics"
    # As the balancer, for an instance takes no connection without a certificate.
    shown = ["--cert", str(CERTIFICATES / "lb1.pem"), "--key", str(CERTIFICATES / "lb1.key")]
    for url, certificate in (("https://10.78.5.31:8080/topics", []), (instance, shown)):
        for login in (["-u", "client:wrong"], []):
            for method in ([], ["--data", '{"records":[{"value":"eA=="}]}']):
                done = curl(*login, *method, *certificate, url)
                assert done.stdout == "401", (url, login, done.stderr)
    strange = curl(instance)
    assert strange.returncode != 0
    assert strange.stdout == "000"


def curl(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Ask with the CA's certificate at hand; the status of the answer is what is printed."""
    told = ("-sS", "-o", "/dev/null", "-w", "%{http_code}", "--cacert", str(CERTIFICATES / "ca.pem"))
    return subprocess.run(["curl", *told, *arguments], capture_output=True, text=True, check=False)


def test_a_renewed_certificate_restarts_only_what_shows_it(run: Run) -> None:
    del run
    before, broker, balancer = (
        proxies(),
        started("leaf1", "kafka-broker@leaf"),
        started("lb1", "rest-balancer@haproxy"),
    )
    workers = on_node(FLEET, "lb1", "pgrep -P $(systemctl show -P MainPID rest-balancer@haproxy)")
    for host in ("lb1", "rest1"):
        (CERTIFICATES / f"{host}.pem").unlink()
    certify()
    done = play("deploy.yml", inventory=INVENTORY)
    assert done.returncode == 0, done.stdout + done.stderr
    after = proxies()
    assert {at for at in after if after[at] != before[at]} == {("rest1", "8082"), ("rest1", "8083")}
    assert started("leaf1", "kafka-broker@leaf") == broker
    # Reloaded: the same unit, and another worker in it.
    assert started("lb1", "rest-balancer@haproxy") == balancer
    assert on_node(FLEET, "lb1", "pgrep -P $(systemctl show -P MainPID rest-balancer@haproxy)") != workers


def unwrapped(done: subprocess.CompletedProcess[str]) -> str:
    """What a playbook printed, its messages in one line again."""
    return " ".join(f"{done.stdout} {done.stderr}".split())


def refused(*arguments: str) -> str:
    """What a deploy says that stops before a host is touched."""
    before = proxies()
    done = play("deploy.yml", *arguments, inventory=INVENTORY)
    assert done.returncode != 0
    assert set(recap(done.stdout)) == {"localhost"}
    assert proxies() == before
    return unwrapped(done)


@pytest.fixture
def certificate_of_rest1() -> Iterator[Path]:
    certificate = CERTIFICATES / "rest1.pem"
    kept = certificate.read_bytes()
    yield certificate
    certificate.write_bytes(kept)


def test_an_expired_certificate_stops_before_a_host_is_touched(run: Run, certificate_of_rest1: Path) -> None:
    del run
    certificate_of_rest1.unlink()
    certify("-e", "local_ca_days=0")
    said = refused()
    assert f"{certificate_of_rest1.name} expired on" in said


def test_another_hosts_certificate_stops_before_a_host_is_touched(
    run: Run, certificate_of_rest1: Path
) -> None:
    del run
    certificate_of_rest1.write_bytes((CERTIFICATES / "rest2.pem").read_bytes())
    said = refused()
    assert "is not the one of certificate" in said
    assert "rest1 is reached at 10.78.5.21" in said


def test_an_archive_with_another_checksum_stops_before_a_host_is_touched(run: Run) -> None:
    del run
    said = refused("-e", f"kafka_rest_archive_checksum={'ab' * 32}")
    assert f"kafka_rest_archive_checksum is {'ab' * 32}" in said


def test_a_broker_out_of_reach_stops_before_a_proxy_is_touched(run: Run) -> None:
    del run
    before = proxies()
    # With the broker's own host, the deploy would start it again.
    others = "localhost,kafka_rest,rest_balancer"
    on_node(FLEET, "leaf1", "systemctl stop kafka-broker@leaf")
    try:
        done = play("deploy.yml", *settings(producer_linger_ms=7), "--limit", others, inventory=INVENTORY)
        assert done.returncode != 0
        assert "10.78.5.11:9092" in done.stdout + done.stderr
        assert proxies() == before
        assert "7" not in in_force("producer.linger.ms")
    finally:
        on_node(FLEET, "leaf1", "systemctl start kafka-broker@leaf")


def test_a_full_disk_leaves_what_runs_as_it_is_and_the_next_run_mends_it(run: Run) -> None:
    del run
    before = proxies()
    own = "/var/lib/kedge"
    on_node(
        FLEET,
        "rest2",
        f"cp -a {own} /var/lib/kedge.kept && mount -t tmpfs -o size=4m,mode=755 full {own} && "
        f"cp -a /var/lib/kedge.kept/. {own}/ && cat /dev/zero > {own}/filled; "
        # The run that holds the host notes that: there is room for it, and for no release.
        f"truncate -s -65536 {own}/filled",
        check=False,
    )
    wanted = settings(producer_linger_ms=8)
    try:
        done = play("deploy.yml", *wanted, inventory=INVENTORY)
        said = unwrapped(done)
        assert done.returncode != 0
        assert "KiB are needed. Nothing was changed, and all processes run on and serve" in said
        assert proxies() == before
        assert set(in_force("producer.linger.ms")) <= {"", "5"}
        left = on_node(FLEET, "rest2", f"find {own} -name '.*.[0-9]*' -o -name '.*.new'")
        assert left == ""
    finally:
        on_node(FLEET, "rest2", f"rm {own}/filled")
    mended = play("deploy.yml", *wanted, inventory=INVENTORY)
    assert mended.returncode == 0, mended.stdout + mended.stderr
    assert set(in_force("producer.linger.ms")) == {"8"}


def test_a_host_that_drops_off_in_the_middle_leaves_the_others_alone_and_the_next_run_mends_it(
    run: Run,
) -> None:
    del run
    engine = find_engine()
    before = proxies()
    wanted = settings(producer_linger_ms=9)
    with begin("deploy.yml", *wanted, inventory=INVENTORY) as process:
        assert process.stdout is not None
        said, dropped = "", False
        try:
            for line in process.stdout:
                said += line
                # A step is printed when it has ended: the restart comes next.
                if ": drain at" in line and not dropped:
                    engine.run("pause", f"{FLEET}-rest1")
                    dropped = True
            assert process.wait() != 0
            assert recap(said)["rest1"]["failed"] == 1, said[-3000:]
            assert [started("rest2", f"kafka-rest@{port}") for port in ("8082", "8083")] == [
                before["rest2", port] for port in ("8082", "8083")
            ]
        finally:
            engine.run("unpause", f"{FLEET}-rest1")
    await_that(lambda: on_node(FLEET, "rest1", "echo here", check=False), "rest1 answers again")
    mended = play("deploy.yml", *wanted, inventory=INVENTORY)
    assert mended.returncode == 0, mended.stdout + mended.stderr
    assert set(in_force("producer.linger.ms")) == {"9"}
    assert all(proxies()[at] != before[at] for at in PROXIES)


def test_a_user_that_came_later_is_added_before_the_proxies_log_in_as_it(run: Run) -> None:
    del run
    before = proxies()
    changes = (
        (
            "all/secrets.yml",
            "  client: ",
            "  late: \"{{ lookup('ansible.builtin.password', fleet_keys ~ '/passwords/late ' ~ made_password) }}\"\n  client: ",
        ),
        ("all/main.yml", "'proxy']", "'proxy', 'late']"),
        ("kafka_rest/security.yml", "kafka_rest_user: proxy", "kafka_rest_user: late"),
        ("kafka_rest/security.yml", "passwords.proxy", "passwords.late"),
    )
    for path, old, new in changes:
        file = ROOT / INVENTORY / "group_vars" / path
        assert old in file.read_text()
        file.write_text(file.read_text().replace(old, new, 1))
    done = play("deploy.yml", inventory=INVENTORY)
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(proxies()[at] != before[at] for at in PROXIES)
    users = "sed -n 's/.*jaas.config=.*username=\"\\([a-z]*\\)\".*/\\1/p' /etc/kafka-rest/%s/kafka-rest.properties"
    assert {on_node(FLEET, host, users % port).strip() for host, port in PROXIES} == {"late"}
    assert leaked(done.stdout + done.stderr) == []
    again = play("deploy.yml", inventory=INVENTORY)
    assert all(host["changed"] == 0 for host in recap(again.stdout).values())
