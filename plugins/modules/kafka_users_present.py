#!/usr/bin/python
"""Gives a cluster its SCRAM users."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kafka_users_present
short_description: Give a cluster the SCRAM users that the inventory names
description:
  - Adds users that are missing, and gives those another password that cannot log in with theirs. Nobody can
    read a password back, so each is tried; afterwards each has logged in.
  - The user as which brokers speak with one another keeps its password, for brokers that were not restarted
    yet would lose the others.
  - Users that the inventory does not name are told and left.
  - Runs on the control machine and speaks the admin API.
options:
  bootstrap_servers: {type: str, required: true, description: "Where the cluster answers."}
  client: {type: dict, default: {}, description: "More keys for the client."}
  secrets: {type: dict, default: {}, description: "Keys for the client that are never shown."}
  users: {type: dict, required: true, description: "User to password."}
  broker_user: {type: str, required: true, description: "The user as which brokers log in to one another."}
  iterations: {type: int, required: true, description: "How often a password is hashed."}
author: Kedge
"""

EXAMPLES = r"""
- name: Have the cluster know its users
  kafka_users_present:
    bootstrap_servers: leaf1.example.net:9092
    users: {kedge: "{{ vault_kedge }}", broker: "{{ vault_broker }}"}
    broker_user: broker
    iterations: 4096
  delegate_to: localhost
"""

RETURN = r"""
added:
  description: Users that were, or in check mode would be, added.
  returned: success
  type: list
  elements: str
altered:
  description: Users that got, or in check mode would get, another password.
  returned: success
  type: list
  elements: str
"""

import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from kedge.deploy.kafka_admin import (
    CLUSTER_ARGUMENTS,
    TIMEOUT_SECONDS,
    RefusedError,
    admin,
    client_keys,
    logs_in,
    with_next_step,
)

UNTOUCHED = "No instance was touched."
POLL_SECONDS = 0.2


def as_user(client: dict[str, Any], user: str, password: str) -> dict[str, Any]:
    """Return the keys of a client that logs in as a user."""
    return {**client, "sasl.username": user, "sasl.password": password}


def known(client: Any, mechanism: ScramMechanism) -> set[str]:
    """Return the users that the cluster knows by a mechanism."""
    try:
        found = client.describe_user_scram_credentials().result(TIMEOUT_SECONDS)
    except KafkaException as error:
        if error.args[0].code() == KafkaError.RESOURCE_NOT_FOUND:
            return set()
        raise
    return {
        name
        for name, user in found.items()
        if any(info.mechanism == mechanism for info in user.scram_credential_infos)
    }


def put(client: Any, users: dict[str, str], mechanism: ScramMechanism, iterations: int) -> None:
    """Give users their passwords; raises KafkaException."""
    how = ScramCredentialInfo(mechanism, iterations)
    wanted = [UserScramCredentialUpsertion(u, how, p.encode()) for u, p in sorted(users.items())]
    for answer in client.alter_user_scram_credentials(wanted).values() if wanted else ():
        answer.result(TIMEOUT_SECONDS)


def see(servers: str, clients: dict[str, dict[str, Any]]) -> str | None:
    """Wait until each of these can log in, for brokers learn of a user a moment later; return who cannot."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    for user, client in sorted(clients.items()):
        while not logs_in(servers, client):
            if time.monotonic() > deadline:
                return user
            time.sleep(POLL_SECONDS)
    return None


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec=CLUSTER_ARGUMENTS
        | {
            "users": {"type": "dict", "required": True, "no_log": True},
            "broker_user": {"type": "str", "required": True},
            "iterations": {"type": "int", "required": True},
        },
        supports_check_mode=True,
    )
    p = module.params
    servers, users, broker = p["bootstrap_servers"], p["users"], p["broker_user"]
    own = client_keys(p)
    mechanism = ScramMechanism[own["sasl.mechanism"].replace("-", "_")]
    try:
        # The kit's own user may be one of those that are new, or have another password.
        as_whom = own if logs_in(servers, own) else as_user(own, broker, users[broker])
        client = admin(servers, as_whom)
        there = known(client, mechanism)
        missing = sorted(users.keys() - there)
        other = [
            user
            for user in sorted(users.keys() & there)
            if not logs_in(servers, as_user(own, user, users[user]))
        ]
        if broker in other:
            module.fail_json(
                msg=f"Refusing to change the password of {broker}: the brokers of {servers} log in to one "
                "another as that user, and would lose each other. No user was changed. Add another user to "
                "security.users and run deploy.yml, then name it in security.broker_user and run "
                "deploy.yml again"
            )
        if not module.check_mode:
            put(client, {user: users[user] for user in [*missing, *other]}, mechanism, p["iterations"])
            changed = {user: as_user(own, user, users[user]) for user in [*missing, *other]}
            if refused := see(servers, changed):
                module.fail_json(
                    msg=f"{refused} was given its password, and {servers} refuses its login. The other users "
                    "log in, and no instance was touched. See the log of the brokers, then run "
                    "deploy.yml again"
                )
    except ConnectionError as error:
        # On a bare fleet the brokers are not there yet, and are formatted with the user of their own.
        if module.check_mode and not isinstance(error, RefusedError):
            module.warn(f"{error}; a bare cluster would be given its users")
            module.exit_json(changed=False, added=[], altered=[])
        module.fail_json(msg=with_next_step(error, UNTOUCHED))
    except KafkaException as error:
        failed = ConnectionError(f"{servers}: {error.args[0].str()}")
        module.fail_json(msg=with_next_step(failed, UNTOUCHED))
    for user in sorted(there - users.keys()):
        module.warn(
            f"{servers} knows the user {user}, whom security.users does not name; it may log in still"
        )
    module.exit_json(changed=bool(missing or other), added=missing, altered=other)


if __name__ == "__main__":
    main()
