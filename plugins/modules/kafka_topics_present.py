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
  - The cluster is asked beforehand if it would take every change; where it refuses one, nothing is changed.
    Check mode asks the same, so that it fails where a deploy would.
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

EXAMPLES = r"""
- name: Give the cluster its topics
  kafka_topics_present:
    bootstrap_servers: leaf1.example.net:9092
    topics: "{{ hostvars.localhost.plan_made.plan.topics.leaf }}"
    grow: "{{ kafka_topics | topics_that_may_grow('leaf') }}"
  delegate_to: localhost
"""

RETURN = r"""
changes:
  description: Topic to what was, or in check mode would be, created or altered.
  returned: success
  type: dict
drift:
  description: What differs from the plan and is left alone, in words.
  returned: success
  type: list
  elements: str
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
)

from kedge.deploy.kafka_admin import (
    CLUSTER_ARGUMENTS,
    TIMEOUT_SECONDS,
    RefusedError,
    admin,
    client_keys,
    with_next_step,
)

UNTOUCHED = "No topic was changed."
OWN_KEYS = ("partitions", "replication.factor")


def wanted(topics: dict[str, Any]) -> dict[str, dict[str, str]]:
    """Return topic -> key -> value."""
    return {name: {s["key"]: s["value"] for s in topic["settings"]} for name, topic in topics.items()}


def running_settings(
    client: Any, names: list[str]
) -> tuple[dict[str, dict[str, str]], dict[str, dict[str, str]]]:
    """Return topic -> key -> value in force, for topics that exist, and of these those set at the topic."""
    if not names:
        return {}, {}
    answers = client.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, n) for n in names])
    entries = {resource.name: answer.result(TIMEOUT_SECONDS) for resource, answer in answers.items()}
    at_topic = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    return (
        {name: {key: e.value for key, e in found.items()} for name, found in entries.items()},
        {
            name: {k: e.value for k, e in found.items() if e.source == at_topic}
            for name, found in entries.items()
        },
    )


def unplanned(plan: dict[str, dict[str, str]], at_topic: dict[str, dict[str, str]]) -> list[str]:
    """Return a line for each setting that somebody gave a topic and that the plan does not name."""
    return [
        f"topic {name} has {key}={value}, which the plan does not name: add it to the topic's settings, or "
        f"take it away (kafka-configs --alter --delete-config {key})"
        for name, found in at_topic.items()
        for key, value in sorted(found.items())
        if key not in plan[name]
    ]


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


def too_many_copies(plan: dict[str, dict[str, str]], changes: dict[str, Any], brokers: int) -> list[str]:
    """Return a line for each topic to be created with more copies than there are brokers."""
    if not brokers:
        return (
            ["the cluster has no broker registered at the moment: see that its brokers run"]
            if changes
            else []
        )
    return [
        f"{name} is to have {plan[name]['replication.factor']} copies, and the cluster has {brokers} "
        f"broker{'s' * (brokers != 1)}: set its replication to {brokers} or less, or add brokers"
        for name, change in changes.items()
        if "create" in change and int(plan[name]["replication.factor"]) > brokers
    ]


def apply(client: Any, changes: dict[str, dict[str, Any]], *, only_ask: bool = False) -> list[str]:
    """Carry out the changes, or ask the cluster if it would; return a line for each that it refuses."""
    answers = {}
    new = []
    for name, change in changes.items():
        if "create" in change:
            values = change["create"]
            own = {k: v for k, v in values.items() if k not in OWN_KEYS}
            copies = int(values["replication.factor"])
            new.append(NewTopic(name, int(values["partitions"]), copies, config=own))
    if new:
        created = client.create_topics(new, operation_timeout=TIMEOUT_SECONDS, validate_only=only_ask)
        answers.update({("created", name): answer for name, answer in created.items()})
    grown = [NewPartitions(name, change["grow"][1]) for name, change in changes.items() if "grow" in change]
    if grown:
        grow = client.create_partitions(grown, operation_timeout=TIMEOUT_SECONDS, validate_only=only_ask)
        answers.update({("given more partitions", name): answer for name, answer in grow.items()})
    altered = []
    for name, change in changes.items():
        entries = [
            ConfigEntry(k, v[1], incremental_operation=AlterConfigOpType.SET)
            for k, v in change.get("set", {}).items()
        ]
        if entries:
            altered.append(ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=entries))
    if altered:
        settings = client.incremental_alter_configs(altered, validate_only=only_ask)
        answers.update({("given its settings", one.name): answer for one, answer in settings.items()})
    refused = []
    for (what, name), answer in answers.items():
        try:
            answer.result(TIMEOUT_SECONDS)
        except KafkaException as error:
            refused.append(f"{name} cannot be {what}: {error.args[0].name()}, {error.args[0].str()}")
    return refused


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec=CLUSTER_ARGUMENTS
        | {
            "topics": {"type": "dict", "required": True},
            "grow": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    plan = wanted(module.params["topics"])
    p = module.params
    try:
        client = admin(p["bootstrap_servers"], client_keys(p))
    except RefusedError as error:
        module.fail_json(msg=with_next_step(error, UNTOUCHED))
    except ConnectionError as error:
        # On a bare fleet the brokers are not there yet, and all topics are to be made.
        if module.check_mode:
            module.warn(f"{error}; on a bare cluster all topics would be created")
            module.exit_json(changed=True, changes={name: {"create": v} for name, v in plan.items()})
        module.fail_json(msg=with_next_step(error, UNTOUCHED))
    try:
        metadata = client.list_topics(timeout=TIMEOUT_SECONDS)
        topics = metadata.topics
        found = {n: len(t.partitions) for n, t in topics.items()}
        copies = {
            n: min(len(p.replicas) for p in t.partitions.values()) for n, t in topics.items() if t.partitions
        }
        running, at_topic = running_settings(client, [name for name in plan if name in found])
        drift = replication_drift(plan, copies) + unplanned(plan, at_topic)
        changes, refused = compare(plan, found, running)
        for name, change in changes.items():
            if "grow" in change and name not in module.params["grow"]:
                old, new = change["grow"]
                refused.append(
                    f"{name} has {old} partitions and the plan says {new}: records of one key would lie in "
                    "two partitions until the old ones expire. Set partitions to "
                    f"{old}, or, if that may be, keys_may_move: true at the topic (keyed: false if its "
                    "records have no key)"
                )
        refused += too_many_copies(plan, changes, len(metadata.brokers))
        refused = refused or apply(client, changes, only_ask=True)
        if refused:
            servers = module.params["bootstrap_servers"]
            wrong = "; ".join(refused)
            module.fail_json(
                msg=f"Refusing to change the topics of {servers}: {wrong}. No topic was changed. Fix that in "
                "kafka_topics, then run deploy.yml again"
            )
        if not module.check_mode and (failed := apply(client, changes)):
            wrong = "; ".join(failed)
            module.fail_json(
                msg=f"{wrong}. Each topic that is not named is as planned. Fix that, then run deploy.yml "
                "again"
            )
    except KafkaException as error:
        unreached = ConnectionError(f"{p['bootstrap_servers']}: {error.args[0].str()}")
        module.fail_json(msg=with_next_step(unreached, "A topic that was changed before is as planned."))
    for line in drift:
        module.warn(line)
    module.exit_json(changed=bool(changes), changes=changes, drift=drift)


if __name__ == "__main__":
    main()
