"""What clients of a REST proxy notice once it runs what is planned."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from kedge.plan.running import Files, Running
from kedge.services.rest.distribution import LISTENER

#: What may be allowed by name -> what clients have to do first.
ALLOWED: Final[Mapping[str, str]] = {
    "login": "give clients the login first: a proxy or balancer that asks for none ignores it",
    "tls": "give clients the CA first, and be ready to change their URLs with the deploy",
    "cluster": "stop the clients: until the last proxy has changed, requests through one balancer reach "
    "either cluster, and consumers begin anew in the other one",
}
#: Turned at a port in use behind balancers: they speak one way with all, and would lose all together.
KEPT_PORT: Final = "tls_at_a_kept_port"
#: What no order of steps brings to instances that run -> what to do in its place.
INSTEAD: Final[Mapping[str, str]] = {
    KEPT_PORT: "set kafka_rest_first_port to another port in the same deploy, and others take over",
}


def notices(one: Running) -> Iterator[tuple[str, str]]:
    """Yield what clients notice: by which name it is allowed, and in words."""
    yield from _of_listener(one)
    yield from _of_cluster(one.was, one.now)


def _of_listener(one: Running) -> Iterator[tuple[str, str]]:
    planned = {str(setting["file"]).rpartition("/")[2] for setting in one.planned["settings"]}
    had = set(one.state["in_force"])
    if "users.properties" in planned - had:
        yield "login", "asks for a login (kafka_rest_users)"
    tls = bool(one.planned["software"]["tls"])
    if tls != (LISTENER in had):
        turned = "speaks TLS" if tls else "no longer speaks TLS"
        yield KEPT_PORT if one.balanced else "tls", f"{turned} at a port in use (kafka_rest_tls)"


def _of_cluster(before: Files, after: Files) -> Iterator[tuple[str, str]]:
    """Find a proxy none of whose former brokers is a planned one; another port is the same cluster."""
    was, is_ = (
        {
            server.rpartition(":")[0].strip("[]")
            for file in files.values()
            for key in ("bootstrap.servers", "kafka.bootstrap.servers")
            if key in file
            for server in file[key].value.split(",")
        }
        for files in (before, after)
    )
    if was and is_ and not was & is_:
        had, has = (", ".join(sorted(hosts)) for hosts in (was, is_))
        yield "cluster", f"reaches the brokers {has} in place of {had} (kafka_rest_cluster)"


def turning_tls(staged: Mapping[str, Any], planned: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the running REST instances whose listener would be encrypted, or no longer be, at its port."""
    tls = {i["name"]: i["software"]["tls"] for i in planned}
    return [
        str(i["name"])
        for i in staged["instances"]
        if i["active"] and not i.get("predecessor") and (LISTENER in i["in_force"]) != tls[i["name"]]
    ]
