"""Documents the action of this name, which runs on the control machine."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kafka_group_gate
short_description: Hold a rolling restart until groups are stable and their lag is back
description:
  - Waits until every group of the cluster (or those named) is stable or empty, in several looks in a row.
  - With C(baseline) it also waits until the lag of each is at most C(max_lag), or twice what it was before,
    whichever is more; lag breathes with the commits, so a baseline is the most seen in C(baseline_ms).
    Partitions that had records left have to see a commit, if they saw two in the first 12 s of the playbook
    (with C(baseline_ms), one in so long).
  - Runs on the control machine, where a process keeps one connection and looks for as long as the playbook
    runs. Answers with the lags, to serve as the next baseline.
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
  baseline_ms:
    type: int
    description: "How long groups are stable for a baseline: an interval of their commits, if known, or 2 s."
  max_lag: {type: int, default: 0, description: "Lag in records that is always good enough."}
  seconds: {type: int, default: 120, description: "How long to wait."}
  hold: {type: int, description: "For how many seconds groups have to stay so, instead of becoming so."}
  members: {type: bool, default: false, description: "Answer with the members of all groups too."}
  sample: {type: bool, default: false, description: "Take one sample, and wait for nothing."}
  service: {type: str, description: "Name of the service in the evidence."}
  instance: {type: str, description: "Name of the instance in the evidence."}
author: Kedge
"""

EXAMPLES = r"""
- name: See the groups stable before the restart
  kafka_group_gate:
    bootstrap_servers: leaf1.example.net:9092
    seconds: 120
  register: before

- name: See the groups stable again and their lag back
  kafka_group_gate:
    bootstrap_servers: leaf1.example.net:9092
    baseline: "{{ before.lags }}"
    max_lag: 10000
    seconds: 120
"""

RETURN = r"""
lags:
  description: Group to its lag in records.
  returned: success
  type: dict
members:
  description: Group and name (the client id) of each member.
  returned: with C(members), on success
  type: list
  elements: dict
"""
