"""What a host keeps of what is deployed where: its word about others, of which no path is made."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Any, Final

from pydantic import Field, TypeAdapter

from kedge.evidence.border.untrusted import Untrusted, checked, only

#: Hosts of one record, and services of one of them.
_MOST: Final = 10_000
_SERVICES: Final = 20
#: Neither is taken for an option by a program that it is given to.
_NAME: Final = r"^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,252}$"
_ADDRESS: Final = r"^[A-Za-z0-9_:][A-Za-z0-9_.:%-]{0,252}$"


class Deployed(Untrusted):
    """What one host had, and where it was reached."""

    # A new field is read by plugins/modules/kedge_deployed_record.py as well.
    address: Annotated[str, Field(pattern=_ADDRESS)]
    services: Annotated[list[Annotated[str, Field(max_length=100)]], Field(max_length=_SERVICES)]


_RECORD: Final = TypeAdapter(
    Annotated[dict[Annotated[str, Field(pattern=_NAME)], Deployed], Field(max_length=_MOST)]
)


def record(said: Any, services: Collection[str]) -> dict[str, dict[str, Any]]:
    """Return what a host's module read of its record: host to its address and services.

    Raises:
        UntrustedError: for anything else, and for services that there are not.
    """
    found = checked(_RECORD, said, "record of what is deployed")
    only((service for has in found.values() for service in has.services), services, "services")
    return {host: has.model_dump() for host, has in found.items()}
