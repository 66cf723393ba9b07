"""When an instance counts as ready, by its plan: the probe that a host runs, and the gate of a mirror."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any, Final

from kedge.deploy.planned import planned_value, reached
from kedge.plan.hosts import in_url
from kedge.services.balancer.security import ANY
from kedge.services.mirror.flow import flow_of
from kedge.services.rest.distribution import LISTENER

#: Stands for the password with which a balancer is asked; the role knows it.
_LOGIN: Final = "<the login of a client>"


def rest_probe(instance: Mapping[str, Any], address: str, topic: str) -> dict[str, str]:
    """Return the probe that asks a REST instance for an offset; a login in it has marks for its secret."""
    found = {s["key"]: str(s["value"]) for s in instance["settings"] if not s.get("copied")}
    files = {PurePosixPath(s["file"]).name: s["file"] for s in instance["settings"]}
    scheme = "https" if instance["software"]["tls"] else "http"
    kind = instance["software"]["ready"]
    probe = {"kind": kind, "url": f"{scheme}://{in_url(address)}:{instance['port']}", "topic": topic}
    if "listener-ca.pem" in files:
        probe["ca"] = files["listener-ca.pem"]
    if "ssl.client.authentication" in found:
        probe["certificate"] = files[LISTENER]
    user = next((s for s in instance["settings"] if s["file"].endswith("/users.properties")), None)
    return probe | ({"user": user["key"], "login": user["value"]} if user else {})


def balancer_probe(balancer: Mapping[str, Any], socket: str, *, changing: bool) -> dict[str, Any]:
    """Return the probe that asks a balancer as a client would; a login in it has a mark for its secret."""
    name, _, port = planned_value(balancer, "bind").rpartition(":")
    address = "127.0.0.1" if name == ANY else name
    listener = next((s["file"] for s in balancer["settings"] if s["file"].endswith(f"/{LISTENER}")), None)
    user = balancer["software"]["login"]
    return {
        "kind": "haproxy",
        "socket": socket,
        "backend": "rest",
        "changing": changing,
        "front": f"{'https' if listener else 'http'}://{address}:{port}",
        "port": int(port),
        "host": planned_value(balancer, "check host"),
        "topic": planned_value(balancer, "health uri").removeprefix("/topics/"),
        **({"ca": listener, "pinned": True} if listener else {}),
        **({"user": user, "login": _LOGIN} if user else {}),
    }


def kafka_probe(instance: Mapping[str, Any], address: str) -> dict[str, Any]:
    """Return the probe that asks a broker which requests it knows, which it answers before any login."""
    ca = [s["file"] for s in instance["settings"] if s["file"].endswith("/cluster-ca.pem")]
    probe = {"kind": "kafka", "host": address, "port": instance["port"]}
    return probe | ({"ca": ca[0]} if ca else {})


def state_file_probe(instance: Mapping[str, Any]) -> dict[str, Any]:
    """Return the probe that waits until an application tells in its file that it runs."""
    path = planned_value(instance, "KEDGE_STATE_FILE")
    return {"kind": "state_file", "path": path, "unit": f"streams-app@{instance['name']}", "state": "RUNNING"}


def mirror_probe(instance: Mapping[str, Any]) -> dict[str, Any]:
    """Return the probe of a mirror: it has its partitions, and the target has acknowledged what it read."""
    exactly_once = any(s["key"].endswith("exactly.once.source.support") for s in instance["settings"])
    if any(s["key"] == "MIRROR_INCLUDE" for s in instance["settings"]):
        steps = [
            ["has partitions assigned", "Adding newly assigned partitions"],
            ["commits what the target has acknowledged", r"Committing offsets\."],
        ]
    else:
        task = r"MirrorSourceConnector-\d+\} "
        steps = [["runs a task", f"{task}Source task finished initialization and start"]]
        # A task that waits for the target says 0; one with nothing to copy says so. Transactions say neither.
        acknowledged = rf"{task}(Committing offsets for [1-9]|Either no records were produced)"
        steps += [] if exactly_once else [["commits what the target has acknowledged", acknowledged]]
    return {"kind": "journal", "steps": steps}


def mirror_gate(
    instance: Mapping[str, Any], plan: Mapping[str, Any], secrets: Mapping[str, Mapping[str, str]]
) -> dict[str, Any]:
    """Return the gate of a mirror's restart: its flow's group, or where MirrorMaker 2 keeps its offsets.

    ``secrets`` are those of the kit's own clients, by cluster.
    """
    flow = flow_of(instance["name"])
    facts = plan["flows"][flow]
    gate: dict[str, Any] = {**reached(plan, facts["source"]), "secrets": secrets[facts["source"]]}
    if facts["group"]:
        committed = planned_value(instance, "MIRROR_OFFSET_COMMIT_INTERVAL_MS")
        return gate | {"groups": [facts["group"]], "commit_ms": int(committed)}
    where = reached(plan, facts["target"])
    positions = {"flow": flow, "topic": facts["offsets_topic"], "topics": facts["topics"], **where}
    gate["positions_secrets"] = secrets[facts["target"]]
    committed = planned_value(instance, f"{facts['target']}.offset.flush.interval.ms")
    return gate | {"positions": positions, "commit_ms": int(committed)}
