#!/usr/bin/python
"""Creates and alters the planned topics of a cluster."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kafka_topics_present
short_description: Give a cluster its planned topics
description:
  - Creates topics that are missing, adds partitions where that is allowed, and sets topic configuration.
  - Runs on the control machine and speaks the admin API.
  - Partitions are only ever added. On a topic that exists this needs C(grow), because keyed records of one
    key then lie in two partitions until the old ones have expired.
options:
  bootstrap_servers: {type: str, required: true, description: "Where the cluster answers."}
  client: {type: dict, default: {}, description: "More keys for the client."}
  secrets: {type: dict, default: {}, description: "Keys for the client that are never shown."}
  topics:
    type: dict
    required: true
    description: "Topic to its settings as the plan has them (key, value)."
  grow: {type: list, elements: str, default: [], description: "Topics to which partitions may be added."}
author: Kedge
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.kafka_admin import TIMEOUT_SECONDS, admin
from confluent_kafka import KafkaException
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, NewTopic

OWN_KEYS = ("partitions", "replication.factor")


def wanted(topics: dict[str, Any]) -> dict[str, dict[str, str]]:
    """Return topic -> key -> value."""
    return {name: {s["key"]: s["value"] for s in topic["settings"]} for name, topic in topics.items()}


def running_settings(client: Any, names: list[str]) -> dict[str, dict[str, str]]:
    """Return topic -> key -> value in force, for topics that exist."""
    if not names:
        return {}
    answers = client.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, n) for n in names])
    return {
        resource.name: {key: entry.value for key, entry in answer.result(TIMEOUT_SECONDS).items()}
        for resource, answer in answers.items()
    }


def compare(
    plan: dict[str, dict[str, str]], partitions: dict[str, int], settings: dict[str, dict[str, str]]
) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Return the changes by topic (create, grow, set) and what can't be done."""
    changes: dict[str, dict[str, Any]] = {}
    refused = []
    for name, values in plan.items():
        count = int(values["partitions"])
        own = {k: v for k, v in values.items() if k not in OWN_KEYS}
        if name not in partitions:
            changes[name] = {"create": {**values}}
            continue
        change: dict[str, Any] = {}
        if count > partitions[name]:
            change["grow"] = [partitions[name], count]
        elif count < partitions[name]:
            refused.append(
                f"{name} has {partitions[name]} partitions and the plan says {count}: Kafka cannot take "
                f"partitions away; plan {partitions[name]}, or make a new topic"
            )
        differing = {k: [settings[name].get(k), v] for k, v in own.items() if settings[name].get(k) != v}
        if differing:
            change["set"] = differing
        if change:
            changes[name] = change
    return changes, refused


def replication_drift(plan: dict[str, dict[str, str]], copies: dict[str, int]) -> list[str]:
    """Return a line for each topic with another number of copies than planned; nothing here moves copies."""
    return [
        f"topic {name} has {copies[name]} copies and the plan says {values['replication.factor']}: "
        "reassign its "
        "partitions (kafka-reassign-partitions), or plan what it has"
        for name, values in plan.items()
        if name in copies and copies[name] != int(values["replication.factor"])
    ]


def apply(client: Any, changes: dict[str, dict[str, Any]]) -> None:
    """Carry out the changes and wait for each."""
    answers = {}
    new = []
    for name, change in changes.items():
        if "create" in change:
            values = change["create"]
            own = {k: v for k, v in values.items() if k not in OWN_KEYS}
            copies = int(values["replication.factor"])
            new.append(NewTopic(name, int(values["partitions"]), copies, config=own))
    if new:
        answers.update(client.create_topics(new, operation_timeout=TIMEOUT_SECONDS))
    grown = [NewPartitions(name, change["grow"][1]) for name, change in changes.items() if "grow" in change]
    if grown:
        answers.update(client.create_partitions(grown, operation_timeout=TIMEOUT_SECONDS))
    altered = []
    for name, change in changes.items():
        entries = [
            ConfigEntry(k, v[1], incremental_operation=AlterConfigOpType.SET)
            for k, v in change.get("set", {}).items()
        ]
        if entries:
            altered.append(ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=entries))
    if altered:
        answers.update(client.incremental_alter_configs(altered))
    for answer in answers.values():
        answer.result(TIMEOUT_SECONDS)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "bootstrap_servers": {"type": "str", "required": True},
            "client": {"type": "dict", "default": {}},
            "secrets": {"type": "dict", "default": {}, "no_log": True},
            "topics": {"type": "dict", "required": True},
            "grow": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    plan = wanted(module.params["topics"])
    p = module.params
    try:
        client = admin(p["bootstrap_servers"], {**p["client"], **p["secrets"]})
    except ConnectionError as error:
        # On a bare fleet the brokers are not there yet, and all topics are to be made.
        if module.check_mode:
            module.warn(f"{error}; on a bare cluster all topics would be created")
            module.exit_json(changed=True, changes={name: {"create": v} for name, v in plan.items()})
        module.fail_json(msg=str(error))
    try:
        topics = client.list_topics(timeout=TIMEOUT_SECONDS).topics
        found = {n: len(t.partitions) for n, t in topics.items()}
        copies = {
            n: min(len(p.replicas) for p in t.partitions.values()) for n, t in topics.items() if t.partitions
        }
        for drift in replication_drift(plan, copies):
            module.warn(drift)
        present = [name for name in plan if name in found]
        changes, refused = compare(plan, found, running_settings(client, present))
        for name, change in changes.items():
            if "grow" in change and name not in module.params["grow"]:
                old, new = change["grow"]
                refused.append(
                    f"{name} has {old} partitions and the plan says {new}: records of one key would lie in "
                    "two partitions until the old ones expire; say keys_may_move: true at the topic if its "
                    "keys allow it"
                )
        if refused:
            module.fail_json(msg="no topic was changed: " + "; ".join(refused))
        if not module.check_mode:
            apply(client, changes)
    except KafkaException as error:
        module.fail_json(msg=f"{module.params['bootstrap_servers']}: {error.args[0].str()}")
    module.exit_json(changed=bool(changes), changes=changes)


if __name__ == "__main__":
    main()
