"""Rules for the security of a broker that the kit runs: TLS, SASL/SCRAM, the format that makes its users."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from functools import cache
from typing import Any, Final

from kedge.plan.inventory.security import KeyPair, Login, Security, jaas, put_file
from kedge.plan.settings import Basis, Choice, Setting, Sheet

_SECURITY: Final = "Kafka documentation, Security"
_FORMAT: Final = "Kafka documentation, KRaft, Provisioning nodes; KIP-900"
#: What a storage is formatted with where nothing is said; KIP-900, kafka-storage --add-scram.
_ITERATIONS: Final = 4096
_AUTHORIZER: Final = "Kafka documentation, Security, Authorization and ACLs"
#: Begins the names of brokers as their certificates give them; a user's name has no colon.
_HOST: Final = "host:"


def plan_broker_security(
    sheet: Sheet, file: str, folder: str, security: Security | None, pair: KeyPair | None
) -> None:
    """Plan the listeners' security: what the cluster asks of clients, and mutual TLS between controllers."""
    if security is None or security.protocol == "PLAINTEXT":
        return

    def put(key: str, rule: str, value: str, because: str) -> None:
        sheet.put(file, key, f"broker.{rule}", Choice(value, because, _SECURITY, "derived"))

    if security.tls and pair is None:
        sheet.error(
            "broker.tls",
            f"the cluster's security.protocol is {security.protocol}, and kafka_broker_tls is missing",
            "give each broker a certificate and its key (files of the control machine)",
        )
    between = "SSL" if security.tls else "PLAINTEXT"
    put(
        "listener.security.protocol.map",
        "listeners",
        f"CONTROLLER:{between},{security.protocol}:{security.protocol}",
        "the quorum is there before any user is, so its members know one another by certificate",
    )
    put(
        "inter.broker.listener.name",
        "listeners",
        security.protocol,
        "brokers use the listener that clients use",
    )
    if security.tls and pair:
        _tls(sheet, file, folder, security, pair)
    if security.sasl:
        _sasl(sheet, file, security)


def _tls(sheet: Sheet, file: str, folder: str, security: Security, pair: KeyPair) -> None:
    because = "a text file needs no password of its own"
    for key, value, why in (
        ("ssl.keystore.type", "PEM", because),
        ("ssl.keystore.location", f"{folder}/broker.pem", "the broker's key and certificate"),
        ("ssl.truststore.type", "PEM", because),
        (
            "ssl.truststore.location",
            f"{folder}/cluster-ca.pem",
            "the CA that the cluster's security.ca names",
        ),
        (
            "listener.name.controller.ssl.client.auth",
            "required",
            "only a broker of the cluster joins its quorum",
        ),
    ):
        sheet.put(file, key, "broker.tls", Choice(value, why, _SECURITY, "derived"))
    _client_certificates(sheet, file, security)
    put_file(sheet, f"{folder}/broker.pem", "broker.tls", {"key": pair.key, "certificate": pair.certificate})
    put_file(sheet, f"{folder}/cluster-ca.pem", "broker.tls", {"certificate": str(security.ca)})


def _client_certificates(sheet: Sheet, file: str, security: Security) -> None:
    """Plan whether clients have to show a certificate."""
    value, why = "required", "a certificate is what tells clients apart"
    if security.sasl:
        value, why = "none", "clients log in by SASL"
    asked = sheet.put(file, "ssl.client.auth", "broker.tls", Choice(value, why, _SECURITY, "derived"))
    # Of a listener that takes SASL_SSL, Kafka asks for no certificate by this key.
    if asked == "required" and not security.sasl and security.client_tls is None:
        sheet.error(
            "broker.tls",
            "the cluster's security.protocol is SSL, so that its brokers ask each client for a certificate, "
            "and Kedge's own clients have none",
            "give security.client_tls a certificate and its key, or set security.protocol to SASL_SSL, or, "
            "for encryption without logins, ssl.client.auth: none in kafka_broker_settings",
        )


def _sasl(sheet: Sheet, file: str, security: Security) -> None:
    mechanism = security.mechanism
    if not security.scram:
        sheet.error(
            "broker.sasl",
            f"the cluster's security.mechanism is {mechanism}, for which Kedge's brokers keep no users",
            "use SCRAM-SHA-512",
        )
        return
    password = security.users.get(security.broker_user)
    if password is None or security.users.get(str(security.user)) != security.password:
        missing = security.broker_user if password is None else security.user
        sheet.error(
            "broker.sasl",
            f"security.users of the cluster does not have {missing} with its password, and the brokers know "
            "nobody else",
            f"add {missing} to security.users, its password from a vault",
        )
        return
    for key, value, why in (
        ("sasl.enabled.mechanisms", mechanism, "what the cluster's security.mechanism says"),
        ("sasl.mechanism.inter.broker.protocol", mechanism, "brokers log in as clients do"),
        (
            f"listener.name.{security.protocol.lower()}.{mechanism.lower()}.sasl.jaas.config",
            jaas(security, Login(security.broker_user, password)),
            f"brokers log in to one another as {security.broker_user}",
        ),
    ):
        sheet.put(file, key, "broker.sasl", Choice(value, why, _SECURITY, "derived"))


def plan_authorizer(sheet: Sheet, file: str, security: Security | None, names: Iterable[str]) -> None:
    """Plan what asks for each request whether its user may; ``names`` are those in the brokers' certificates.

    Brokers are known by them at the controllers' listener: the authority may have given others certificates.
    """
    if security is None or not security.authorizes:
        return

    def put(key: str, value: str, because: str, source: str = _AUTHORIZER) -> None:
        sheet.put(file, key, "broker.authorization", Choice(value, because, source, "derived"))

    put(
        "authorizer.class.name",
        "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "a user that logs in may do what its rights say, and not delete topics or set another's password",
    )
    users = list(dict.fromkeys([security.broker_user, str(security.user)]))
    brokers = [f"{_HOST}{name}" for name in names] if security.tls else ["ANONYMOUS"]
    put(
        "super.users",
        ";".join(f"User:{user}" for user in (*users, *brokers)),
        f"{security.broker_user} is the brokers', {security.user} Kedge's own"
        + ("; the others are the brokers' certificates" if security.tls else ""),
    )
    if security.authorization == "prepared":
        put(
            "allow.everyone.if.no.acl.found",
            "true",
            "security.authorization is prepared: until the rights are granted, everybody may do what "
            "they could before",
        )
    if security.tls:
        put(
            "listener.name.controller.ssl.principal.mapping.rules",
            f"RULE:^(?:.*,)?CN=([^,]+)(?:,.*)?$/{_HOST}$1/,DEFAULT",
            "only a certificate with the name of a broker joins the quorum; no user of security.users can be "
            "called so",
        )
    else:
        sheet.warning(
            "broker.authorization",
            "the cluster's security.protocol is SASL_PLAINTEXT, so that whoever reaches the port of the "
            "controllers is taken for a broker",
            "set security.protocol to SASL_SSL, or let a firewall keep the port among the brokers",
        )


def scram_users(security: Security | None) -> tuple[dict[str, Any], dict[str, str]]:
    """Return how a cluster that the kit runs keeps its users, and apart from it their passwords."""
    if security is None or not security.scram or not security.users:
        return {}, {}
    return {"broker_user": security.broker_user, "iterations": _ITERATIONS}, dict(security.users)


def plan_format(sheet: Sheet, folder: str, cluster: str, security: Security | None) -> None:
    """Plan the arguments that format the storage of a new broker; they hold the brokers' own user.

    In a file, because a command line is everybody's to read.
    """
    file = f"{folder}/format.args"
    for key, value, why in (
        ("-Xmx64m", "", "a short run"),
        ("-cp", f"{folder}/dist/*", "the broker's own jars"),
        ("kafka.tools.StorageTool", "format", "gives an empty folder the cluster's id"),
        ("--ignore-formatted", "", "a folder that has one keeps it, and its users"),
        ("-t", cluster_id(cluster), "a digest of the cluster's name: the same on each of its hosts"),
        ("-c", f"{folder}/server.properties", "what is to be formatted"),
    ):
        basis: Basis = "estimate" if key.startswith("-Xmx") else "derived"
        sheet.put(file, key, "broker.format", Choice(value, why, _FORMAT, basis))
    user = security.broker_user if security and security.scram else None
    if security is None or user is None or user not in security.users:
        return
    because = f"{user} of the cluster's security.users, as which the others are added once the brokers run"
    value = _salted(security.mechanism, cluster, user, security.users[user])
    sheet.settings.append(
        Setting(file, "--add-scram", value, "broker.sasl", because, _FORMAT, "derived", secret=True)
    )


@cache
def _salted(mechanism: str, cluster: str, user: str, password: str) -> str:
    """Return a user as kafka-storage takes it, salted; the salt follows from the names, as a plan has to."""
    salt = hashlib.sha256(f"{cluster}\0{user}".encode()).digest()[:24]
    digest = "sha512" if mechanism.endswith("512") else "sha256"
    salted = hashlib.pbkdf2_hmac(digest, password.encode(), salt, _ITERATIONS)
    salt64, salted64 = (base64.b64encode(one).decode() for one in (salt, salted))
    return f"{mechanism}=[name={user},iterations={_ITERATIONS},salt={salt64},saltedpassword={salted64}]"


def cluster_id(name: str) -> str:
    """Return the id of a cluster that the kit formats: a digest of its name, as Kafka writes a UUID."""
    return base64.urlsafe_b64encode(hashlib.sha256(name.encode()).digest()[:16]).decode().rstrip("=")
