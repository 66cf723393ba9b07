"""What modules on hosts say that they did to instances."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Any, Final, Literal

from pydantic import Field, TypeAdapter

from kedge.evidence.border.instances import Name
from kedge.evidence.border.untrusted import Count, Untrusted, UntrustedError, checked, only, shown

#: Of one task on one host.
_MOST: Final = 1_000


class Action(Untrusted):
    """A row of the evidence table ``actions``; a module may leave out the host."""

    host: str | None = None
    service: str
    instance: Name
    action: Literal["drain", "stop", "start", "reload", "ready", "undrain", "kill", "gate", "hold"]
    started_us: Count
    ended_us: Count
    ok: bool


_ACTIONS: Final = TypeAdapter(Annotated[list[Action], Field(max_length=_MOST)])


def actions(said: Any, host: str, services: Collection[str]) -> list[dict[str, Any]]:
    """Return rows of the table ``actions`` as a host's module returned them.

    Raises:
        UntrustedError: for anything else, for services that there are not, and for rows of another host.
    """
    found = checked(_ACTIONS, said, "list of actions")
    only((row.service for row in found), services, "services")
    for row in found:
        if row.host not in (None, host):
            raise UntrustedError(f"actions of another host: {shown(row.host)!r}")
    return [row.model_dump() | {"host": host} for row in found]
