"""The consumers of a REST proxy, deleted through its API before it stops."""

from __future__ import annotations

import http.client
import time
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote, urlsplit

from ansible.module_utils.probes import authorization, encryption

#: For one request, and for all of them: where a proxy hangs, the time-out of its sessions does it.
REQUEST_SECONDS = 5
ALL_SECONDS = 15


def delete_members(probe: dict[str, Any], members: Iterable[Mapping[str, str]]) -> int:
    """Delete those members of groups that are consumers of this proxy; return how many were.

    ``probe`` has the proxy's url and login, as readiness asks it; ``members`` are group and name. Those of
    other proxies are not known here, and stay. What cannot be deleted in time is left to its session.
    """
    deadline, deleted = time.monotonic() + ALL_SECONDS, 0
    try:
        connection = _connection(probe)
        headers = {"Content-Type": "application/vnd.kafka.v2+json", **authorization(probe)}
        for member in members:
            if time.monotonic() > deadline:
                break
            group, name = (quote(member[key], safe="") for key in ("group", "name"))
            connection.request("DELETE", f"/consumers/{group}/instances/{name}", headers=headers)
            answer = connection.getresponse()
            answer.read()
            deleted += answer.status == http.client.NO_CONTENT
    except (OSError, http.client.HTTPException):
        pass  # the stop goes on: what is left is missed after its session
    return deleted


def _connection(probe: dict[str, Any]) -> http.client.HTTPConnection:
    where, context = urlsplit(probe["url"]).netloc, encryption(probe)
    if context is None:
        return http.client.HTTPConnection(where, timeout=REQUEST_SECONDS)
    return http.client.HTTPSConnection(where, timeout=REQUEST_SECONDS, context=context)
