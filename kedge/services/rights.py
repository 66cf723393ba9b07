"""What each user of a cluster that Kedge runs may do there, as access control lists say it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from kedge.plan.hosts import Inventory
from kedge.plan.inventory.loads import loads
from kedge.plan.inventory.security import Rights, Security
from kedge.services.canary.loads import canary_loads
from kedge.services.streams.load import applications_json

_USE: Final = ("DESCRIBE", "DESCRIBE_CONFIGS", "READ", "WRITE")
_MANAGE: Final = (*_USE, "ALTER", "ALTER_CONFIGS", "CREATE")
_OF_TOPICS: Final = {"use": _USE, "manage": _MANAGE, "delete": (*_MANAGE, "DELETE")}
_GROUP: Final = ("DESCRIBE", "READ")
#: Of users without rights of their own: what proxies, mirrors and applications do.
_OTHERS: Final = Rights(may="manage")

Right = dict[str, Any]


def rights_of(inventory: Inventory, cluster: str, security: Security | None) -> dict[str, list[Right]]:
    """Return by user what it may do: resource, name, whether that is a prefix, operations.

    The login of the load (``verify.client``) may use the topics of the load alone, and see the names and the
    states of all others. Users that may do all are left out.
    """
    if security is None or not security.authorizes:
        return {}
    of_loads = _of_loads(inventory, cluster)
    found = {}
    for user in security.users:
        if user in (security.broker_user, security.user):
            continue
        rights = security.rights.get(user)
        found[user] = (
            _load_rights(*of_loads[user]) if rights is None and user in of_loads else _rows(rights or _OTHERS)
        )
    return found


def _of_loads(inventory: Inventory, cluster: str) -> dict[str, tuple[list[str], list[str]]]:
    """Return by login the topics and groups of all loads that log in to a cluster by it."""
    found: dict[str, tuple[list[str], list[str]]] = {}
    for load in (*loads(inventory).values(), *canary_loads(inventory)):
        if one := _of_load(inventory, load, cluster):
            user, topics, groups = one
            other_topics, other_groups = found.get(user, ([], []))
            found[user] = (sorted({*topics, *other_topics}), sorted({*groups, *other_groups}))
    return found


def _of_load(inventory: Inventory, verify: Any, cluster: str) -> tuple[str, list[str], list[str]] | None:
    """Return as whom a load logs in to a cluster, with its topics and groups; None where it does not."""
    if not isinstance(verify, Mapping) or verify.get("cluster") != cluster:
        return None
    client = verify.get("client")
    user = client.get("sasl.username") if isinstance(client, Mapping) else None
    if user is None:
        return None
    parts = [part for part in (verify.get("kafka"), verify.get("rest")) if isinstance(part, Mapping)]
    topics = {str(part["topic"]) for part in parts if "topic" in part}
    made = {
        app["delivery"]["output"]
        for app in applications_json(inventory).values()
        if app["delivery"] and app["cluster"] == cluster and app["delivery"]["input"] in topics
    }
    return str(user), sorted(topics | made), sorted({str(part["group"]) for part in parts if "group" in part})


def _load_rights(topics: list[str], groups: list[str]) -> list[Right]:
    seen = [_right(kind, "*", ["DESCRIBE"]) for kind in ("TOPIC", "GROUP")]
    return [*_rows(Rights(topics=topics, groups=groups)), *seen]


def _rows(rights: Rights) -> list[Right]:
    group = (*_GROUP, "DELETE") if rights.may == "delete" else _GROUP
    found = [_right("TOPIC", name, _OF_TOPICS[rights.may]) for name in rights.topics]
    found += [_right("GROUP", name, group) for name in rights.groups]
    if rights.may != "use":
        found.append(_right("TRANSACTIONAL_ID", "*", ["DESCRIBE", "WRITE"]))
    return found


def _right(kind: str, name: str, operations: Iterable[str]) -> Right:
    prefix = name.endswith("*") and name != "*"
    return {
        "resource": kind,
        "name": name.removesuffix("*") if prefix else name,
        "prefix": prefix,
        "operations": list(operations),
    }
