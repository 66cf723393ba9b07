"""Starting and removing the nodes of a fleet."""

from __future__ import annotations

import contextlib
import hashlib
import ipaddress
import json
import resource
import subprocess
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kedge.setup.paths import PROJECT
from kedge.setup.problem import Problem
from lab.fleet import node_image
from lab.fleet import ssh_keys as keys
from lab.fleet.engine import Engine, find_engine
from lab.fleet.inventory import Fleet, Node, choose
from lab.fleet.survey import FLEET_LABEL, NODE_LABEL, PROJECT_LABEL, Container, Network

#: Runs a command on a named node and returns its output.
Shell = Callable[[str, str], str]
ANSWER_S = 60.0
POLL_S = 0.1
NODE_MB = 500  # what a node with a broker writes in a demo
# Above these a limit means nothing to a node. podman first lowers its own limit of processes to the kernel's
# pid_max, 32768 by default, and then cannot raise it again where the machine withholds CAP_SYS_RESOURCE.
MOST_FILES, MOST_PROCESSES = 1_048_576, 32_768
#: Without systemd, podman's containers have one share of the CPU together, as much as each session of the
#: machine (sched_autogroup). A fleet is several machines: beside ten busy sessions a proxy took 60 s to
#: start, and 6 with eight shares.
CPU_SHARES = {
    Path("/sys/fs/cgroup/cpu/libpod_parent/cpu.shares"): 8 * 1024,
    Path("/sys/fs/cgroup/libpod_parent/cpu.weight"): 8 * 100,
}

Say = Callable[[str], None]


def ensure_network(engine: Engine, fleet: Fleet, known: Iterable[Network]) -> bool:
    """Make the fleet's network; return whether one with another subnet has to go first."""
    for network in known:
        if network.name == fleet.network:
            return str(fleet.subnet) not in network.subnets
    labels = ["--label", f"{FLEET_LABEL}={fleet.name}", "--label", f"{PROJECT_LABEL}={PROJECT}"]
    # Nodes know each other from /etc/hosts; a name server of their own would be one more process.
    dns = ["--disable-dns"] if engine.name == "podman" else []
    engine.run("network", "create", "--subnet", str(fleet.subnet), *labels, *dns, fleet.network)
    return False


def remove_bridge(name: str) -> None:
    """Remove a bridge of this machine; raises Problem where that is refused."""
    done = subprocess.run(["ip", "link", "delete", name], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Problem(
            f"ip link delete {name}: {done.stderr.strip()}. Run it as root, then start the fleet again"
        )


def description(fleet: Fleet, node: Node) -> str:
    """Names all that a node is made of: one that runs with another description is made anew."""
    parts = [
        node_image.recipe_key(),
        str(fleet.subnet),
        fleet.network,
        repr(node),
        hardware_address(node),
        *sorted(f"{other.address} {other.name}" for other in fleet.nodes),
        *limits(),
        keys.public(keys.user_key(fleet)),
        keys.public(keys.host_key(fleet, node)),
    ]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def limits() -> list[str]:
    """What a container gets of files and processes: an engine's defaults may exceed what the host allows."""
    files = _hard(resource.RLIMIT_NOFILE, MOST_FILES)
    processes = _hard(resource.RLIMIT_NPROC, MOST_PROCESSES)
    return [f"--ulimit=nofile={files}:{files}", f"--ulimit=nproc={processes}:{processes}", "--pids-limit=-1"]


def _hard(limit: int, most: int) -> int:
    hard = resource.getrlimit(limit)[1]
    return most if hard == resource.RLIM_INFINITY else min(hard, most)


def hardware_address(node: Node) -> str:
    """An Ethernet address that follows from the IP address: who remembers a former node reaches the new."""
    return "02:4b:" + ipaddress.IPv4Address(node.address).packed.hex(":")


def create_command(engine: Engine, fleet: Fleet, node: Node) -> list[str]:
    """The engine's arguments that make one node."""
    hosts = [f"--add-host={other.name}:{other.address}" for other in fleet.nodes if other is not node]
    labels = {FLEET_LABEL: fleet.name, PROJECT_LABEL: str(PROJECT), NODE_LABEL: description(fleet, node)}
    # Without a namespace of its own, systemd does not find the controllers of a version 1 host, and limits of
    # units (MemoryMax, TasksMax) bind nobody.
    systemd = ["--systemd=always", "--cgroupns=private"]
    if engine.name == "docker":
        systemd = [
            "--cgroupns=host",
            "--volume=/sys/fs/cgroup:/sys/fs/cgroup:rw",
            "--tmpfs=/run",
            "--tmpfs=/run/lock",
        ]
    return [
        "create",
        f"--name={fleet.container(node)}",
        f"--hostname={node.name}",
        f"--network={fleet.network}",
        f"--ip={node.address}",
        f"--mac-address={hardware_address(node)}",
        "--privileged",
        *systemd,
        *hosts,
        *limits(),
        *([f"--memory={node.memory}"] if node.memory else []),
        *([f"--cpuset-cpus={','.join(map(str, node.cores))}"] if node.cores else []),
        *[f"--label={key}={value}" for key, value in labels.items()],
        node_image.image_name(),
    ]


def start(engine: Engine, fleet: Fleet, node: Node, stop: threading.Event, say: Say) -> str:
    """Start one node and wait until it can be worked with; return the state that its systemd reports.

    On a busy machine, systemd stood still in a boot once: a node that is not ready is booted a second time.
    """
    name = fleet.container(node)
    engine.run(*create_command(engine, fleet, node))
    for source, target in keys.node_files(fleet, node):
        engine.run("cp", str(source), f"{name}:{target}")
    engine.run("start", name)
    for place, shares in CPU_SHARES.items():
        with contextlib.suppress(OSError):  # another engine's, or not for this user to change
            place.write_text(str(shares), encoding="ascii")
    try:
        return wait(engine, fleet, node, stop)
    except Problem as problem:
        say(f"{problem}\n  {node.name:<12} is booted a second time")
        return restart(engine, fleet, node, stop)


def restart(engine: Engine, fleet: Fleet, node: Node, stop: threading.Event) -> str:
    """Restart one node, with what is on its disk, and wait until it can be worked with."""
    engine.run("restart", fleet.container(node))
    return wait(engine, fleet, node, stop)


def wait(engine: Engine, fleet: Fleet, node: Node, stop: threading.Event, seconds: float = ANSWER_S) -> str:
    """Wait until a node answers over SSH and has booted; raises Problem with its journal's end."""
    deadline = time.monotonic() + seconds
    answer = "no answer"
    while time.monotonic() < deadline and not stop.is_set():
        done = over_ssh(fleet, node, "systemctl is-system-running")
        answer = done.stdout.strip() or (done.stderr.strip().splitlines() or ["no answer"])[-1]
        if answer in ("running", "degraded"):
            return answer
        stop.wait(POLL_S)
    if stop.is_set():
        return "interrupted"
    journal = engine.run("exec", fleet.container(node), "journalctl", "-n", "20", "--no-pager", check=False)
    raise Problem(
        f"node {node.name} did not become ready in {seconds:.0f} s ({answer}); its journal ends:\n{journal}"
    )


def shell(fleet: Fleet) -> Shell:
    """Return what runs a command on a named node and returns its output; it raises Problem on failure."""

    def on(name: str, command: str) -> str:
        (node,) = choose(fleet, [name], ())
        done = over_ssh(fleet, node, command, connect_s=20)
        if done.returncode:
            first = command.strip().splitlines()[0]
            raise Problem(f"{name}: {first} ended with {done.returncode}: {done.stderr[-500:]}")
        return done.stdout

    return on


def over_ssh(fleet: Fleet, node: Node, command: str, connect_s: int = 3) -> subprocess.CompletedProcess[str]:
    """Run a command on a node the way Ansible reaches it."""
    ssh = [
        "ssh",
        "-F",
        str(keys.ssh_config(fleet)),
        "-o",
        "BatchMode=yes",
        "-o",
        f"ConnectTimeout={connect_s}",
        node.name,
        command,
    ]
    return subprocess.run(
        ssh, capture_output=True, text=True, check=False, start_new_session=True, stdin=subprocess.DEVNULL
    )


def remove(engine: Engine, gone: Iterable[Container]) -> None:
    """Remove containers, and what a killed engine left of them."""
    listed = list(gone)
    if not listed:
        return
    with ThreadPoolExecutor(max_workers=4) as pool:
        list(pool.map(lambda container: _remove_one(engine, container), listed))


def _remove_one(engine: Engine, container: Container) -> None:
    at_once = ["--time", "0"] if engine.name == "podman" else []
    # Where the processes were killed under the engine's feet, the first call may only mend the record.
    for _ in range(2):
        engine.run("rm", "--force", "--volumes", *at_once, container.id, check=False)
        if not engine.inspect("container", [container.id]):
            break
    else:
        raise Problem(
            f"{engine.name} cannot remove {container.name}: see '{engine.name} rm --force {container.name}'"
        )
    for pid in _monitors(container.id):
        subprocess.run([*engine.prefix, "kill", "-9", str(pid)], capture_output=True, check=False)


def _monitors(container: str) -> list[int]:
    """Processes of the engine that still watch a removed container."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if command[0].endswith(b"conmon") and container.encode() in command:
            found.append(int(path.parent.name))
    return found


def close_connections() -> None:
    """End the SSH connections that Ansible keeps open for this project."""
    for socket in (PROJECT / ".cache" / "cp").glob("*"):
        if socket.is_socket():
            command = ["ssh", "-O", "exit", "-o", f"ControlPath={socket}", "node"]
            subprocess.run(command, capture_output=True, check=False)


def unusable() -> str:
    """Why no node can run on this machine, in one line; empty where one can. Found by running one."""
    try:
        engine = find_engine()
        if not node_image.is_present(engine):
            return "the nodes' image is missing: run 'make setup'"
        engine.run("run", "--rm", "--privileged", *limits(), node_image.image_name(), "/bin/true")
    except Problem as problem:
        return str(problem)
    return ""


def failed_units(fleet: Fleet, node: Node) -> list[str]:
    """The units of a node that systemd counts as failed."""
    done = over_ssh(fleet, node, "systemctl list-units --failed --output=json")
    try:
        return [unit["unit"] for unit in json.loads(done.stdout or "[]")]
    except json.JSONDecodeError:
        return []
