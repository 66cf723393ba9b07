"""A broker that refuses: topics from everybody, and on a second listener whoever does not log in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from lab.services.brokers import running_broker
from lab.services.serving import free_ports

_USER: Final = "kedge"
_PASSWORD: Final = "right"


@dataclass(frozen=True)
class GuardedBroker:
    """Where it takes everybody, but lets nobody create a topic; and where it asks for a login first."""

    bootstrap_servers: str
    asks_for_login: str

    def client(self, password: str = _PASSWORD) -> dict[str, Any]:
        """Return the keys of a client of ``asks_for_login``."""
        return {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": _USER,
            "sasl.password": password,
        }


@contextmanager
def guarded_broker(jars: Path) -> Iterator[GuardedBroker]:
    """Run one until the block ends."""
    (port,) = free_ports(1)
    modules = "org.apache.kafka.common.security"
    config = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,FAR:SASL_PLAINTEXT",
        "listener.name.far.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "listener.name.far.plain.sasl.jaas.config": (
            f'{modules}.plain.PlainLoginModule required user_{_USER}="{_PASSWORD}";'
        ),
        "listener.name.far.scram-sha-512.sasl.jaas.config": f"{modules}.scram.ScramLoginModule required;",
    }
    with running_broker(jars, config=config, far=(port, port)) as found:
        _refuse_creation(found.bootstrap_servers)
        yield GuardedBroker(found.bootstrap_servers, f"127.0.0.1:{port}")


def _refuse_creation(servers: str) -> None:
    """Allow everything to everyone, but for creating topics."""
    admin = AdminClient({"bootstrap.servers": servers})
    acls = [
        AclBinding(kind, name, ResourcePatternType.LITERAL, "User:*", "*", operation, permission)
        for kind, name in ((ResourceType.BROKER, "kafka-cluster"), (ResourceType.TOPIC, "*"))
        for operation, permission in (
            (AclOperation.ALL, AclPermissionType.ALLOW),
            (AclOperation.CREATE, AclPermissionType.DENY),
        )
    ]
    for made in admin.create_acls(acls).values():
        made.result(timeout=20)
