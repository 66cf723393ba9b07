"""What the modules on the control machine share to speak with a cluster."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

#: How long an answer is waited for, and the end of a topic that is read whole.
TIMEOUT_SECONDS = 15
#: The arguments that say to a module which cluster is meant, and how it is spoken with.
CLUSTER_ARGUMENTS: dict[str, dict[str, Any]] = {
    "bootstrap_servers": {"type": "str", "required": True},
    "client": {"type": "dict", "default": {}},
    "secrets": {"type": "dict", "default": {}, "no_log": True},
}


def speaks(mechanism: str) -> bool:
    """Return whether the librdkafka of this machine was built with what a mechanism needs."""
    own = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism, "log_level": 0}
    try:
        AdminClient({"bootstrap.servers": "127.0.0.1:1", **own})
    except KafkaException as error:
        return "No provider for SASL mechanism" not in error.args[0].str()
    return True


class RefusedError(PermissionError, ConnectionError):
    """Brokers are there and refuse the client, or a file of the client's own is wrong.

    It is a ConnectionError, so that whoever has one line for a cluster that does not answer has it for one
    that refuses.
    """


def with_next_step(error: ConnectionError, holds: str) -> str:
    """Return the message of a cluster that does not answer or refuses: why, what holds now, what to do."""
    refused = isinstance(error, RefusedError)
    fix = "Fix the login or the certificate" if refused else "Start the brokers, or fix kafka_clusters"
    return f"{error}. {holds} {fix}, then run the playbook again"


#: What a client is told of that does speak with a broker.
_NO_LOGIN = (KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED)
_REFUSED = (*_NO_LOGIN, KafkaError._SSL)
_UNOBTAINED = "Failed to acquire SASL OAUTHBEARER token"
_ASK_SECONDS = 0.5


def client_keys(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return what the arguments of a module say of its client."""
    return {**arguments["client"], **arguments["secrets"]}


def admin(bootstrap_servers: str, client: dict[str, Any]) -> Any:
    """Return an admin client whose cluster has answered.

    Raises:
        ConnectionError: when no broker answers within 15 seconds; the message names the servers.
        RefusedError: when the brokers refuse the login or the certificate, or a file of the client's own
            is wrong; the message says which.
    """
    refused: list[KafkaError] = []
    found = _client(bootstrap_servers, client, refused)
    try:
        found.list_topics(timeout=TIMEOUT_SECONDS)
    except KafkaException as error:
        found.poll(0)  # has what the brokers said told to the client
        raise _reason(bootstrap_servers, error, refused) from error
    return found


def described_groups(client: Any) -> dict[str, Any]:
    """Return what a cluster tells of each consumer group that it describes, by name and in order."""
    names = [group.group_id for group in client.list_consumer_groups().result(TIMEOUT_SECONDS).valid]
    answers = client.describe_consumer_groups(names) if names else {}
    found = {}
    for name, answer in sorted(answers.items()):
        # One that it refuses to describe is left out.
        with suppress(KafkaException):
            found[name] = answer.result(TIMEOUT_SECONDS)
    return found


def logs_in(bootstrap_servers: str, client: dict[str, Any]) -> bool:
    """Return whether the brokers take a client's login, as soon as they have said so; else as ``admin``."""
    refused: list[KafkaError] = []
    found = _client(bootstrap_servers, client, refused)
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while True:
        try:
            found.list_topics(timeout=_ASK_SECONDS)
        except KafkaException as error:
            found.poll(0)
            if any(each.code() in _NO_LOGIN for each in refused):
                return False
            if time.monotonic() > deadline:
                raise _reason(bootstrap_servers, error, refused) from error
        else:
            return True


def _reason(bootstrap_servers: str, error: KafkaException, refused: list[KafkaError]) -> ConnectionError:
    if refused:
        said = refused[-1].str()
        if _UNOBTAINED in said:
            return RefusedError(f"Kedge's client gets no token for {bootstrap_servers}: {said}")
        return RefusedError(f"the brokers of {bootstrap_servers} refuse Kedge's client: {said}")
    return ConnectionError(f"no broker of {bootstrap_servers} answers: {error.args[0].str()}")


def _client(bootstrap_servers: str, client: dict[str, Any], refused: list[KafkaError]) -> Any:
    """Return an admin client; what brokers refuse is noted in a list. Raises RefusedError."""

    def heard(error: KafkaError) -> None:
        # A broker that misses the client's certificate says so after the handshake, and hangs up.
        if error.code() in _REFUSED or "SSL alert" in error.str():
            refused.append(error)

    quiet = {"log_level": 0} if "debug" not in client else {}
    own = {"bootstrap.servers": bootstrap_servers, "error_cb": heard, **quiet, **client}
    try:
        return AdminClient(own)
    except KafkaException as error:
        files = ", ".join(str(value) for key, value in client.items() if key.endswith(".location"))
        message = f"no client for {bootstrap_servers} can be made of {files}: {error.args[0].str()}"
        raise RefusedError(message) from error
