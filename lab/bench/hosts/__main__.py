"""``python -m lab.bench.hosts``: plan, deploy and restart in fleets of 50, 200 and 1,000 simulated hosts.

Hosts are the double tests/doubles/answering: it takes what Ansible would send over SSH, and answers at once,
as a host does on which all instances run an older release. So the figures are those of the control machine
alone: time, processor time, memory of the playbook's process, calls to hosts and gates. With ``--scale 1`` an
answer takes as long as it was measured to take. Writes results.json.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
RESULT = Path(__file__).with_name("results.json")
PLAYBOOK = str(Path(sys.executable).with_name("ansible-playbook"))
DOUBLE = ROOT / "tests" / "doubles" / "answering"
RACKS = 20
PLAYBOOKS = {
    "plan": ["plan.yml", "-e", "plan_diff=false"],
    "plan_with_difference": ["plan.yml"],
    "deploy": ["deploy.yml"],
    "restart_one": ["rolling_restart.yml", "--limit", "localhost,rest1"],
    "restart": ["rolling_restart.yml"],
}


def write_inventory(folder: Path, hosts: int, racks: int = RACKS, instances: int = 1, **rollout: Any) -> None:
    """Write an inventory of REST hosts in racks behind one balancer, all of them doubles."""
    archive = folder / "proxy.tar.gz"
    archive.write_bytes(b"no archive: the double has it already")
    rest = {f"rest{n}": {"rack": f"r{n % racks}"} for n in range(1, hosts + 1)}
    variables = {
        "ansible_connection": "answering",
        "ansible_python_interpreter": "/usr/bin/python3",
        "host_cores": 16,
        "host_memory_mib": 65_536,
        "java_version": 17,
        "kafka_clusters": {"leaf": {"version": "4.1.0", "bootstrap_servers": "127.0.0.1:1"}},
        "kafka_rest_cluster": "leaf",
        "kafka_rest_distribution": "confluent",
        "kafka_rest_version": "8.3.1",
        "kafka_rest_archive": str(archive),
        "kafka_rest_archive_checksum": hashlib.sha256(archive.read_bytes()).hexdigest(),
        "kafka_rest_instances_per_host": instances,
        "kafka_rest_workload": {"consumers": 20},
        "rollout": {"at_once": "auto", "first": 0} | rollout,
    }
    children = {"kafka_rest": {"hosts": rest}, "rest_balancer": {"hosts": {"lb1": {}}}}
    (folder / "hosts.yml").write_text(json.dumps({"all": {"children": children, "vars": variables}}))


def played(inventory: Path, arguments: list[str], scale: float = 0, **environ: str) -> dict[str, Any]:
    """Return what a playbook took and whom it called; the calls in their order are in the file ``calls``.

    Raises:
        RuntimeError: when it fails; the message ends with what it printed.
    """
    calls = inventory / "calls"
    calls.write_text("")
    environment = {
        **os.environ,
        "ANSIBLE_CONNECTION_PLUGINS": str(DOUBLE / "connection"),
        "ANSIBLE_ACTION_PLUGINS": f"{DOUBLE / 'action'}:{ROOT / 'plugins' / 'action'}",
        "ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.default",
        "ANSIBLE_DISPLAY_OK_HOSTS": "false",
        "ANSIBLE_DISPLAY_SKIPPED_HOSTS": "false",
        "KEDGE_CALLS": str(calls),
        "KEDGE_ANSWER_SCALE": str(scale),
        **environ,
    }
    began = time.perf_counter()
    output = inventory / "output"
    with output.open("w") as printed:
        process = subprocess.Popen(
            [PLAYBOOK, "-i", str(inventory / "hosts.yml"), *arguments],
            cwd=ROOT,
            env=environment,
            stdout=printed,
            stderr=subprocess.STDOUT,
        )
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - began
    if process.returncode:
        raise RuntimeError(f"{' '.join(arguments)}:\n{output.read_text()[-3000:]}")
    called = Counter(line.split()[1] for line in calls.read_text().splitlines())
    return {
        "seconds": round(seconds, 1),
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 1),
        "memory_mib": round(used.ru_maxrss / 1024),
        "calls": dict(sorted(called.items())),
    }


def measure(hosts: int, scale: float, which: list[str]) -> dict[str, Any]:
    """Return what each playbook takes for so many hosts."""
    with tempfile.TemporaryDirectory() as folder:
        write_inventory(Path(folder), hosts)
        found: dict[str, Any] = {}
        for name in which:
            found[name] = played(Path(folder), PLAYBOOKS[name], scale)
            print(hosts, name, json.dumps(found[name]), flush=True)
        return found


def main(arguments: list[str] | None = None) -> int:
    """Measure, print and keep the result."""
    parser = argparse.ArgumentParser(prog="python -m lab.bench.hosts", description=__doc__)
    parser.add_argument("--hosts", type=int, nargs="+", default=[50, 200, 1000])
    parser.add_argument("--scale", type=float, default=0, help="of the times that hosts take to answer")
    parser.add_argument("--only", nargs="+", choices=list(PLAYBOOKS), default=list(PLAYBOOKS))
    parser.add_argument("--out", type=Path, default=RESULT)
    options = parser.parse_args(arguments)
    results: Mapping[str, Any] = {
        "command": "python -m lab.bench.hosts",
        "scale": options.scale,
        "hosts": {str(n): measure(n, options.scale, options.only) for n in options.hosts},
        "machine": f"{os.cpu_count()} cores, Python {platform.python_version()}",
        "load_at_the_end": round(os.getloadavg()[0], 1),
    }
    options.out.write_text(json.dumps(results, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
