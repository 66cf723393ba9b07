#!/usr/bin/python
"""Gives the users of a cluster their rights."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kafka_rights_present
short_description: Give the users of a cluster the rights that the plan has for them
description:
  - Makes the access control lists of these users what is planned, and leaves those of others alone.
  - Adds before it removes, so that nobody has less than both for a moment.
  - Runs on the control machine and speaks the admin API.
options:
  bootstrap_servers: {type: str, required: true, description: "Where the cluster answers."}
  client: {type: dict, default: {}, description: "More keys for the client."}
  secrets: {type: dict, default: {}, description: "Keys for the client that are never shown."}
  rights:
    type: dict
    required: true
    description: "User to its rights, each with resource, name, prefix and operations."
author: Kedge
"""

EXAMPLES = r"""
- name: Let the proxies use the topic orders
  kafka_rights_present:
    bootstrap_servers: leaf1.example.net:9092
    rights:
      proxy: [{resource: TOPIC, name: orders, prefix: false, operations: [READ, WRITE, DESCRIBE]}]
  delegate_to: localhost
"""

RETURN = r"""
added:
  description: What was, or in check mode would be, allowed.
  returned: success
  type: list
  elements: str
removed:
  description: What is, or in check mode would be, no longer allowed.
  returned: success
  type: list
  elements: str
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from kedge.deploy.kafka_admin import (
    CLUSTER_ARGUMENTS,
    TIMEOUT_SECONDS,
    RefusedError,
    admin,
    client_keys,
    with_next_step,
)

UNTOUCHED = "No instance was touched."


def planned(rights: dict[str, list[dict[str, Any]]]) -> set[Any]:
    """Return the access control lists of users' rights."""
    return {
        AclBinding(
            ResourceType[right["resource"]],
            right["name"],
            ResourcePatternType.PREFIXED if right["prefix"] else ResourcePatternType.LITERAL,
            f"User:{user}",
            "*",
            AclOperation[operation],
            AclPermissionType.ALLOW,
        )
        for user, of_user in rights.items()
        for right in of_user
        for operation in right["operations"]
    }


def present(client: Any, user: str) -> set[Any]:
    """Return the access control lists that the cluster has of a user; raises KafkaException."""
    kind, pattern = ResourceType.ANY, ResourcePatternType.ANY
    wanted = (AclOperation.ANY, AclPermissionType.ANY)
    return set(
        client.describe_acls(AclBindingFilter(kind, None, pattern, f"User:{user}", None, *wanted)).result(
            TIMEOUT_SECONDS
        )
    )


def exactly(acl: Any) -> Any:
    """Return the filter that one access control list alone passes."""
    kind, pattern = acl.restype, acl.resource_pattern_type
    return AclBindingFilter(
        kind, acl.name, pattern, acl.principal, acl.host, acl.operation, acl.permission_type
    )


def words(acl: Any) -> str:
    """Say what an access control list allows or denies."""
    name = f"{acl.name}*" if acl.resource_pattern_type == ResourcePatternType.PREFIXED else acl.name
    return f"{acl.principal} {acl.permission_type.name} {acl.operation.name} {acl.restype.name} {name}"


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec=CLUSTER_ARGUMENTS | {"rights": {"type": "dict", "required": True}},
        supports_check_mode=True,
    )
    p = module.params
    servers = p["bootstrap_servers"]
    try:
        client = admin(servers, client_keys(p))
        there = {acl for user in p["rights"] for acl in present(client, user)}
        wanted = planned(p["rights"])
        if not module.check_mode:
            for answer in client.create_acls(list(wanted - there)).values() if wanted - there else ():
                answer.result(TIMEOUT_SECONDS)
            gone = [exactly(acl) for acl in there - wanted]
            for answer in client.delete_acls(gone).values() if gone else ():
                answer.result(TIMEOUT_SECONDS)
    except (ConnectionError, KafkaException) as error:
        said = str(error) if isinstance(error, ConnectionError) else f"{servers}: {error.args[0].str()}"
        # On a bare fleet the brokers are not there yet; those of a running one ask nobody before a restart.
        if module.check_mode and not isinstance(error, RefusedError):
            module.warn(f"{said}; the rights of its users cannot be compared yet")
            module.exit_json(changed=False, added=[], removed=[])
        failed = error if isinstance(error, ConnectionError) else ConnectionError(said)
        module.fail_json(msg=with_next_step(failed, UNTOUCHED))
    added, removed = wanted - there, there - wanted
    module.exit_json(
        changed=bool(added or removed), added=sorted(map(words, added)), removed=sorted(map(words, removed))
    )


if __name__ == "__main__":
    main()
