#!/usr/bin/python
"""Waits until every partition of a cluster has all its replicas in sync."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kafka_replicas_gate
short_description: Hold a rolling restart of brokers until no partition is under-replicated
description:
  - Waits until all planned brokers are there, and every partition has a leader and all its replicas in sync.
    A broker that is stopped before that takes away a copy that others count on, or the last one.
  - Runs on the control machine.
options:
  bootstrap_servers: {type: str, required: true, description: "Where the cluster answers."}
  client: {type: dict, default: {}, description: "More keys for the client."}
  secrets: {type: dict, default: {}, description: "Keys for the client that are never shown."}
  brokers: {type: int, required: true, description: "How many brokers are planned."}
  seconds: {type: int, required: true, description: "How long to wait."}
author: Kedge
"""

EXAMPLES = r"""
- name: See that no partition lacks a replica before a broker is touched
  kafka_replicas_gate:
    bootstrap_servers: broker1:9092,broker2:9092,broker3:9092
    brokers: 3
    seconds: 600
  delegate_to: localhost
"""

RETURN = r"""
waited_seconds:
  description: How long it took.
  returned: success
  type: float
"""

import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from confluent_kafka import KafkaException

from kedge.deploy.kafka_admin import CLUSTER_ARGUMENTS, TIMEOUT_SECONDS, admin, client_keys

POLL_SECONDS = 0.5


def complaint(metadata: Any, brokers: int) -> str | None:
    """Return why no broker may be stopped now, or None."""
    if len(metadata.brokers) < brokers:
        return f"{len(metadata.brokers)} of {brokers} brokers are there"
    behind = [
        (topic, p.id, len(p.isrs), len(p.replicas), p.leader)
        for topic, found in sorted(metadata.topics.items())
        for p in found.partitions.values()
        if p.leader < 0 or len(p.isrs) < len(p.replicas)
    ]
    if not behind:
        return None
    topic, partition, in_sync, replicas, leader = behind[0]
    said = "no leader" if leader < 0 else f"{in_sync} of {replicas} replicas in sync"
    return f"{len(behind)} partitions are under-replicated, such as {topic}-{partition} with {said}"


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec=CLUSTER_ARGUMENTS
        | {
            "brokers": {"type": "int", "required": True},
            "seconds": {"type": "int", "required": True},
        },
        supports_check_mode=True,
    )
    p = module.params
    began = time.monotonic()
    while True:
        try:
            client = admin(p["bootstrap_servers"], client_keys(p))
            wrong = complaint(client.list_topics(timeout=TIMEOUT_SECONDS), p["brokers"])
        except ConnectionError as error:
            wrong = str(error)
        except KafkaException as error:
            wrong = f"{p['bootstrap_servers']}: {error.args[0].str()}"
        waited = time.monotonic() - began
        if wrong is None:
            module.exit_json(changed=False, waited_seconds=round(waited, 2))
        if waited > p["seconds"]:
            module.fail_json(
                msg=f"The gate between brokers stays closed: after {p['seconds']} s {wrong}. No further "
                "broker was stopped, and those that run serve. Start the broker that is missing, then run "
                "the playbook again"
            )
        time.sleep(POLL_SECONDS)


if __name__ == "__main__":
    main()
