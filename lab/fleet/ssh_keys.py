"""SSH for one fleet: a key pair for the user, a host key per node, and the files that make both known.

The control machine makes the nodes' host keys itself, so it knows them before the first connection and never
has to trust whatever answers.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from lab.fleet.inventory import Fleet, Node


def make_keys(fleet: Fleet) -> None:
    """Make the keys that are missing, and write known_hosts and ssh_config for all nodes of the inventory."""
    fleet.folder.mkdir(parents=True, exist_ok=True)
    fleet.folder.chmod(0o700)
    _make_key(user_key(fleet), f"kedge-{fleet.name}")
    for node in fleet.nodes:
        _make_key(host_key(fleet, node), node.name)
    _replace(fleet.folder / "known_hosts", known_hosts(fleet))
    _replace(ssh_config(fleet), "".join(_ssh_entry(fleet, node) for node in fleet.nodes))


def user_key(fleet: Fleet) -> Path:
    """The private key that reaches every node."""
    return fleet.folder / "id_ed25519"


def host_key(fleet: Fleet, node: Node) -> Path:
    """The private host key of one node."""
    return fleet.folder / "host_keys" / node.name


def ssh_config(fleet: Fleet) -> Path:
    """A configuration for `ssh -F` that knows all nodes by name."""
    return fleet.folder / "ssh_config"


def public(key: Path) -> str:
    """The public half, without its comment."""
    return " ".join(key.with_name(key.name + ".pub").read_text(encoding="utf-8").split()[:2])


def known_hosts(fleet: Fleet) -> str:
    """One line a node, by address and by name."""
    return "".join(f"{node.address},{node.name} {public(host_key(fleet, node))}\n" for node in fleet.nodes)


def _make_key(path: Path, comment: str) -> None:
    if path.is_file() and path.with_name(path.name + ".pub").is_file():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(path)], check=True
    )


def _ssh_entry(fleet: Fleet, node: Node) -> str:
    return (
        f"Host {node.name}\n"
        f"    HostName {node.address}\n"
        "    User root\n"
        f'    IdentityFile "{user_key(fleet)}"\n'
        "    IdentitiesOnly yes\n"
        f'    UserKnownHostsFile "{fleet.folder / "known_hosts"}"\n'
        "    StrictHostKeyChecking yes\n"
    )


def _replace(path: Path, text: str) -> None:
    unfinished = path.with_name(path.name + ".new")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(path)


def node_files(fleet: Fleet, node: Node) -> list[tuple[Path, str]]:
    """What a node is given before its first start: files here, and where they go."""
    return [
        (host_key(fleet, node), "/etc/ssh/ssh_host_ed25519_key"),
        (user_key(fleet).with_name("id_ed25519.pub"), "/root/.ssh/authorized_keys"),
    ]
