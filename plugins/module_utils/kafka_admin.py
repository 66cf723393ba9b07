"""What the modules on the control machine share to speak with a cluster."""

from __future__ import annotations

from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

TIMEOUT_SECONDS = 15


def admin(bootstrap_servers: str, client: dict[str, Any]) -> Any:
    """Return an admin client whose cluster has answered.

    Raises:
        ConnectionError: when no broker answers within 15 seconds; the message names the servers.
    """
    quiet = {"log_level": 0} if "debug" not in client else {}
    found = AdminClient({"bootstrap.servers": bootstrap_servers, **quiet, **client})
    try:
        found.list_topics(timeout=TIMEOUT_SECONDS)
    except KafkaException as error:
        message = f"no broker of {bootstrap_servers} answers: {error.args[0].str()}"
        raise ConnectionError(message) from error
    return found
