"""Who may speak with a cluster, and how: TLS and SASL of clients, brokers and REST listeners.

A plan holds no content of a file: of a certificate or key it has the path on the control machine, in a
setting that is ``copied``; the file on the node is what these files hold, one after the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from kedge.plan.settings import Choice, Setting, Sheet
from kedge.plan.variable_messages import contradiction
from kedge.plan.version_numbers import numbers

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9._@-]+$")]
#: As whom a client logs in: a user, a client id, or a principal of Kerberos.
Principal = Annotated[str, Field(pattern=r"^[A-Za-z0-9._@/-]+$")]
#: Eight at least: what is printed is searched for them, and a short one would be found everywhere.
#: Quotes would end the value in a JAAS entry, a comma the one of kafka-storage, and a blank begin another.
Password = Annotated[str, Field(pattern=r"^[^\s\"\\,;\]]{8,256}$")]
Topics = Annotated[str, Field(pattern=r"^[a-zA-Z0-9._-]{1,249}\*?$|^\*$")]
File = Annotated[str, Field(min_length=1)]
#: A file of a host.
HostFile = Annotated[str, Field(pattern=r"^/[A-Za-z0-9._@/-]+$")]

#: The mechanisms by which Kedge's own clients log in: topics, gates, load, audit.
BY_PASSWORD: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN")
SPOKEN: Final = (*BY_PASSWORD, "OAUTHBEARER", "GSSAPI")
#: Where librdkafka has user and password of a login, by mechanism; others have SASL's own.
_OWN_LOGIN: Final = {
    "OAUTHBEARER": ("sasl.oauthbearer.client.id", "sasl.oauthbearer.client.secret"),
    "GSSAPI": ("sasl.kerberos.principal", "sasl.kerberos.keytab"),
}
_LOGIN: Final = ("sasl.username", "sasl.password")
_OAUTH: Final = "org.apache.kafka.common.security.oauthbearer"
_TOKENS: Final = "Kafka documentation, Security, Authentication using SASL/OAUTHBEARER"
_PROPERTIES: Final = "Kafka documentation, System Properties"
_KERBEROS: Final = "Kafka documentation, Security, Authentication using SASL/Kerberos"
#: The first version of Kafka's clients that has the login for token endpoints under its name of today, and
#: the first one whose check of tokens can be chosen.
_HANDLER_SINCE: Final = (3, 4)
_VALIDATORS_SINCE: Final = (4, 1)
#: The key by which a listener of kafka-rest refuses requests for a host that its certificate does not name.
HOST_CHECK: Final = "sni.host.check.enabled"
#: Names the token endpoints that a JVM may ask: from Kafka 4.0 on it asks no other.
ALLOWED: Final = "-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls"
WHY_ALLOWED: Final = "from 4.0 on, clients ask no token endpoint that this flag does not name"
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


class OAuth(_Strict):
    """Where clients get a token from, by their id and their secret (OAuth 2.0 client credentials)."""

    token_endpoint: Annotated[str, Field(pattern=r"^(http|https)://[^\s\"\\,;@]+$")]
    """URL of the token endpoint."""
    scope: Annotated[str, Field(pattern=r"^[^\s\"\\,;]+( [^\s\"\\,;]+)*$")] | None = None
    """Scope that is asked for; the endpoint's default without it."""
    ca: File | None = None
    """File of the CA that signed the endpoint's certificate; what the hosts trust without it."""


class Kerberos(_Strict):
    """How clients log in by Kerberos, each as its principal."""

    keytab: File
    """Keytab of Kedge's own clients: a file of the control machine."""
    service: Name = "kafka"
    """Name of the brokers' principals, before the host."""


class Security(_Strict):
    """How clients of a cluster speak with it; files are the control machine's."""

    protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
    """Whether connections are encrypted and clients log in."""
    mechanism: Literal["SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN", "OAUTHBEARER", "GSSAPI"] = "SCRAM-SHA-512"
    """How clients log in."""
    ca: File | None = None
    """File of the CA that signed the brokers' certificates."""
    client_tls: KeyPair | None = None
    """Certificate and key by which Kedge's own clients are known, where brokers ask for one."""
    user: Principal | None = None
    """Login of Kedge's own clients, which manage topics, watch groups and send the load (or client id)."""
    password: Password | None = None
    """Password of that login, best from a vault (or client secret)."""
    oauth: OAuth | None = None
    """Where clients get their tokens from (OAUTHBEARER)."""
    kerberos: Kerberos | None = None
    """How clients log in by Kerberos (GSSAPI): user is the principal, and there is no password."""
    users: dict[Name, Password] = {}
    """For a cluster that Kedge runs: its SCRAM users, each with a password."""
    broker_user: Name = "broker"
    """The user of `users` by which brokers log in to one another."""
    authorization: Literal["rights", "prepared", "none"] = "rights"
    """`rights` enforces the rights, `none` does not; `prepared` only on topics and groups with a right."""
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
    def scram(self) -> bool:
        """Whether clients log in as users that brokers keep themselves."""
        return self.sasl and self.mechanism.startswith("SCRAM")

    @property
    def authorizes(self) -> bool:
        """Whether brokers that the kit runs ask what a user may do: where there are users of theirs."""
        return self.scram and bool(self.users) and self.authorization != "none"

    @property
    def tokens(self) -> OAuth | None:
        """Where clients get their tokens from; None where they log in otherwise."""
        return self.oauth if self.sasl and self.mechanism == "OAUTHBEARER" else None

    @property
    def tickets(self) -> Kerberos | None:
        """How clients log in by Kerberos; None where they log in otherwise."""
        return self.kerberos if self.sasl and self.mechanism == "GSSAPI" else None

    @model_validator(mode="after")
    def _has_what_it_needs(self) -> Security:
        if self.tls and self.ca is None:
            raise contradiction("ca", f"protocol {self.protocol} needs the file of the CA", "add ca")
        kerberos = self.sasl and self.mechanism == "GSSAPI"
        if kerberos and (self.user is None or self.password is not None):
            raise contradiction(
                "user",
                "mechanism GSSAPI needs user, a principal, and takes no password",
                "write the principal of kerberos.keytab into user, and take password out",
            )
        if self.sasl and not kerberos and (self.user is None or self.password is None):
            raise contradiction(
                "user", f"protocol {self.protocol} needs user and password", "add both, from a vault"
            )
        if not self.sasl and (self.user is not None or self.password is not None):
            raise contradiction(
                "user" if self.user is not None else "password",
                f"protocol {self.protocol} takes no login",
                "take user and password out, or set protocol to SASL_SSL",
            )
        for mechanism, name, needed, held in (
            ("OAUTHBEARER", "oauth", "token_endpoint", self.oauth),
            ("GSSAPI", "kerberos", "keytab", self.kerberos),
        ):
            wanted = self.sasl and self.mechanism == mechanism
            if wanted and held is None:
                raise contradiction(name, f"mechanism {mechanism} needs {name}.{needed}", "add it")
            if held is not None and not wanted:
                raise contradiction(
                    name,
                    f"mechanism {self.mechanism} over {self.protocol} does not use it",
                    f"take it out, or set mechanism to {mechanism} and protocol to SASL_SSL",
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
    """By what a service is known to its cluster: user and password, or keytab; a certificate, or both."""

    user: str | None = None
    password: str | None = None
    client_tls: KeyPair | None = None
    keytab: str | None = None


def plan_client(
    sheet: Sheet,
    file: str,
    prefix: str,
    stem: str,
    security: Security | None,
    login: Login,
    version: str,
) -> None:
    """Plan the keys with which a Java client speaks to a secured cluster, and the files that they name.

    ``prefix`` begins the client's keys in ``file``, ``stem`` the paths of its CA and its certificate;
    ``version`` is the one of Kafka's clients.
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
        if kerberos := security.tickets:
            because = "what the cluster's security.kerberos says"
            put("sasl.kerberos.service.name", kerberos.service, because, _KERBEROS)
        if oauth := security.tokens:
            handler = f"{_OAUTH}.OAuthBearerLoginCallbackHandler"
            put("sasl.login.callback.handler.class", handler, "gets a token by the client's id", _TOKENS)
            because = "what the cluster's security.oauth says"
            put("sasl.oauthbearer.token.endpoint.url", oauth.token_endpoint, because, _TOKENS)
            if numbers(version) >= _VALIDATORS_SINCE:
                because = "the default needs jose4j on the class path, which not every application has"
                put("sasl.oauthbearer.jwt.validator.class", f"{_OAUTH}.ClientJwtValidator", because, _TOKENS)
            if numbers(version) < _HANDLER_SINCE:
                sheet.error(
                    "client.login",
                    f"the cluster's security.mechanism is OAUTHBEARER, and Kafka's clients of {version} have "
                    "no login for a token endpoint",
                    "use a version with Kafka's clients of 3.4 or later",
                )
            if oauth.ca:
                put_file(sheet, f"{stem}-token-ca.pem", "client.security", {"certificate": oauth.ca})
        put("sasl.jaas.config", jaas(security, login, stem), f"logs in as {login.user}")


def put_file(sheet: Sheet, path: str, rule: str, parts: Mapping[str, str]) -> None:
    """Plan a file that holds what files of the control machine hold: ``certificate``, ``key``."""
    for key, source in parts.items():
        # Where this machine keeps it is the value, no matter of the host's, and differs from clone to clone.
        because = f"what {PurePath(source).name} holds on the control machine"
        sheet.settings.append(
            Setting(path, key, source, rule, because, "the inventory", "derived", copied=True)
        )


def jaas(security: Security, login: Login, stem: str = "") -> str:
    """Return the JAAS entry of a login; ``stem`` as of ``plan_client``."""
    options = {"username": login.user, "password": login.password}
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    if security.mechanism == "PLAIN":
        module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    if security.tickets:
        module = "com.sun.security.auth.module.Krb5LoginModule"
        options = {"useKeyTab": "true", "storeKey": "true", "keyTab": login.keytab, "principal": login.user}
    if oauth := security.tokens:
        module = f"{_OAUTH}.OAuthBearerLoginModule"
        options = {"clientId": login.user, "clientSecret": login.password}
        options |= {"scope": oauth.scope} if oauth.scope else {}
        if oauth.ca:
            options |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": f"{stem}-token-ca.pem"}
    return " ".join([module, "required", *(f'{key}="{value}"' for key, value in options.items())]) + ";"


def java_option(*securities: Security | None) -> str:
    """Return the JVM flag without which Kafka's clients ask no token endpoint; empty where none is asked."""
    urls = dict.fromkeys(one.tokens.token_endpoint for one in securities if one and one.tokens)
    return f"{ALLOWED}={','.join(urls)}" if urls else ""


def put_java_option(sheet: Sheet, file: str, key: str, *securities: Security | None) -> None:
    """Plan the flag of ``java_option`` in a variable of JVM flags that holds nothing else of the plan's."""
    if not (flag := java_option(*securities)):
        return
    own = sheet.own(key)
    if own is not None and ALLOWED not in own:
        sheet.give(key, f"{flag} {own}")
    sheet.put(file, key, "client.security", Choice(flag, WHY_ALLOWED, _PROPERTIES, "documented"))


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
        user, password = login_keys(security.mechanism)
        seen |= {"sasl.mechanism": security.mechanism, user: str(security.user)}
        if kerberos := security.tickets:
            seen |= {password: kerberos.keytab, "sasl.kerberos.service.name": kerberos.service}
        else:
            secret[password] = str(security.password)
    if oauth := security.tokens:
        seen |= {"sasl.oauthbearer.method": "oidc"}
        seen |= {"sasl.oauthbearer.token.endpoint.url": oauth.token_endpoint}
        seen |= {"sasl.oauthbearer.scope": oauth.scope} if oauth.scope else {}
        seen |= {"https.ca.location": oauth.ca} if oauth.ca else {}
    return seen, secret


def login_keys(mechanism: str) -> tuple[str, str]:
    """Return the keys of librdkafka's that have the user of a login, and its password or its keytab."""
    return _OWN_LOGIN.get(mechanism, _LOGIN)
