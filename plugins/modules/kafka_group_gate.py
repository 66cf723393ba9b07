#!/usr/bin/python
"""Waits until the consumer groups of a cluster are stable and have caught up."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kafka_group_gate
short_description: Hold a rolling restart until groups are stable and their lag is back
description:
  - Waits until every group of the cluster (or those named) is stable or empty, in several looks in a row.
  - With C(baseline) it also waits until the lag of each is at most C(max_lag), or twice what it was before,
    whichever is more; lag breathes with the commits, so a baseline is the most seen in C(baseline_ms).
  - Runs on the control machine. Answers with the lags, to serve as the next baseline.
options:
  bootstrap_servers: {type: str, required: true, description: "Where the cluster answers."}
  client: {type: dict, default: {}, description: "More keys for the client."}
  secrets: {type: dict, default: {}, description: "Keys for the client that are never shown."}
  groups: {type: list, elements: str, default: [], description: "The groups; all with members by default."}
  positions:
    type: dict
    description:
      - A flow of MirrorMaker 2 in the groups' place. It commits to no group of the source cluster, where
        C(bootstrap_servers) answers.
      - C(flow), C(topics) (patterns), and C(topic) on C(bootstrap_servers) with C(client), for its offsets.
  positions_secrets: {type: dict, default: {}, description: "More keys for C(positions); never shown."}
  baseline: {type: dict, description: "Group to lag in records, before the restart."}
  baseline_ms: {type: int, default: 2000, description: "How long a baseline is watched: a commit at least."}
  max_lag: {type: int, default: 0, description: "Lag in records that is always good enough."}
  seconds: {type: int, default: 120, description: "How long to wait."}
author: Kedge
"""

EXAMPLES = r"""
- name: See the groups stable before the restart
  kafka_group_gate:
    bootstrap_servers: leaf1.example.net:9092
    seconds: 120
  delegate_to: localhost
  register: before

- name: See the groups stable again and their lag back
  kafka_group_gate:
    bootstrap_servers: leaf1.example.net:9092
    baseline: "{{ before.lags }}"
    max_lag: 10000
    seconds: 120
  delegate_to: localhost
"""

RETURN = r"""
lags:
  description: Group to its lag in records.
  returned: success
  type: dict
"""

import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec

from control.kafka_admin import CLUSTER_ARGUMENTS, TIMEOUT_SECONDS, admin, client_keys
from control.mirror_positions import mirror_lag, read_positions

POLL_SECONDS = 0.2
LOOKS_IN_A_ROW = 3
#: Baselines breathe with the fetches in flight; twice as much is still the same lag.
BASELINE_FACTOR = 2


def look(client: Any, names: list[str]) -> tuple[dict[str, str], dict[str, int]]:
    """Return the state and the lag in records of each group that has members, or is named."""
    listed = client.list_consumer_groups().result(TIMEOUT_SECONDS)
    if listed.errors:
        raise listed.errors[0]
    groups = names or [g.group_id for g in listed.valid]
    states = {}
    described = client.describe_consumer_groups(groups) if groups else {}
    for name, answer in described.items():
        group = answer.result(TIMEOUT_SECONDS)
        if group.members or name in names:
            states[name] = group.state.name
    return states, {name: lag(client, name) for name in states}


def lag(client: Any, group: str) -> int:
    """Return how many records lie behind the committed offsets of a group."""
    wish = [ConsumerGroupTopicPartitions(group)]
    (answer,) = client.list_consumer_group_offsets(wish).values()
    committed = {(p.topic, p.partition): p.offset for p in answer.result(TIMEOUT_SECONDS).topic_partitions}
    wish_ends = {TopicPartition(t, p): OffsetSpec.latest() for t, p in committed}
    if not wish_ends:
        return 0
    ends = client.list_offsets(wish_ends)
    return sum(
        max(0, end.result(TIMEOUT_SECONDS).offset - max(0, committed[tp.topic, tp.partition]))
        for tp, end in ends.items()
    )


def look_at_flow(
    client: Any, flow: dict[str, Any], secrets: dict[str, str]
) -> tuple[dict[str, str], dict[str, int]]:
    """Return the lag of a MirrorMaker 2 flow, in the form in which groups have theirs; it has no state."""
    where = {"bootstrap.servers": flow["bootstrap_servers"], **flow.get("client", {}), **secrets}
    positions = read_positions(where, flow["topic"])
    return {flow["flow"]: "STABLE"}, {
        flow["flow"]: mirror_lag(client, positions, flow["topics"], TIMEOUT_SECONDS)
    }


def complaint(
    states: dict[str, str], lags: dict[str, int], baseline: dict[str, Any] | None, max_lag: int
) -> str | None:
    """Return why the gate stays closed, or None."""
    for group, state in sorted(states.items()):
        if state not in ("STABLE", "EMPTY"):
            return f"group {group} is {state}"
    if baseline is None:
        return None
    for group in sorted(baseline.keys() - states.keys()):
        return f"group {group} had members before and has none now"
    for group, behind in sorted(lags.items()):
        allowed = max(max_lag, BASELINE_FACTOR * int(baseline.get(group, 0)))
        if behind > allowed:
            return f"group {group} is {behind} records behind, {allowed} are allowed"
    return None


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec=CLUSTER_ARGUMENTS
        | {
            "groups": {"type": "list", "elements": "str", "default": []},
            "positions": {"type": "dict"},
            "positions_secrets": {"type": "dict", "default": {}, "no_log": True},
            "baseline": {"type": "dict"},
            "baseline_ms": {"type": "int", "default": 2000},
            "max_lag": {"type": "int", "default": 0},
            "seconds": {"type": "int", "default": 120},
        },
        supports_check_mode=True,
    )
    p = module.params
    began = time.monotonic()
    good_since = began
    seen: list[dict[str, int]] = []
    try:
        client = admin(p["bootstrap_servers"], client_keys(p))
        while True:
            states, lags = (
                look_at_flow(client, p["positions"], p["positions_secrets"])
                if p["positions"]
                else look(client, p["groups"])
            )
            now = time.monotonic()
            if wrong := complaint(states, lags, p["baseline"], p["max_lag"]):
                seen, good_since = [], now
                if now - began > p["seconds"]:
                    module.fail_json(msg=f"after {p['seconds']} s {wrong}", lags=lags)
            else:
                seen.append(lags)
            watched = p["baseline"] is not None or now - good_since >= p["baseline_ms"] / 1000
            if watched and len(seen) >= LOOKS_IN_A_ROW:
                break
            time.sleep(POLL_SECONDS)
    except ConnectionError as error:
        module.fail_json(msg=str(error))
    except KafkaException as error:
        module.fail_json(msg=f"{p['bootstrap_servers']}: {error.args[0].str()}")
    lags = {group: max(one.get(group, 0) for one in seen) for one in seen for group in one}
    module.exit_json(changed=False, lags=lags, waited_seconds=round(time.monotonic() - began, 2))


if __name__ == "__main__":
    main()
