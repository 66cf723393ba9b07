"""Who may speak with a cluster, and how: TLS and SASL of clients, brokers and REST listeners.

A plan holds no content of a file: of a certificate or key it has the path on the control machine, in a
setting that is ``copied``; the file on the node is what these files hold, one after the other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from sizing.core.messages import contradiction
from sizing.core.settings import Choice, Setting, Sheet

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9._@-]+$")]
#: Eight at least: what is printed is searched for them, and a short one would be found everywhere.
#: Quotes would end the value in a JAAS entry, a comma the one of kafka-storage, and a blank begin another.
Password = Annotated[str, Field(pattern=r"^[^\s\"\\,;\]]{8,256}$")]
Topics = Annotated[str, Field(pattern=r"^[a-zA-Z0-9._-]{1,249}\*?$|^\*$")]
File = Annotated[str, Field(min_length=1)]

#: The mechanisms by which Kedge's own clients log in: topics, gates, load, audit.
SPOKEN: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN")
_KAFKA: Final = "Kafka documentation, Security"
_PEM: Final = "Kafka documentation, Security, SSL key and trust stores in PEM format"


class _Strict(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, hide_input_in_errors=True, use_attribute_docstrings=True
    )


class Rights(_Strict):
    """What a user of a cluster that Kedge runs may do."""

    topics: list[Topics] = ["*"]
    """Topics of the user; a name that ends in * is a prefix."""
    groups: list[Topics] = ["*"]
    """Consumer groups of the user; a name that ends in * is a prefix."""
    may: Literal["use", "manage", "delete"] = "use"
    """`use`: write and read; `manage`: also create and change topics; `delete`: also delete."""


class KeyPair(_Strict):
    """Certificate and key of a broker, a balancer or a client: files of the control machine."""

    certificate: File
    """File of the certificate (PEM), on the control machine."""
    key: File
    """File of the key (PEM), on the control machine."""


class Security(_Strict):
    """How clients of a cluster speak with it; files are the control machine's."""

    protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
    """Whether connections are encrypted and clients log in."""
    mechanism: Literal["SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"] = "SCRAM-SHA-512"
    """How clients log in."""
    ca: File | None = None
    """File of the CA that signed the brokers' certificates."""
    client_tls: KeyPair | None = None
    """Certificate and key by which Kedge's own clients are known, where brokers ask for one."""
    user: Name | None = None
    """Login of Kedge's own clients, which manage topics, watch groups and send the load."""
    password: Password | None = None
    """Password of that login, best from a vault."""
    users: dict[Name, Password] = {}
    """For a cluster that Kedge runs: its SCRAM users, each with a password."""
    broker_user: Name = "broker"
    """The user of `users` by which brokers log in to one another."""
    authorization: Literal["rights", "prepared", "none"] = "rights"
    """`rights` enforces the rights, `none` does not; `prepared` grants them before they are enforced."""
    rights: dict[Name, Rights] = {}
    """Rights by user. Without an entry a user may manage all topics, and delete none."""

    @property
    def tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.protocol.endswith("SSL")

    @property
    def sasl(self) -> bool:
        """Whether clients log in."""
        return self.protocol.startswith("SASL")

    @property
    def authorizes(self) -> bool:
        """Whether brokers that the kit runs ask what a user may do: where there are users of theirs."""
        return self.sasl and self.mechanism != "PLAIN" and bool(self.users) and self.authorization != "none"

    @model_validator(mode="after")
    def _has_what_it_needs(self) -> Security:
        if self.tls and self.ca is None:
            raise contradiction("ca", f"protocol {self.protocol} needs the file of the CA", "add ca")
        if self.sasl and (self.user is None or self.password is None):
            raise contradiction(
                "user", f"protocol {self.protocol} needs user and password", "add both, from a vault"
            )
        if not self.sasl and (self.user is not None or self.password is not None):
            raise contradiction(
                "user" if self.user is not None else "password",
                f"protocol {self.protocol} takes no login",
                "take user and password out, or set protocol to SASL_SSL",
            )
        if self.client_tls is not None and not self.tls:
            raise contradiction(
                "client_tls",
                f"protocol {self.protocol} takes no certificate",
                "take it out, or set protocol to SSL or SASL_SSL",
            )
        if nobody := sorted(self.rights.keys() - self.users.keys()):
            raise contradiction(
                "rights",
                f"{nobody[0]} has rights and is none of users",
                "add the user, or take its rights out",
            )
        return self


class RestTls(_Strict):
    """Certificate and key of REST listeners: files of the control machine."""

    certificate: File
    """File of the certificate (PEM), on the control machine."""
    key: File
    """File of the key (PEM), on the control machine."""
    ca: File
    """File of the CA (PEM) that signed this certificate and those of clients."""
    clients: Literal["none", "requested", "required"] = "none"
    """Whether clients show a certificate: never, if they have one, or always."""


@dataclass(frozen=True, slots=True)
class Login:
    """By what a service is known to its cluster: user and password, a certificate, or both."""

    user: str | None = None
    password: str | None = None
    client_tls: KeyPair | None = None


def login_of(sheet: Sheet, variable: str, security: Security | None, given: Login) -> Login:
    """Return of a service's login what its cluster asks for; what is missing or too much is an error.

    ``variable`` begins the names of the variables, such as ``VARIABLE_user`` and ``VARIABLE_client_tls``.
    """
    user, password = _user_of(sheet, variable, security, given)
    return Login(user, password, _pair_of(sheet, variable, security, given.client_tls))


def _pair_of(sheet: Sheet, variable: str, security: Security | None, pair: KeyPair | None) -> KeyPair | None:
    if security is None or not security.tls:
        if pair is not None:
            sheet.error(
                "client.login",
                f"{variable}_client_tls is set, and the cluster takes no certificate",
                f"take {variable}_client_tls out, or set the cluster's security.protocol to SSL or SASL_SSL",
            )
        return None
    if pair is None and security.client_tls is not None:
        sheet.error(
            "client.login",
            "the brokers ask for a certificate, as the cluster's security.client_tls says, and "
            f"{variable}_client_tls is missing",
            "give the service a certificate and a key of its own (files of the control machine)",
        )
    if pair is not None and security.client_tls is None:
        sheet.error(
            "client.login",
            f"{variable}_client_tls is set, and the cluster's security.client_tls is missing: gates, load "
            "and audit would show the brokers no certificate",
            "give security.client_tls a certificate and a key for Kedge's own clients",
        )
    return pair


def _user_of(
    sheet: Sheet, variable: str, security: Security | None, given: Login
) -> tuple[str | None, str | None]:
    user, password = given.user, given.password
    if security is None or not security.sasl:
        if user is not None:
            sheet.error(
                "client.login",
                f"{variable}_user is set, and the cluster takes no login",
                f"take {variable}_user and {variable}_password out, or set the cluster's security.protocol",
            )
        return None, None
    if user is None or password is None:
        sheet.error(
            "client.login",
            f"the cluster takes {security.protocol}, and {variable}_user or {variable}_password is missing",
            "give the service a user of its own, its password from a vault",
        )
        return None, None
    if security.users and security.users.get(user) != password:
        known = user in security.users
        sheet.error(
            "client.login",
            f"{variable}_user is {user}, "
            + ("and its password is another one" if known else "who is nobody"),
            "use a user and the password of security.users of the cluster",
        )
    return user, password


def unspoken(own: Mapping[str, Any], security: Security | None) -> tuple[str, str] | None:
    """Return the key and the mechanism of own settings that Kedge's clients cannot log in by.

    None where they can, where the cluster gives them another login, and where the service has
    ``bootstrap.servers`` of its own: then the gates use another listener.
    """
    if (security is not None and security.sasl) or named(own, "bootstrap.servers"):
        return None
    key = named(own, "sasl.mechanism")
    mechanism = str(own.get(key, "")).strip().upper()
    return (key, mechanism) if re.fullmatch(r"[A-Z0-9_-]+", mechanism) and mechanism not in SPOKEN else None


def named(own: Mapping[str, Any], key: str) -> str:
    """Return the key of own settings that is this one, under whatever prefix; empty where there is none."""
    return next((str(one) for one in own if str(one) == key or str(one).endswith(f".{key}")), "")


def plan_client(
    sheet: Sheet,
    file: str,
    prefix: str,
    stem: str,
    security: Security | None,
    login: Login,
) -> None:
    """Plan the keys with which a Java client speaks to a secured cluster, and the files that they name.

    ``prefix`` begins the client's keys in ``file``, ``stem`` the paths of its CA and its certificate.
    """
    if security is None or security.protocol == "PLAINTEXT":
        return

    def put(key: str, value: str, because: str, source: str = _KAFKA) -> None:
        sheet.put(file, f"{prefix}{key}", "client.security", Choice(value, because, source, "derived"))

    put("security.protocol", security.protocol, "what the cluster's security.protocol says")
    if security.tls:
        put("ssl.truststore.type", "PEM", "a text file needs no password, and is compared line by line", _PEM)
        ca, own = f"{stem}-ca.pem", f"{stem}-client.pem"
        put("ssl.truststore.location", ca, "the CA that signed the brokers' certificates", _PEM)
        put_file(sheet, ca, "client.security", {"certificate": str(security.ca)})
        if pair := login.client_tls:
            put("ssl.keystore.type", "PEM", "a text file needs no password of its own", _PEM)
            put("ssl.keystore.location", own, "the key and the certificate that the client shows", _PEM)
            put_file(sheet, own, "client.security", {"key": pair.key, "certificate": pair.certificate})
    if security.sasl and login.user:
        put("sasl.mechanism", security.mechanism, "what the cluster's security.mechanism says")
        put("sasl.jaas.config", jaas(security.mechanism, login), f"logs in as {login.user}")


def put_file(sheet: Sheet, path: str, rule: str, parts: Mapping[str, str]) -> None:
    """Plan a file that holds what files of the control machine hold: ``certificate``, ``key``."""
    for key, source in parts.items():
        because = f"what {source} holds on the control machine"
        sheet.settings.append(
            Setting(path, key, source, rule, because, "the inventory", "derived", copied=True)
        )


def jaas(mechanism: str, login: Login) -> str:
    """Return the JAAS entry of a login."""
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    return (
        f"org.apache.kafka.common.security.{module} required "
        f'username="{login.user}" password="{login.password}";'
    )


def librdkafka(security: Security | None) -> tuple[dict[str, str], dict[str, str]]:
    """Return the keys of the kit's own clients for a cluster: those to be seen, and the secret ones."""
    if security is None or security.protocol == "PLAINTEXT":
        return {}, {}
    seen: dict[str, str] = {"security.protocol": security.protocol}
    secret: dict[str, str] = {}
    if security.tls:
        seen["ssl.ca.location"] = str(security.ca)
        if pair := security.client_tls:
            seen |= {"ssl.certificate.location": pair.certificate, "ssl.key.location": pair.key}
    if security.sasl:
        seen |= {"sasl.mechanism": security.mechanism, "sasl.username": str(security.user)}
        secret["sasl.password"] = str(security.password)
    return seen, secret
