"""What the modules on the control machine share to speak with a cluster."""

from __future__ import annotations

from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

TIMEOUT_SECONDS = 15
#: What a client is told of that does speak with a broker.
_REFUSED = (KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError.SASL_AUTHENTICATION_FAILED)


def admin(bootstrap_servers: str, client: dict[str, Any]) -> Any:
    """Return an admin client whose cluster has answered.

    Raises:
        ConnectionError: when no broker answers within 15 seconds; the message names the servers.
        PermissionError: when the brokers refuse the login or the certificate, or a file of the client's own
            is wrong; the message says which.
    """
    refused: list[KafkaError] = []

    def heard(error: KafkaError) -> None:
        if error.code() in _REFUSED:
            refused.append(error)

    quiet = {"log_level": 0} if "debug" not in client else {}
    own = {"bootstrap.servers": bootstrap_servers, "error_cb": heard, **quiet, **client}
    try:
        found = AdminClient(own)
    except KafkaException as error:
        files = ", ".join(str(value) for key, value in client.items() if key.endswith(".location"))
        message = f"no client for {bootstrap_servers} can be made of {files}: {error.args[0].str()}"
        raise PermissionError(message) from error
    try:
        found.list_topics(timeout=TIMEOUT_SECONDS)
    except KafkaException as error:
        if refused:
            message = f"the brokers of {bootstrap_servers} refuse the kit's client: {refused[-1].str()}"
            raise PermissionError(message) from error
        message = f"no broker of {bootstrap_servers} answers: {error.args[0].str()}"
        raise ConnectionError(message) from error
    return found
