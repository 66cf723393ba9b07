"""Rules for who may reach a REST proxy, and as whom it reaches its cluster."""

from __future__ import annotations

from typing import Final

from kedge.plan.inventory.logins import login_of
from kedge.plan.inventory.security import HOST_CHECK, WHY_ALLOWED, Login, java_option, plan_client, put_file
from kedge.plan.settings import Choice, Setting, Sheet
from kedge.services.rest.distribution import LISTENER, SERVICE, RestProcess

_SOURCE: Final = "kafka-rest documentation, REST Proxy Security; rest-utils, RestConfig and SslFactory"
_HOST_CHECK_SOURCE: Final = "rest-utils, RestConfig"
_REALM: Final = "KafkaRest"
_ROLE: Final = "client"


def plan_security(
    sheet: Sheet, properties: str, process: RestProcess, *, jetty_12: bool
) -> list[tuple[str, str]]:
    """Plan the keys of TLS and authentication with their files; return JVM flags with their reasons.

    ``jetty_12`` has its login modules in another package than 9.4.
    """
    folder = f"/etc/kafka-rest/{process.port}"
    plan_cluster(sheet, properties, "client.", process)
    _listeners(sheet, properties, process, folder, jetty_12=jetty_12)
    allowed = [(flag, WHY_ALLOWED)] if (flag := java_option(process.security)) else []
    return allowed + _basic(sheet, properties, process, folder, jetty_12=jetty_12)


def plan_cluster(sheet: Sheet, properties: str, prefix: str, process: RestProcess) -> None:
    """Plan how a proxy speaks with its cluster, and by what it is known there."""
    variables, clients = process.variables, process.distribution.clients
    given = Login(variables.user, variables.password, variables.client_tls, variables.keytab)
    login = login_of(sheet, SERVICE, process.security, given)
    version = clients(variables.version) if clients else variables.version
    stem = f"/etc/kafka-rest/{process.port}/cluster"
    plan_client(sheet, properties, prefix, stem, process.security, login, version)


def refuse_listeners(sheet: Sheet, process: RestProcess) -> None:
    """Refuse TLS and logins of listeners for a distribution whose keys for them are not planned."""
    variables, what = process.variables, process.distribution.title
    for name, value in (("tls", variables.tls), ("users", variables.users)):
        if value:
            sheet.error(
                "rest.tls",
                f"kafka_rest_{name} is set, and what {what} reads for it is not planned: its listeners would "
                "stay open",
                f"take it out and set rest_balancer_{name} at a balancer before it, or use another "
                "distribution",
            )


def _listeners(sheet: Sheet, file: str, process: RestProcess, folder: str, *, jetty_12: bool) -> None:
    tls = process.variables.tls
    if tls is None:
        return

    def put(key: str, value: str, because: str) -> None:
        sheet.put(file, key, "rest.tls", Choice(value, because, _SOURCE, "derived"))

    put("ssl.keystore.type", "PEM", "a text file needs no password of its own")
    put("ssl.keystore.location", f"{folder}/{LISTENER}", "the key and the certificate of this listener")
    put_file(sheet, f"{folder}/{LISTENER}", "rest.tls", {"key": tls.key, "certificate": tls.certificate})
    # Also where no client shows a certificate: the readiness probe on the host holds the listener against it.
    put_file(sheet, f"{folder}/listener-ca.pem", "rest.tls", {"certificate": tls.ca})
    if tls.clients != "none":
        put("ssl.truststore.type", "PEM", "a text file needs no password of its own")
        put("ssl.truststore.location", f"{folder}/listener-ca.pem", "the CA of the clients' certificates")
        put("ssl.client.authentication", tls.clients.upper(), f"kafka_rest_tls.clients is {tls.clients}")
    if jetty_12 and process.balancer_url:
        _host_check(sheet, file, process)


def _host_check(sheet: Sheet, file: str, process: RestProcess) -> None:
    """Plan that requests which come through a balancer are answered: they ask for its name, or for any other.

    Jetty 9.4 checks the host only where the client sent SNI, which a balancer does not.
    """
    because = (
        "clients ask for the balancer's name, and Jetty 12 answers 400 to a host that the instance's "
        "certificate does not name: the balancer would have no instance up. The price: a client that "
        "verifies no certificate no longer gets 400 when it has reached another host than it asked for"
    )
    choice = Choice("false", because, _HOST_CHECK_SOURCE, "derived")
    value = sheet.put(file, HOST_CHECK, "rest.host_check", choice)
    if value is not None and value.lower() not in ("true", "false"):
        sheet.error(
            "rest.host_check",
            f"{HOST_CHECK} is {value}: kafka-rest would not start",
            "write false, or true if the certificate of each instance names what clients call the balancer",
            HOST_CHECK,
        )
    elif value != "false" and process.variables.balancer:
        sheet.warning(
            "rest.host_check",
            f"{HOST_CHECK} is {value}: an instance answers 400 to each client of {process.balancer_url} "
            "whose request asks for a host that the instance's certificate does not name",
            f"see that the certificate of each instance names that host, or take {HOST_CHECK} out",
            HOST_CHECK,
        )


def _basic(
    sheet: Sheet, properties: str, process: RestProcess, folder: str, *, jetty_12: bool
) -> list[tuple[str, str]]:
    variables = process.variables
    if not variables.users:
        return []
    if not variables.tls:
        sheet.warning(
            "rest.basic",
            "kafka_rest_users log in over connections that are not encrypted: their passwords can be read "
            "on the way",
            "set kafka_rest_tls",
            variable="kafka_rest_tls",
        )
    many = f"{len(variables.users)} users of kafka_rest_users"

    def put(key: str, value: str, because: str) -> None:
        sheet.put(properties, key, "rest.basic", Choice(value, because, _SOURCE, "derived"))

    put("authentication.method", "BASIC", many)
    put("authentication.realm", _REALM, "the section of the JAAS file")
    put("authentication.roles", _ROLE, "the role that each user has in the users' file")
    package = "org.eclipse.jetty.security.jaas.spi" if jetty_12 else "org.eclipse.jetty.jaas.spi"
    sheet.put(
        f"{folder}/jaas.conf",
        _REALM,
        "rest.basic",
        Choice(
            f'{package}.PropertyFileLoginModule required file="{folder}/users.properties";',
            f"Jetty {'12' if jetty_12 else '9.4'} has its login modules there",
            _SOURCE,
            "documented",
        ),
    )
    for user, password in variables.users.items():
        sheet.settings.append(
            Setting(
                f"{folder}/users.properties",
                user,
                f"{password},{_ROLE}",
                "rest.basic",
                "one of kafka_rest_users",
                "the inventory",
                "derived",
                secret=True,
            )
        )
    return [(f"-Djava.security.auth.login.config={folder}/jaas.conf", "where the login is configured")]
