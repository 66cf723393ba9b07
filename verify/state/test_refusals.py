"""What secured proxies and balancers refuse: plain text, strangers, and clients without a certificate."""

from __future__ import annotations

import http.client
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from verify.state.conftest import name_of

testinfra_hosts = ["ansible://kafka_rest", "ansible://rest_balancer"]


def planned(plan: dict[str, Any], host: Any) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Service, instance and HOST:PORT of each listener that clients of this host use."""
    variables = host.backend.ansible_runner.get_variables(name_of(host))
    for service in ("kafka_rest", "rest_balancer"):
        of_host = plan["hosts"].get(name_of(host), {"services": {}})["services"].get(service, {})
        for instance in of_host.get("instances", ()):
            bind = [s["value"] for s in instance["settings"] if s["key"] == "bind"]
            address = (
                bind[0] if bind else f"{variables.get('ansible_host', name_of(host))}:{instance['port']}"
            )
            yield service, instance, address


def files(instance: dict[str, Any]) -> set[str]:
    return {s["file"].rpartition("/")[2] for s in instance["settings"]}


def answer(url: str) -> int | str:
    """The status that a client without login and certificate gets, or how its connection ends."""
    stranger = ssl.create_default_context()
    # Who the server is is not asked here: it is the server that has to refuse.
    stranger.check_hostname, stranger.verify_mode = False, ssl.CERT_NONE
    request = urllib.request.Request(f"{url}/topics")  # noqa: S310 - the plan's own address
    try:
        with urllib.request.urlopen(request, timeout=10, context=stranger) as answered:  # noqa: S310 - as above
            return int(answered.status)
    except urllib.error.HTTPError as error:
        return error.code
    except (OSError, http.client.HTTPException) as error:
        # An encrypted listener answers plain text with an alert of TLS, or not at all.
        return f"refused: {error}"


def test_who_does_not_log_in_is_answered_with_401(host: Any, plan: dict[str, Any]) -> None:
    asked = False
    for _, instance, address in planned(plan, host):
        if files(instance) & {"users.properties", "users.list"}:
            asked = True
            scheme = "https" if files(instance) & {"listener.pem"} else "http"
            found = answer(f"{scheme}://{address}")
            # Where a certificate is asked for, a stranger does not come as far as the login.
            assert found == 401 or (mutual(instance) and str(found).startswith("refused")), (address, found)
    if not asked:
        pytest.skip("nobody has to log in here")


def test_an_encrypted_listener_takes_no_plain_text(host: Any, plan: dict[str, Any]) -> None:
    asked = False
    for _, instance, address in planned(plan, host):
        if files(instance) & {"listener.pem"}:
            asked = True
            found = answer(f"http://{address}")
            assert found == 400 or str(found).startswith("refused"), (address, found)
    if not asked:
        pytest.skip("no listener here is encrypted")


def mutual(instance: dict[str, Any]) -> bool:
    return any(
        s["key"] == "ssl.client.authentication" and s["value"] == "REQUIRED" for s in instance["settings"]
    )


def test_who_shows_no_certificate_is_refused_where_one_is_required(host: Any, plan: dict[str, Any]) -> None:
    asked = False
    for _, instance, address in planned(plan, host):
        if mutual(instance):
            asked = True
            assert str(answer(f"https://{address}")).startswith("refused"), address
    if not asked:
        pytest.skip("no listener here asks clients for a certificate")


def test_logins_of_the_balancer_are_read_by_it_and_by_nobody_else(host: Any, plan: dict[str, Any]) -> None:
    for service, instance, _ in planned(plan, host):
        if service == "rest_balancer":
            for path in {s["file"] for s in instance["settings"]}:
                file = host.file(path)
                assert (file.user, file.group, file.mode) == ("root", "rest-balancer", 0o640), path
