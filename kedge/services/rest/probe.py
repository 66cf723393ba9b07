"""When a REST instance counts as ready: the probe that its host runs (plugins/module_utils/probes.py)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from kedge.plan.hosts import in_url
from kedge.services.rest.distribution import LISTENER


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
