"""The protocol of a declared client's group: the consumer protocol where it can be had, else cooperative."""

from __future__ import annotations

from typing import Final

from sizing.clients.groups import (
    CONSUMER,
    PROTOCOL,
    REFUSED,
    SOURCE,
    Coordinator,
    Obstacle,
    broker_obstacle,
    client_obstacle,
)
from sizing.clients.variables import ClientProfile
from sizing.core.settings import Choice, Sheet
from sizing.keys.catalogue import numbers

_MEASURED: Final = "Rebalance measurements, By assignor and protocol"
_ASSIGNOR: Final = "partition.assignment.strategy"
_COOPERATIVE: Final = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
#: From here on the default list has it as the second: members with and without this line share a group.
_BOTH: Final = (3, 0)


def put_group(sheet: Sheet, file: str, client: ClientProfile, brokers: Coordinator) -> None:
    """Put the protocol of a consumer's group, and report what is at odds with it."""
    refused = [key for key in REFUSED if sheet.own(key) is not None]
    asked = (sheet.own(PROTOCOL) or "").lower()
    obstacle = client_obstacle(client.library, client.version) or broker_obstacle(brokers, client.cluster)
    if asked == CONSUMER:
        _check_asked(sheet, client, refused, obstacle)
    if asked or client.library == "spark":
        return
    if obstacle is None and refused:
        obstacle = Obstacle(
            f"consumer_settings have {refused[0]}, with which a consumer of that protocol does not start",
            SOURCE,
        )
    if obstacle is None:
        because = (
            "a member that comes or goes moves its own partitions, and no other stops; the price: the "
            f"session is the group's, {brokers.session_ms} ms on the brokers, and so is the assignor"
        )
        sheet.put(
            file,
            PROTOCOL,
            f"clients.{client.profile}.{PROTOCOL}",
            Choice(CONSUMER, because, _MEASURED, "measured"),
        )
    elif client.library == "java" and numbers(client.version) >= _BOTH and sheet.own(_ASSIGNOR) is None:
        because = (
            f"the classic protocol, because {obstacle.why}; with this assignor a rebalance takes away what "
            "has to move, not all; the price: it takes two rounds"
        )
        sheet.put(
            file,
            _ASSIGNOR,
            f"clients.{client.profile}.{_ASSIGNOR}",
            Choice(_COOPERATIVE, because, obstacle.source, "derived"),
        )


def _check_asked(sheet: Sheet, client: ClientProfile, refused: list[str], obstacle: Obstacle | None) -> None:
    """Find what is at odds with the consumer protocol that a person asks for."""
    what = f"consumer_settings of client {client.name} ask for the consumer protocol"
    if refused:
        sheet.error(
            "clients.group_protocol",
            f"{what} and have {', '.join(refused)}: a consumer that has both does not start ({SOURCE})",
            f"take {' and '.join(refused)} out of consumer_settings: in that protocol the brokers set "
            "session and assignor of a group",
        )
    if obstacle is not None:
        report = sheet.error if obstacle.fatal else sheet.warning
        report(
            "clients.group_protocol",
            f"{what}: {obstacle.why} ({obstacle.source})",
            f"take {PROTOCOL} out of consumer_settings" + (f", or {obstacle.fix}" if obstacle.fix else ""),
        )
