"""Where the clusters and hosts of an inventory are, templates resolved, for commands without a playbook."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kedge.plan.document import planned_instances
from kedge.services.broker.service import KAFKA_BROKER
from verify.collect.hosts import Access, CollectError, read_access

_KIT = Path(__file__).resolve().parents[1]


class PlaceError(Exception):
    """Something that the person has to mend; its text is one line: what, where, how."""


@dataclass(frozen=True)
class ClusterAccess:
    """A cluster: where it answers, what a client of it needs beside that, and its brokers' hosts.

    ``client`` has the cluster's login, if it asks for one: it is for clients alone, and for no file.
    ``brokers`` is empty for a cluster whose hosts are not in the inventory; ``targets`` are its topics with a
    target throughput, ``plan`` is the whole plan.
    """

    cluster: str
    bootstrap_servers: str
    client: Mapping[str, Any] = field(default_factory=dict)
    brokers: tuple[Access, ...] = ()
    targets: tuple[Mapping[str, Any], ...] = ()
    plan: Mapping[str, Any] = field(default_factory=dict)


def find(inventory: Path, cluster: str | None) -> ClusterAccess:
    """Return a cluster of an inventory: the one named, or its only one.

    Raises PlaceError when the inventory cannot be read or has no such cluster.
    """
    if not inventory.exists():
        raise PlaceError(
            f"{inventory}: no such inventory; give the folder or file that ansible-playbook -i takes"
        )
    with tempfile.TemporaryDirectory(prefix="kedge-") as folder:
        plan_file, hosts_file = Path(folder) / "plan.json", Path(folder) / "inventory.yml"
        logins_file = Path(folder) / "logins.json"
        said = _ask(inventory, plan_file, hosts_file, logins_file)
        if not plan_file.exists() or not hosts_file.exists():
            raise PlaceError(f"{inventory}: {said}")
        plan = json.loads(plan_file.read_text(encoding="utf-8"))
        name = _choose(inventory, cluster, plan["clusters"])
        login = json.loads(logins_file.read_text(encoding="utf-8"))[name]
        hosts = [
            host
            for host in plan["hosts"]
            if any(one["name"] == name for one in planned_instances(plan, host, KAFKA_BROKER.name))
        ]
        try:
            brokers = tuple(read_access(str(hosts_file), hosts))
        except CollectError as error:
            raise PlaceError(str(error)) from error
    found = plan["clusters"][name]
    targets = tuple(found.get("targets", ()))
    client = {**found.get("client", {}), **login}
    return ClusterAccess(name, found["bootstrap_servers"], client, brokers, targets, plan)


def add_arguments(parser: argparse.ArgumentParser, inventory: str, bootstrap_servers: str) -> None:
    """Add the arguments that say which cluster is meant; both texts are their helps."""
    parser.add_argument("--inventory", "-i", type=Path, help=inventory)
    parser.add_argument("--cluster", help="the cluster in kafka_clusters; not needed where there is one")
    parser.add_argument("--bootstrap-servers", help=bootstrap_servers)


def chosen(options: argparse.Namespace, otherwise: str = "") -> ClusterAccess:
    """Return the cluster that the arguments of :func:`add_arguments` say.

    ``otherwise`` names what else could have been said.

    Raises PlaceError as :func:`find`, and where the arguments say none.
    """
    if options.inventory is not None:
        return find(options.inventory, options.cluster)
    if options.bootstrap_servers:
        return ClusterAccess(options.cluster or "cluster", options.bootstrap_servers)
    ways = ["--inventory INV", "--bootstrap-servers HOST:PORT"]
    said = f"{', '.join(ways)}, or {otherwise}" if otherwise else ", or ".join(ways)
    raise PlaceError(f"say which cluster: {said}")


def _ask(inventory: Path, plan: Path, hosts: Path, logins: Path) -> str:
    """Have the plan, the resolved inventory and the logins written; return what Ansible complains of."""
    command = [str(Path(sys.executable).with_name("ansible")), "localhost", "-i", str(inventory.resolve())]
    arguments = ["-m", "kedge_plan", "-a", f"dest={plan} inventory={hosts} logins={logins}"]
    environment = {**os.environ, "ANSIBLE_CONFIG": str(_KIT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"}
    done = subprocess.run(
        [*command, *arguments], capture_output=True, text=True, check=False, cwd=_KIT, env=environment
    )
    lines = [line.strip() for line in (done.stderr + done.stdout).splitlines() if line.strip()]
    return next((line for line in lines if "ERROR" in line or "msg" in line), "Ansible cannot read it")


def _choose(inventory: Path, cluster: str | None, clusters: Mapping[str, Any]) -> str:
    known = ", ".join(clusters) or "none"
    if cluster is None:
        if len(clusters) != 1:
            raise PlaceError(f"{inventory} has the clusters {known}: say which with --cluster")
        return str(next(iter(clusters)))
    if cluster not in clusters:
        raise PlaceError(f"{inventory} has no cluster {cluster} in kafka_clusters; there is {known}")
    return cluster
