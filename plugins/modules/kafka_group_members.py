#!/usr/bin/python
"""Tells the members of a cluster's consumer groups."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kafka_group_members
short_description: Tell the members of a cluster's consumer groups
description:
  - Answers with C(members), the group and the client id of each member of each group.
  - Runs on the control machine, and changes nothing.
options:
  bootstrap_servers: {type: str, required: true, description: "Where the cluster answers."}
  client: {type: dict, default: {}, description: "More keys for the client."}
  secrets: {type: dict, default: {}, description: "Keys for the client that are never shown."}
author: Kedge
"""

EXAMPLES = r"""
- name: Ask the cluster which members its groups have
  kafka_group_members:
    bootstrap_servers: leaf1.example.net:9092
  delegate_to: localhost
  register: found
"""

RETURN = r"""
members:
  description: Group and name (the client id) of each member.
  returned: always
  type: list
  elements: dict
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from confluent_kafka import KafkaException

from kedge.deploy.kafka_admin import CLUSTER_ARGUMENTS, admin, client_keys, described_groups, with_next_step

UNTOUCHED = "The instance was not touched."


def members(client: Any) -> list[dict[str, str]]:
    """Return group and client id of every member that the cluster knows."""
    return [
        {"group": name, "name": member.client_id}
        for name, group in described_groups(client).items()
        for member in group.members
    ]


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=CLUSTER_ARGUMENTS, supports_check_mode=True)
    servers = module.params["bootstrap_servers"]
    try:
        found = members(admin(servers, client_keys(module.params)))
    except ConnectionError as error:
        module.fail_json(msg=with_next_step(error, UNTOUCHED))
    except KafkaException as error:
        failed = ConnectionError(f"{servers}: {error.args[0].str()}")
        module.fail_json(msg=with_next_step(failed, UNTOUCHED))
    module.exit_json(changed=False, members=found)


if __name__ == "__main__":
    main()
