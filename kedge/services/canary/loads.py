"""What a canary sends: a load for each of its turns, in the words of ``verify``. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

from kedge.evidence.canary import TURNS, own_name
from kedge.plan.findings import Finding
from kedge.plan.hosts import Inventory, in_url
from kedge.plan.inventory.clusters import clusters
from kedge.plan.inventory.security import Security, login_keys
from kedge.plan.plan import Part
from kedge.plan.variables import role_variables
from kedge.services.canary.variables import Canary
from kedge.services.rest.distribution import SERVICE as REST

SERVICE: Final = "canary"
#: Beyond it an outcome is told as unknown, so that a window ends with what became of each record.
_ANSWER_MS: Final = 30_000
BALANCER: Final = "rest_balancer"
#: Variables that the role reads and no rule does.
OF_ROLE: Final = ("canary_cache", "canary_python")


def canaries(inventory: Inventory) -> tuple[dict[str, Canary], list[Finding]]:
    """Return the variables of each host of the group ``canary``, and what is wrong with them."""
    found: dict[str, Canary] = {}
    wrong: list[Finding] = []
    for host in inventory.group(SERVICE):
        variables = role_variables(Canary, SERVICE, host, inventory.hosts[host], frozenset(OF_ROLE))
        if isinstance(variables, list):
            wrong += variables
        else:
            found[host] = variables
    return found, wrong


def by_rest(inventory: Inventory, canary: Canary) -> bool:
    """Return whether a canary goes through the REST proxies: where they write to its cluster."""
    if canary.rest is not None:
        return canary.rest
    ours = any(inventory.hosts[h].get(f"{REST}_cluster") == canary.cluster for h in inventory.group(REST))
    return ours and bool(inventory.group(BALANCER))


def direct(inventory: Inventory, canary: Canary, rest: Part) -> dict[str, Any]:
    """Return the part of a load that goes to each planned REST instance directly; empty where none does."""
    if not (by_rest(inventory, canary) and canary.rest_instances) or why_not_direct(inventory, canary):
        return {}
    found = {}
    for host, of_host in rest.services.items():
        scheme = "https" if _tls(inventory, host) else "http"
        for one in of_host.get(REST, ()):
            found[f"{host}:{one.port}"] = f"{scheme}://{in_url(inventory.address(host))}:{one.port}"
    ca = {"rest_instances_ca": instances_ca_path(canary)} if instances_ca_source(inventory) else {}
    return {"rest_instances": found, **ca}


def why_not_direct(inventory: Inventory, canary: Canary) -> str:
    """Return why a canary does not send to REST instances directly; empty where it may."""
    found = [_tls(inventory, host) for host in inventory.group(REST)]
    if any(tls.get("clients") == "required" for tls in found):
        return "they require a certificate, which the canary does not have"
    if canary.rest_user and not all(found):
        return "they speak no TLS, and its password would cross the network in the clear"
    return ""


def instances_ca_source(inventory: Inventory) -> str | None:
    """Return the file of the CA that signed the certificates of REST instances; None where they have none."""
    of_hosts = (_tls(inventory, host) for host in inventory.group(REST))
    return next((str(tls["ca"]) for tls in of_hosts if tls.get("ca")), None)


def instances_ca_path(canary: Canary) -> str:
    """Return where that file is on the canary's host."""
    return f"{folder(canary)}/instances-ca.pem"


def _tls(inventory: Inventory, host: str) -> Mapping[str, Any]:
    tls = inventory.hosts[host].get(f"{REST}_tls")
    return tls if isinstance(tls, Mapping) else {}


def loads_of(inventory: Inventory, host: str, canary: Canary) -> list[dict[str, Any]]:
    """Return the loads of a canary, one for each turn, without passwords."""
    known = clusters(inventory)[0].get(canary.cluster)
    login = client(known.security if known else None, canary)
    return [_load(inventory, host, canary, turn) | login for turn in range(TURNS)]


def _load(inventory: Inventory, host: str, canary: Canary, turn: int) -> dict[str, Any]:
    part = {"records_per_s": canary.records_per_s, "record_bytes": canary.record_bytes}

    def of(way: Literal["kafka", "rest"]) -> dict[str, Any]:
        name = own_name(host, way, turn)
        return {**part, "topic": name, "group": name}

    found: dict[str, Any] = {
        "cluster": canary.cluster,
        "warm_up_s": 2,
        "drain_s": 30,
        "sampling_ms": 1000,
        "kafka": {**of("kafka"), "producer": {"delivery.timeout.ms": _ANSWER_MS}},
    }
    if by_rest(inventory, canary):
        login = {"user": canary.rest_user} if canary.rest_user else {}
        ca = {"ca": f"{folder(canary)}/rest-ca.pem"} if canary.rest_ca else {}
        found["rest"] = {**of("rest"), "records_per_request": 1, **login, **ca}
    return found


def folder(canary: Canary) -> str:
    """Return where a canary's configuration lies on its host."""
    return f"/etc/canary/{canary.cluster}"


def client(security: Security | None, canary: Canary) -> dict[str, Any]:
    """Return the ``client`` of a canary's load: as whom it logs in."""
    if security is None or security.protocol == "PLAINTEXT":
        return {}
    found: dict[str, str] = {}
    if security.sasl and canary.user:
        found[login_keys(security.mechanism)[0]] = canary.user
    if security.tls:
        found["ssl.ca.location"] = f"{folder(canary)}/ca.pem"
    return {"client": found}


def secrets(security: Security | None, canary: Canary) -> dict[str, Any]:
    """Return the passwords of a canary, each at the place that it has in load.json (KEDGE_SECRETS)."""
    found: dict[str, Any] = {}
    if security is not None and security.sasl and canary.password:
        found["clusters"] = {canary.cluster: {login_keys(security.mechanism)[1]: canary.password}}
    if canary.rest_password:
        found["rest"] = {"password": canary.rest_password}
    return found


def canary_loads(inventory: Inventory) -> Iterator[Mapping[str, Any]]:
    """Yield all loads of all canaries, for the rights of their logins."""
    for host, canary in canaries(inventory)[0].items():
        yield from loads_of(inventory, host, canary)


def judged(levels: Mapping[str, Any], *, rest: bool, mirrored: bool) -> dict[str, Any]:
    """Return of service levels what a canary's window can be held to.

    Left out is what needs the workload's rate or what only hosts know: throughput, memory, settings; what a
    path has that the canary does not take; and times of appending, which its topics do not keep.
    """
    kept = {"delivery", "latency", "rebalance", "zombies", "partitions", *(["mirror"] if mirrored else [])}
    found = {check: level for check, level in levels.items() if check in kept}
    if found.get("latency"):
        found["latency"] = {
            via: {key: value for key, value in (part or {}).items() if not key.startswith("append_")}
            for via, part in found["latency"].items()
            if via == "kafka" or rest
        }
    return {**found, "settings": {"different": None}}


def canary_probe(instance: Mapping[str, Any]) -> dict[str, Any]:
    """Return the probe that waits until a canary tells in its file that a window sends."""
    name = instance["name"]
    path = f"/var/lib/{SERVICE}/{name}/state.json"
    return {"kind": "state_file", "path": path, "unit": f"{SERVICE}@{name}", "state": "RUNNING"}
