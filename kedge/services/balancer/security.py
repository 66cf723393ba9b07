"""Rules for TLS and logins at the balancer, on both of its sides."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from typing import Final

from kedge.plan.inventory.security import KeyPair, RestTls, put_file
from kedge.plan.settings import Choice, Setting, Sheet
from kedge.services.balancer.variables import RestBalancer

#: Where the configuration of the one balancer of a host lies.
FOLDER: Final = "/etc/rest-balancer/haproxy"
FILE: Final = f"{FOLDER}/haproxy.cfg"
#: Where it listens if its clients know it by an address that moves.
ANY: Final = "0.0.0.0"  # noqa: S104 - asked for by rest_balancer_address
#: The limits of its unit.
UNIT: Final = "/etc/systemd/system/rest-balancer@haproxy.service.d/10-kedge.conf"
_MANUAL: Final = "HAProxy 2.6 configuration manual, 5 Bind and server options"


def plan_balancer_security(
    sheet: Sheet, variables: RestBalancer, instances: RestTls | None, users: Mapping[str, str]
) -> None:
    """Plan the options of ``bind`` and of each server, and the files of certificates and logins.

    ``instances`` is how the instances' listeners are encrypted, ``users`` who may log in to them.
    """
    if variables.tls:
        _clients(sheet, variables.tls)
    if instances:
        _servers(sheet, variables.tls, instances)
    elif variables.tls:
        sheet.note(
            "balancer.tls",
            "clients reach the balancer by TLS, and the balancer its instances in plain text",
            "set kafka_rest_tls, unless the network between them is trusted",
        )
    if variables.users:
        _logins(sheet, variables)
    if users:
        _check(sheet, users)


def _clients(sheet: Sheet, pair: KeyPair) -> None:
    listener = f"{FOLDER}/listener.pem"
    sheet.put(
        FILE,
        "bind options",
        "balancer.tls",
        Choice(
            f"ssl crt {listener} alpn http/1.1 ssl-min-ver TLSv1.2",
            "rest_balancer_tls is set; over HTTP/2 a refused login would cancel the stream before the "
            "client has sent its records, and reach it as a broken connection instead of a 401",
            _MANUAL,
            "derived",
        ),
    )
    put_file(sheet, listener, "balancer.tls", {"key": pair.key, "certificate": pair.certificate})


def _servers(sheet: Sheet, pair: KeyPair | None, instances: RestTls) -> None:
    ca = f"{FOLDER}/instances-ca.pem"
    options = f"ssl verify required ca-file {ca}"
    if instances.clients == "required" and pair is None:
        sheet.error(
            "balancer.tls",
            "kafka_rest_tls.clients is required, and the balancer has no certificate to show",
            "set rest_balancer_tls",
        )
        return
    if instances.clients != "none" and pair:
        # The same certificate on both sides. Shown also where it is only requested: on the way from required
        # to none, instances that still require it run for a while.
        options += f" crt {FOLDER}/listener.pem"
    because = "kafka_rest_tls is set; an instance whose certificate its ca did not sign is down"
    sheet.put(FILE, "default-server options", "balancer.tls", Choice(options, because, _MANUAL, "derived"))
    put_file(sheet, ca, "balancer.tls", {"certificate": instances.ca})


def _logins(sheet: Sheet, variables: RestBalancer) -> None:
    """Plan a digest of each login: the balancer compares it, and has no password on its disk.

    A crypt(3) hash, as a userlist has it, would cost a core at a few hundred requests a second.
    """
    if variables.tls is None:
        sheet.warning(
            "balancer.basic",
            "rest_balancer_users log in over connections that are not encrypted",
            "set rest_balancer_tls",
        )
    users = f"{FOLDER}/users.list"
    because = f"{len(variables.users)} users of rest_balancer_users, by the digest of what they send"
    sheet.put(FILE, "users", "balancer.basic", Choice(users, because, _MANUAL, "derived"))
    for user, password in variables.users.items():
        digest = hashlib.sha256(token(user, password).encode()).hexdigest().upper()
        _secret(sheet, users, user, digest, "one of rest_balancer_users")


def _check(sheet: Sheet, users: Mapping[str, str]) -> None:
    """Plan the login of the health check, in a map beside the configuration, which may then be shown."""
    check = f"{FOLDER}/check.map"
    user, password = next(iter(users.items()))
    sheet.put(
        FILE,
        "check login",
        "balancer.check",
        Choice(check, f"the health check logs in as {user}", _MANUAL, "derived"),
    )
    _secret(sheet, check, "check", f"Basic {token(user, password)}", f"the login of {user}")


def client_login(sheet: Sheet, own: Mapping[str, str], users: Mapping[str, str]) -> str:
    """Return the user by whom a client gets through the balancer to an instance; empty where nobody logs in.

    ``own`` are the balancer's users, ``users`` the instances': a request has one login for both.
    """
    if not own or not users:
        return next(iter(own or users), "")
    both = [user for user, password in own.items() if users.get(user) == password]
    if not both:
        sheet.error(
            "balancer.basic",
            "no user of rest_balancer_users is one of kafka_rest_users with the same password, and a request "
            "has one login for both: nobody would be served",
            "give both the users of the clients, or take kafka_rest_users out",
        )
    return next(iter(both), "")


def token(user: str, password: str) -> str:
    """Return what follows the word Basic in the header of a login."""
    return base64.b64encode(f"{user}:{password}".encode()).decode()


def _secret(sheet: Sheet, file: str, key: str, value: str, because: str) -> None:
    sheet.settings.append(
        Setting(file, key, value, "balancer.basic", because, "the inventory", "derived", secret=True)
    )
