"""Brokers with a listener that asks for certificates or for tokens, and what an inventory says of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kedge.plan.inventory.security import Security, librdkafka
from kedge.plan.plan import PlannedInstance
from lab.services.brokers import Broker, running_broker
from lab.services.serving import free_ports
from tests.kafka.certificates import make_authority, make_certificate, make_store
from tests.kafka.tokens import token_endpoint
from tests.planned import CLUSTERS


@dataclass(frozen=True)
class Site:
    """A broker with an open listener, and one that is secured: what a cluster and a service say of it."""

    broker: Broker
    secured: str
    security: dict[str, Any]
    login: dict[str, Any]

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of a module of Kedge's, as a playbook gives them."""
        seen, secret = librdkafka(Security(**self.security))
        return {"bootstrap_servers": self.secured, "client": seen, "secrets": secret}

    def clusters(self) -> dict[str, Any]:
        cluster = {"bootstrap_servers": self.secured, "security": self.security, "broker_count": 1}
        return {"leaf": CLUSTERS["leaf"] | cluster}


Made = tuple[dict[str, str], list[str], dict[str, Any], dict[str, Any]]


@contextmanager
def by_certificates(folder: Path) -> Iterator[Made]:
    """Return what makes a broker ask for certificates, and what cluster and service say of it."""
    kedge, service = (_pair(folder, name) for name in ("kedge", "service"))
    config = {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,FAR:SSL",
        "listener.name.far.ssl.client.auth": "required",
        "listener.name.far.ssl.truststore.type": "PEM",
        "listener.name.far.ssl.truststore.location": str(folder / "ca.pem"),
    }
    security = {"protocol": "SSL", "ca": str(folder / "ca.pem"), "client_tls": kedge}
    yield config, [], security, {"client_tls": service}


def _pair(folder: Path, name: str) -> dict[str, str]:
    return dict(zip(("certificate", "key"), map(str, make_certificate(folder, name)), strict=True))


@contextmanager
def by_both(folder: Path) -> Iterator[Made]:
    """Return what makes a broker ask for certificates and for passwords, and what the others say of it."""
    with by_certificates(folder) as (config, options, security, login):
        secrets = {name: f"planted-{name}" for name in ("kedge", "service")}
        users = " ".join(f'user_{name}="{secret}"' for name, secret in secrets.items())
        plain = "org.apache.kafka.common.security.plain.PlainLoginModule"
        config |= {
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,FAR:SASL_SSL",
            "listener.name.far.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.far.plain.sasl.jaas.config": f"{plain} required {users};",
        }
        security |= {
            "protocol": "SASL_SSL",
            "mechanism": "PLAIN",
            "user": "kedge",
            "password": secrets["kedge"],
        }
        yield config, options, security, login | {"user": "service", "password": secrets["service"]}


@contextmanager
def by_tokens(folder: Path) -> Iterator[Made]:
    """Run a token endpoint; return what makes a broker ask for its tokens, and what the others say of it."""
    secrets = {name: f"planted-{name}" for name in ("kedge", "service")}
    with token_endpoint(folder, make_store(folder, "tokens"), secrets) as endpoint:
        oauth = "org.apache.kafka.common.security.oauthbearer"
        keys = endpoint.keys.as_uri()
        config = {
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,FAR:SASL_SSL",
            "listener.name.far.sasl.enabled.mechanisms": "OAUTHBEARER",
            "listener.name.far.oauthbearer.sasl.jaas.config": f"{oauth}.OAuthBearerLoginModule required;",
            "listener.name.far.oauthbearer.sasl.server.callback.handler.class": (
                f"{oauth}.OAuthBearerValidatorCallbackHandler"
            ),
            "listener.name.far.oauthbearer.sasl.oauthbearer.jwks.endpoint.url": keys,
            "listener.name.far.oauthbearer.sasl.oauthbearer.expected.audience": "kafka",
        }
        allowed = [f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.{of}={keys}" for of in ("urls", "files")]
        security = {
            "protocol": "SASL_SSL",
            "mechanism": "OAUTHBEARER",
            "ca": str(folder / "ca.pem"),
            "oauth": {"token_endpoint": endpoint.url, "scope": "kafka", "ca": str(folder / "ca.pem")},
            "user": "kedge",
            "password": secrets["kedge"],
        }
        yield config, allowed, security, {"user": "service", "password": secrets["service"]}


#: How a site may be secured.
WAYS: Final = {"certificates": by_certificates, "both": by_both, "tokens": by_tokens}


@contextmanager
def secured_site(jars: Path, folder: Path, way: str) -> Iterator[Site]:
    """Run a broker until the block ends; ``way`` is one of ``WAYS``."""
    make_authority(folder)
    (port,) = free_ports(1)
    with WAYS[way](folder) as (config, options, security, login):
        config |= {
            "listener.name.far.ssl.keystore.type": "PEM",
            "listener.name.far.ssl.keystore.location": str(make_store(folder, "broker")),
        }
        with running_broker(jars, config=config, far=(port, port), options=options) as broker:
            yield Site(broker, f"127.0.0.1:{port}", security, login)


def written(instance: PlannedInstance, folder: Path, file: str, home: str) -> dict[str, str]:
    """Write the files that a deploy copies; return the settings of a file with their places."""
    found: dict[str, str] = {}
    parts: dict[str, str] = {}
    for setting in instance.settings:
        name = setting.file.rpartition("/")[2]
        if setting.copied:
            parts[name] = parts.get(name, "") + Path(setting.value).read_text()
        elif name == file:
            found[setting.key] = setting.value.replace(home, str(folder))
    for name, text in parts.items():
        (folder / name).write_text(text)
    return found
