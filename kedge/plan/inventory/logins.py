"""Logins of services: what their clusters ask for, and what Kedge's own clients could not log in by."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from kedge.plan.findings import Finding
from kedge.plan.hosts import Inventory
from kedge.plan.inventory.clusters import clusters
from kedge.plan.inventory.security import BY_PASSWORD, SPOKEN, KeyPair, Login, Security
from kedge.plan.service import Service
from kedge.plan.settings import Sheet

_PROTOCOL: Final = "security.protocol"
#: Keys by which a client shows a certificate, and what they may stand behind: clients inside a service.
_SHOWN: Final = ("ssl.keystore.location", "ssl.keystore.certificate.chain")
_CLIENTS: Final = frozenset({"admin", "client", "consumer", "global", "kafka", "main", "producer", "restore"})


def login_of(sheet: Sheet, variable: str, security: Security | None, given: Login) -> Login:
    """Return of a service's login what its cluster asks for; what is missing or too much is an error.

    ``variable`` begins the names of the variables, such as ``VARIABLE_user`` and ``VARIABLE_client_tls``.
    """
    pair = _pair_of(sheet, variable, security, given.client_tls)
    kerberos = security is not None and security.tickets is not None
    if given.keytab is not None and not kerberos:
        sheet.error(
            "client.login",
            f"{variable}_keytab is set, and the cluster takes no login by Kerberos",
            f"take {variable}_keytab out, or set the cluster's security.mechanism to GSSAPI",
        )
    if kerberos:
        return _principal_of(sheet, variable, replace(given, client_tls=pair))
    user, password = _user_of(sheet, variable, security, given)
    return Login(user, password, pair)


def _principal_of(sheet: Sheet, variable: str, given: Login) -> Login:
    if given.user is None or given.keytab is None:
        sheet.error(
            "client.login",
            f"the cluster's security.mechanism is GSSAPI, and {variable}_user or {variable}_keytab is "
            "missing",
            "give the service a principal of its own, and the path of its keytab on the host",
        )
        return replace(given, user=None)
    if given.password is not None:
        sheet.error(
            "client.login",
            f"{variable}_password is set, and the cluster's security.mechanism is GSSAPI, which takes none",
            f"take {variable}_password out: {variable}_keytab has the key",
        )
    return given


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
    if security.tokens and security.tokens.token_endpoint.startswith("http:"):
        sheet.warning(
            "client.login",
            "the cluster's security.oauth.token_endpoint is no https URL: client secrets and tokens can be "
            "read on the way",
            "use the endpoint's https URL, with oauth.ca where its CA is one of your own",
        )
    return user, password


def check_mechanisms(inventory: Inventory, services: Iterable[Service]) -> Iterator[Finding]:
    """Find services whose own settings log in as Kedge's gates, load and audit cannot."""
    known = {name: cluster.security for name, cluster in clusters(inventory)[0].items()}
    found: dict[str, Finding] = {}
    for service in services:
        for host in service.hosts(inventory):
            for variable, cluster, own in _own_settings(service.name, inventory.hosts[host]):
                if cluster not in known:
                    continue
                where = f"{host} {service.name}"
                if login := _unspoken(own, known[cluster]):
                    found[variable] = _not_spoken(where, variable, cluster, *login)
                elif key := _unshown(own, known[cluster], service, cluster):
                    found[variable] = _not_shown(where, variable, cluster, key)
    yield from found.values()


def check_stores(inventory: Inventory, services: Iterable[Service]) -> Iterator[Finding]:
    """Note stores of keys that own settings name: what is in them, no plan can see."""
    found: dict[tuple[str, str], Finding] = {}
    either = inventory.reader.either
    for service in services:
        for host in service.hosts(inventory):
            for variable, _, own in _own_settings(service.name, inventory.hosts[host]):
                for key in map(str, own):
                    kind = str(own.get(key.replace(".location", ".type"), "JKS")).upper()
                    if key.endswith(("keystore.location", "truststore.location")) and kind != "PEM":
                        found[variable, key] = Finding(
                            "note",
                            "client.stores",
                            f"{host}: {variable}",
                            f"{key} is a store on the host: when its certificates expire is not "
                            "checked"
                            + either(". With other contents, the next deploy restarts what reads it", ""),
                            either(
                                "have the plan bring PEM files, which it checks (docs/rest_security.md, "
                                "Certificates)",
                                "",
                            ),
                        )
    yield from found.values()


def _own_settings(service: str, variables: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield the own settings of a service's clients: the variable, its cluster, and what it holds."""
    own = variables.get(f"{service}_settings")
    if isinstance(own, Mapping):
        yield f"{service}_settings", str(variables.get(f"{service}_cluster")), own
    flows = variables.get(f"{service}_flows")
    for name, flow in flows.items() if isinstance(flows, Mapping) else ():
        if not isinstance(flow, Mapping):
            continue
        for end, client in (("source", "consumer"), ("target", "producer")):
            # A listener of its own is not the one of the gates.
            if flow.get(f"{end}_bootstrap_servers"):
                continue
            cluster, place = str(flow.get(end)), f"{service}_flows.{name}"
            one = flow.get(f"{client}_settings")
            if isinstance(one, Mapping):
                yield f"{place}.{client}_settings", cluster, one
            both = flow.get("settings")
            if isinstance(both, Mapping):
                of_end = {k: v for k, v in both.items() if str(k).startswith(f"{cluster}.")}
                yield f"{place}.settings", cluster, of_end


def _unspoken(own: Mapping[str, Any], security: Security | None) -> tuple[str, str] | None:
    """Return the key and the mechanism of own settings that Kedge's clients cannot log in by.

    None where the cluster gives them a login, where nothing but the login is missing there, and where the
    service has ``bootstrap.servers`` of its own: then the gates use another listener.
    """
    if (security is not None and security.sasl) or _named(own, "bootstrap.servers"):
        return None
    key = _named(own, "sasl.mechanism")
    mechanism = str(own.get(key, "")).strip().upper()
    other = re.fullmatch(r"[A-Z0-9_-]+", mechanism) and mechanism not in BY_PASSWORD
    return (key, mechanism) if other else None


def _named(own: Mapping[str, Any], key: str) -> str:
    """Return the key of own settings that is this one, under whatever prefix; empty where there is none."""
    return next((str(one) for one in own if str(one) == key or str(one).endswith(f".{key}")), "")


def _unshown(own: Mapping[str, Any], security: Security | None, service: Service, cluster: str) -> str:
    """Return the key of own settings that shows brokers a certificate where Kedge's clients speak no TLS.

    Empty where none does, and where the service has ``bootstrap.servers`` of its own.
    """
    if (security is not None and security.tls) or _named(own, "bootstrap.servers"):
        return ""
    clients = {*_CLIENTS, cluster}
    for key in map(str, own):
        words = key.partition("ssl.keystore.")[0].split(".")[:-1]
        # Without a prefix it is the listener of what has one.
        listener = service.ports is not None and not words
        if key.endswith(_SHOWN) and clients.issuperset(words) and not listener:
            return key
    return ""


def _not_shown(where: str, variable: str, cluster: str, key: str) -> Finding:
    return Finding(
        "error",
        "client.mechanism",
        where,
        f"{variable} has {key}, and gates, load and audit show brokers of cluster {cluster} no certificate: "
        "they would not reach it, and a deploy would stop at its first gate",
        f"write protocol, ca and client_tls into kafka_clusters.{cluster}.security, or give {variable} "
        "bootstrap.servers of its own",
    )


def _not_spoken(where: str, variable: str, cluster: str, key: str, mechanism: str) -> Finding:
    return Finding(
        "error",
        "client.mechanism",
        where,
        f"{variable} has {key}: {mechanism}, and "
        + (
            f"kafka_clusters.{cluster} has no such login for gates, load and audit"
            if mechanism in SPOKEN
            else f"gates, load and audit log in by {', '.join(SPOKEN[:-1])} or {SPOKEN[-1]}"
        )
        + f": they would not reach cluster {cluster}, and a deploy would stop at its first gate",
        (
            f"write mechanism: {mechanism} and what belongs to it into kafka_clusters.{cluster}.security"
            if mechanism in SPOKEN
            else f"give kafka_clusters.{cluster} the bootstrap_servers and the security of a listener that "
            f"takes one of these, and {variable} bootstrap.servers of its own"
        ),
    )


def no_kerberos(cluster: str) -> Finding:
    """Return the finding about a cluster by Kerberos where Kedge's own clients were built without it."""
    return Finding(
        "error",
        "client.mechanism",
        f"kafka_clusters.{cluster}.security",
        "mechanism is GSSAPI, and the librdkafka of this machine was built without it: gates, load and audit "
        f"would not reach cluster {cluster}",
        "build confluent-kafka from source against a librdkafka with libsasl2, or name a listener that takes "
        "another mechanism",
    )


def names_protocol(settings: Any) -> bool:
    """Return whether a person's own settings name the protocol of a client, under whatever prefix."""
    return isinstance(settings, Mapping) and any(str(key).endswith(_PROTOCOL) for key in settings)
