"""A deploy under load that is killed at each of its steps: the next run, forwards or back, puts all of it right.

    KEDGE_SEED=7 KEDGE_KILLS=60 KEDGE_KILLS_S=7200 python -m pytest -s -m long tests/e2e/test_killed.py

A step is a task, or an item of its loop, that changed something on a host in a deploy that nobody killed, or that held
its services. Each is killed in up to three ways, in an order that the seed draws: the playbook, the module on the host, the host's power.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from lab.fleet import nodes
from lab.fleet.engine import find_engine
from lab.fleet.inventory import read_fleet
from tests.awaiting import await_that
from tests.e2e.asking import GOOD, asking
from tests.e2e.playing import ROOT, begin, deployed_fleet, on_node, recap

#: Printed, so that a run can be repeated; another one on each day.
SEED = int(os.environ.get("KEDGE_SEED", time.strftime("%Y%m%d")))
KILLS = int(os.environ.get("KEDGE_KILLS", "20"))
KILLS_S = int(os.environ.get("KEDGE_KILLS_S", "1800"))
INVENTORY: Final = "tests/e2e/inventory_killed"
FLEET: Final = "kedge-e2e-killed"
BALANCER: Final = "http://10.78.19.31:8080"
HOSTS: Final = ("leaf1", "lb1", "rest1", "rest2")
PROXIES: Final = ("rest1", "rest2")
WAYS: Final = ("playbook", "module", "power")
#: How many ask at a time: a request that a process has when it stops is not sent again.
CLIENTS: Final = 2
#: So many requests in a row have to be answered once the next run has ended.
SERVED: Final = 20
#: With pipelining, a module is what this command reads.
MODULE: Final = "pgrep -fx /usr/bin/python3"
#: What a killed run may not leave behind on a host.
DANGLING: Final = (
    "find /etc/kafka-rest /etc/rest-balancer /etc/kafka-broker /etc/systemd/system -xtype l 2>/dev/null; "
    "find /etc/systemd/system -type f -size 0 -name '*@.service'; "
    "find /var/lib/kedge -type f -size 0 ! -name '.*lock'"
)
DRAINED: Final = "/var/lib/kedge/rest-balancer/drained.json"
SOCKET: Final = "/run/rest-balancer/haproxy/admin.sock"
STATES: Final = (
    f"python3 -c \"import socket; s = socket.socket(socket.AF_UNIX); s.connect('{SOCKET}'); "
    "s.sendall(b'show stat' + bytes([10])); print(s.makefile().read())\""
)

pytestmark = [pytest.mark.fleet, pytest.mark.long, pytest.mark.timeout(KILLS_S + 1800)]


class Step(NamedTuple):
    """A task of a deploy or an item of its loop, the host where it acts, and how long it took.

    It begins when ``mark`` is printed for the ``nth`` time: the task, or the item before it.
    """

    name: str
    mark: str
    nth: int
    host: str
    seconds: float


#: What is printed of what was done: the host, the one to which it was delegated, the item of a loop.
ACTED: Final = re.compile(r"(changed|ok): \[(\S+?)(?: -> ([^\s(\]]+)[^\]]*)?\](?: => \(item=(.*)\))?")


def mark_of(line: str) -> str | None:
    """The task that begins with a line, or the item that ends with it."""
    if named := re.match(r"TASK \[(.*)\] \**$", line):
        return named[1]
    acted = ACTED.match(line)
    return acted[4] if acted else None


def wanted(number: int) -> tuple[str, ...]:
    """What proxies and balancer are changed to, as arguments of a playbook: another number is another release."""
    values = {
        "kafka_rest_settings": {"producer.linger.ms": number},
        "rest_balancer_consumer_minutes": 10 + number,
    }
    return "--tags", "kafka_rest", "-e", json.dumps(values)


@pytest.fixture(scope="module")
def deployed() -> Iterator[None]:
    """A broker, two proxies and their balancer, deployed; they are removed at the end."""
    with deployed_fleet(INVENTORY, "-e", wanted(0)[-1]):
        yield


def steps_of(number: int) -> list[Step]:
    """Deploy, and return what that took: which tasks acted on which hosts."""
    seen: Counter[str] = Counter()
    found: dict[tuple[str, str, int, str], float] = {}
    task, mark, began = "", "", time.monotonic()
    printed = []
    with begin("deploy.yml", *wanted(number), inventory=INVENTORY, own_group=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            printed.append(line)
            if acted := ACTED.match(line):
                host = acted[3] or acted[2]
                if host in HOSTS and (acted[1] == "changed" or task.startswith("Hold ")):
                    found.setdefault((acted[4] or task, mark, seen[mark], host), time.monotonic() - began)
            elif named := mark_of(line):
                task = named
            if (now := mark_of(line)) is not None:
                mark, began = now, time.monotonic()
                seen[mark] += 1
    assert process.returncode == 0, "".join(printed)[-6000:]
    return [Step(*key, seconds) for key, seconds in found.items()]


def killed(number: int, step: Step, way: str, chance: random.Random) -> str:
    """Deploy, and kill at a step; return what the run said, empty where the step had ended before."""
    # A moment of the step that is drawn: its end is printed later than it comes.
    after, at_once = round(chance.random() * 0.7 * step.seconds, 2), chance.random() < 0.5
    tasks, hit, printed = 0, False, []
    with (
        module_killer(step.host, after) as kill_module,
        begin("deploy.yml", *wanted(number), inventory=INVENTORY, own_group=True) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            printed.append(line)
            tasks += mark_of(line) == step.mark
            if hit or tasks != step.nth:
                continue
            tasks += 1
            if way == "module":
                hit = kill_module()
                continue
            threading.Event().wait(after)
            hit = True
            if way == "playbook":
                os.killpg(process.pid, signal.SIGKILL)
                break
            find_engine().run("kill", f"{FLEET}-{step.host}")
            if at_once:
                power_on(step.host)
    if way == "power" and hit and not at_once:
        power_on(step.host)
    return f"after {after} s\n{''.join(printed)}" if hit else ""


@contextmanager
def module_killer(host: str, after: float) -> Iterator[Callable[[], bool]]:
    """Give what kills the next module of a host, and returns whether it still ran; it is there before that begins."""
    awaits = f"for i in $(seq 500); do {MODULE} > /dev/null && break; sleep 0.02; done; sleep {after}"
    config = ROOT / ".cache" / "fleet" / FLEET / "ssh_config"
    with subprocess.Popen(
        ["ssh", "-F", config, host, f"read go && {{ {awaits}; kill -9 $({MODULE}) && echo killed; }}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as waiting:
        try:
            yield lambda: "killed" in waiting.communicate("go\n")[0]
        finally:
            waiting.kill()


def power_on(host: str) -> None:
    """Start a node that was killed, and wait until it has booted."""
    engine, fleet = find_engine(), read_fleet(Path(ROOT / INVENTORY))
    engine.run("start", f"{FLEET}-{host}")
    nodes.wait(engine, fleet, next(node for node in fleet.nodes if node.name == host), threading.Event())


def play(playbook: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Play to the end; as a session of its own, so that what asks meanwhile takes nothing of its share of a core."""
    with begin(playbook, *arguments, inventory=INVENTORY, own_group=True) as process:
        printed = process.communicate()[0]
    return subprocess.CompletedProcess(playbook, process.returncode, printed, "")


def next_run(then: str, number: int, former: int) -> tuple[str, int | None]:
    """Play what follows a kill; return what that was, and the number that is planned, if the run knows it."""
    if then == "rollback":
        done = play("rollback.yml", "-e", "service=kafka_rest")
        if done.returncode == 0:
            return "rolled back", None
        refused = re.search(r"Refusing to roll back: [^.]*", " ".join(done.stdout.split()))
        assert refused, done.stdout[-4000:]
        then = f"back ({refused[0]})"
    planned = number if then == "forwards" else former
    done = play("deploy.yml", *wanted(planned))
    assert done.returncode == 0, done.stdout[-4000:]
    return then, planned


def left_wrong(number: int | None, answers: Counter[str]) -> Iterator[str]:
    """Yield what is not as it should be after the run that followed a kill."""
    before = answers.copy()
    await_that(lambda: (answers - before).total() >= SERVED, "clients ask", 200)
    if failed := answers - before - Counter({GOOD: answers[GOOD]}):
        yield f"clients: {dict(failed)}"
    for host in HOSTS:
        if found := on_node(FLEET, host, DANGLING).split():
            yield f"{host} has {', '.join(found)}"
        try:
            await_that(lambda host=host: not leases(host), "", 30)
        except AssertionError:
            yield f"{host} is held: {leases(host)}"
    rows = [
        row.split(",") for row in on_node(FLEET, "lb1", STATES).splitlines() if row.startswith("rest,rest")
    ]
    if {row[17] for row in rows} != {"UP"} or len(rows) != len(PROXIES):
        yield f"servers: {[(row[1], row[17]) for row in rows]}"
    if drained := json.loads(on_node(FLEET, "lb1", f"cat {DRAINED} 2>/dev/null || echo '{{}}'")).get(
        "servers"
    ):
        yield f"drained: {drained}"
    for host in PROXIES if number is not None else ():
        if f"producer.linger.ms={number}\n" not in on_node(
            FLEET, host, "cat /etc/kafka-rest/8082/*.properties"
        ):
            yield f"{host} has not what was deployed"


def leases(host: str) -> dict[str, object]:
    return dict(json.loads(on_node(FLEET, host, "cat /var/lib/kedge/.lease.json"))["leases"])


@pytest.mark.usefixtures("deployed")
def test_a_deploy_killed_at_any_step_is_put_right_by_the_next_run() -> None:
    chance, deadline = random.Random(SEED), time.monotonic() + KILLS_S
    number = former = 1
    steps = steps_of(number)
    left = [(step, way) for step in steps for way in WAYS]
    chance.shuffle(left)
    print(f"{len(steps)} steps, {len(left)} kills; seed {SEED}", flush=True)
    done: Counter[str] = Counter()
    wrong: list[str] = []
    with asking(BALANCER) as answers:
        while left and done.total() < KILLS and time.monotonic() < deadline:
            step, way = left.pop()
            then = chance.choice(["forwards", "forwards", "back", "rollback"])
            before, began, number = answers.copy(), time.monotonic(), number + 1
            said = killed(number, step, way, chance)
            try:
                then, planned = next_run(then, number, former)
                found = [*left_wrong(planned, answers)]
            except AssertionError as error:
                found = [f"the next run ({then}): {error}\nafter\n{said[-4000:]}"]
            lost = answers - before - Counter({GOOD: answers[GOOD]})
            # Who loses the balancer or the only broker is not served meanwhile.
            if lost and way != "power":
                found.append(f"clients meanwhile: {dict(lost)}")
            done[f"{way if said else 'missed'}, {then.partition(' (')[0]}"] += 1
            what = f"{step.name} (after no. {step.nth} of {step.mark}) on {step.host}: {way} {said.partition(chr(10))[0] or 'missed'}, {then}"
            print(
                f"{done.total()}. {what}: {sum((answers - before).values())} requests, not answered {dict(lost)}, "
                f"{time.monotonic() - began:.0f} s" + "".join(f"\n  WRONG {one}" for one in found),
                flush=True,
            )
            wrong += [f"{what}: {one}" for one in found]
            former = number if then == "forwards" else former
    print(f"{done.total()} kills: {dict(done)}; seed {SEED}; {dict(answers)}", flush=True)
    assert not wrong, "\n".join(wrong)


class Fault(NamedTuple):
    """What makes a host hang or refuse: commands in its container, and what a deploy says ('' if it ends well)."""

    host: str
    breaks: str
    mends: str
    said: str
    #: So many requests may get no answer; None: any number.
    unanswered: int | None = 0


def small_disk(options: str, filled: str) -> Fault:
    """A disk of its own for what Kedge keeps on rest2, as good as full."""
    place = "/var/lib/kedge"
    breaks = (
        f"cp -a {place} /root/kept && mount -t tmpfs -o {options} small {place} && cp -a /root/kept/. {place}; "
        f"cd {place}; {filled}; rm -r /root/kept"
    )
    return Fault("rest2", breaks, f"umount {place}", "Nothing was changed")


FAULTS: Final = {
    "sshd": Fault("rest2", "pkill -STOP sshd", "pkill -CONT sshd", "unreachable=1"),
    "a proxy": Fault("rest2", "systemctl kill -s STOP kafka-rest@8082", "true", "", CLIENTS),
    "HAProxy": Fault("lb1", "pkill -STOP haproxy", "pkill -CONT haproxy", "no answer within 10 s", None),
    "a full disk": small_disk("size=2m", "dd if=/dev/zero of=fill bs=4k count=400 2>/dev/null"),
    "no inode": small_disk(
        "nr_inodes=120", "for n in $(seq 120); do touch fill$n || break; done 2>/dev/null; rm fill?"
    ),
    "a read-only /etc": Fault(
        "rest2",
        "mount --bind /etc /etc && mount -o remount,bind,ro /etc",
        "umount /etc",
        "the file system of /etc is mounted read-only",
    ),
}
_numbers = count(200)


@pytest.mark.usefixtures("deployed")
@pytest.mark.parametrize("name", FAULTS)
def test_a_deploy_to_a_host_that_hangs_ends_and_says_why_and_others_serve(name: str) -> None:
    fault, engine, number = FAULTS[name], find_engine(), next(_numbers)
    container = f"{FLEET}-{fault.host}"
    for host in HOSTS:
        await_that(lambda host=host: not leases(host), f"the run before has given {host} back", 60)
    began = time.monotonic()
    with asking(BALANCER) as answers:
        engine.run("exec", container, "sh", "-c", fault.breaks)
        try:
            done = play("deploy.yml", *wanted(number))
        finally:
            engine.run("exec", container, "sh", "-c", fault.mends)
        ended = time.monotonic() - began
        lost = dict(answers - Counter({GOOD: answers[GOOD]}))
        print(
            f"{name}: exit {done.returncode} after {ended:.0f} s; not answered {lost} of {answers.total()}",
            flush=True,
        )
        told = " ".join(done.stdout.split())
        if fault.said:
            assert done.returncode != 0
            assert fault.said in told, told[-4000:]
        else:
            assert done.returncode == 0, told[-4000:]
        if changed := any(host["changed"] for host in recap(done.stdout).values()) and done.returncode:
            again = play("deploy.yml", *wanted(number))
            assert again.returncode == 0, again.stdout[-4000:]
        found = [*left_wrong(None if done.returncode and not changed else number, answers)]
        assert not found
    assert fault.unanswered is None or sum(lost.values()) <= fault.unanswered, lost
