"""The module that gives a cluster its SCRAM users, as a playbook calls it, against a real broker."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from kedge.deploy.kafka_admin import logs_in
from tests.kafka.guarded import GuardedBroker
from tests.kafka.modules import run_module

pytestmark = pytest.mark.kafka
SCRAM = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512"}
USERS = {"broker": "planted-broker", "kit": "planted-kit", "proxy": "planted-proxy"}


def as_user(user: str, password: str) -> dict[str, Any]:
    return {**SCRAM, "sasl.username": user, "sasl.password": password}


def users(servers: str, wanted: dict[str, str], *, check: bool = False) -> dict[str, Any]:
    told = run_module(
        "kafka_users_present",
        {
            "bootstrap_servers": servers,
            "client": {**SCRAM, "sasl.username": "kit"},
            "secrets": {"sasl.password": wanted["kit"]},
            "users": wanted,
            "broker_user": "broker",
            "iterations": 4096,
        },
        check=check,
    )
    assert "planted" not in told["printed"]
    return told


def test_users_are_added_and_given_new_passwords_once_and_others_are_told(guarded: GuardedBroker) -> None:
    servers = guarded.asks_for_login
    plain = AdminClient({"bootstrap.servers": guarded.bootstrap_servers})
    how = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    formatted = {"broker": USERS["broker"], "former": "planted-former"}
    wanted = [UserScramCredentialUpsertion(user, how, p.encode()) for user, p in formatted.items()]
    for answer in plain.alter_user_scram_credentials(wanted).values():
        answer.result(20)

    assert users(servers, USERS, check=True)["added"] == ["kit", "proxy"]
    assert not logs_in(servers, as_user("kit", USERS["kit"]))
    added = users(servers, USERS)
    assert (added["changed"], added["added"], added["altered"]) == (True, ["kit", "proxy"], [])
    assert all(logs_in(servers, as_user(user, password)) for user, password in USERS.items())
    again = users(servers, USERS)
    assert not again["changed"]
    assert "knows the user former, whom security.users does not name" in " ".join(again["printed"].split())

    renewed = {**USERS, "kit": "planted-another", "proxy": "planted-other"}
    assert users(servers, renewed)["altered"] == ["kit", "proxy"]
    assert not logs_in(servers, as_user("proxy", USERS["proxy"]))
    assert not users(servers, renewed)["changed"]

    told = users(servers, {**renewed, "broker": "planted-elsewhere"})
    assert told["failed"]
    assert "Add another user to security.users" in told["msg"]
    assert logs_in(servers, as_user("broker", USERS["broker"]))
