#!/usr/bin/python
"""Warns of mirrors of somebody else's that read what a flow copies."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kafka_other_mirrors
short_description: Warn of mirrors of somebody else's that read what a flow copies
description:
  - Warns of each consumer group at the source whose members between them read every topic of a flow, and all
    have the client id that the classic MirrorMaker gives its consumers, the group's name with a number.
  - Where such a mirror copies to, the source does not know. A MirrorMaker 2 has no group there, and is not
    found.
  - Runs on the control machine, and changes nothing.
options:
  bootstrap_servers: {type: str, required: true, description: "Where the source answers."}
  client: {type: dict, default: {}, description: "More keys for the client."}
  secrets: {type: dict, default: {}, description: "Keys for the client that are never shown."}
  flows:
    type: dict
    required: true
    description: "Flow to its C(target) and its C(topics), patterns that match a topic's whole name."
  known: {type: list, elements: str, default: [], description: "Groups that are no stranger's."}
author: Kedge
"""

EXAMPLES = r"""
- name: Warn of mirrors beside the flow
  kafka_other_mirrors:
    bootstrap_servers: leaf1.example.net:9092
    flows: {metrics: {target: agg, topics: ["metrics[.].*"]}}
    known: [mirror-maker-metrics]
  delegate_to: localhost
"""

RETURN = r"""
mirrors:
  description: Flow, group and members of each mirror.
  returned: success
  type: list
  elements: dict
"""

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from confluent_kafka import KafkaException

from kedge.deploy.kafka_admin import (
    CLUSTER_ARGUMENTS,
    TIMEOUT_SECONDS,
    admin,
    client_keys,
    described_groups,
    with_next_step,
)
from kedge.evidence.border.cluster import member
from kedge.evidence.border.untrusted import shown

HOLDS = "Nothing was changed."
#: Members that a warning names.
_NAMED = 3
OPTIONS: dict[str, dict[str, Any]] = {
    "flows": {"type": "dict", "required": True},
    "known": {"type": "list", "elements": "str", "default": []},
}


def other_mirrors(
    groups: Mapping[str, Any], topics: Iterable[str], flows: Mapping[str, Any], known: Collection[str]
) -> list[dict[str, Any]]:
    """Return flow, group and members of each group that looks like a mirror of a flow's topics."""
    found = []
    # A mirror takes no internal topic, whatever its patterns match.
    outer = [topic for topic in topics if not topic.startswith("__")]
    copied = {
        name: {topic for topic in outer if any(re.fullmatch(pattern, topic) for pattern in flow["topics"])}
        for name, flow in flows.items()
    }
    for group, of in sorted(groups.items()):
        # kafka.tools.MirrorMaker sets this client id, whatever its consumer.config says.
        mirror = re.compile(rf"{re.escape(group)}-\d+")
        if group in known or not all(mirror.fullmatch(one.client_id) for one in of.members):
            continue
        read = {p.topic for one in of.members if one.assignment for p in one.assignment.topic_partitions}
        members = sorted({member(one.client_id, one.host) for one in of.members})
        found += [
            {"flow": name, "group": shown(group), "members": members}
            for name in sorted(flows)
            if copied[name] and copied[name] <= read
        ]
    return found


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=CLUSTER_ARGUMENTS | OPTIONS, supports_check_mode=True)
    p = module.params
    try:
        client = admin(p["bootstrap_servers"], client_keys(p))
        topics = [*client.list_topics(timeout=TIMEOUT_SECONDS).topics]
        found = other_mirrors(described_groups(client), topics, p["flows"], p["known"])
    except ConnectionError as error:
        module.fail_json(msg=with_next_step(error, HOLDS))
    except KafkaException as error:
        failed = ConnectionError(f"{p['bootstrap_servers']}: {error.args[0].str()}")
        module.fail_json(msg=with_next_step(failed, HOLDS))
    for one in found:
        target = p["flows"][one["flow"]]["target"]
        module.warn(
            f"group {one['group']} of {p['bootstrap_servers']} reads all topics of flow {one['flow']}, and "
            f"its members have a MirrorMaker's client id: {', '.join(one['members'][:_NAMED])}. If it copies "
            f"to {target}, every record arrives there twice: stop it, or have the flow take over from it "
            "(mirror_maker_adopt). If it copies elsewhere, name the group in occupied_known"
        )
    module.exit_json(changed=False, mirrors=found)


if __name__ == "__main__":
    main()
