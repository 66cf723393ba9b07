#!/usr/bin/python
"""Has a flow begin at the positions of the mirror that it takes over from."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kafka_mirror_positions
short_description: Take over the committed positions of a mirror
description:
  - Reads how far a mirror has come, of a classic one in its consumer group, of a MirrorMaker 2 in its offsets
    topic, and commits that for the flow's own group. The group of the mirror is not touched.
  - A position that the flow has already stays if it is the later one.
  - Runs on the control machine. In check mode it only looks, and answers with what is C(refused).
options:
  bootstrap_servers: {type: str, required: true, description: "Where the source answers."}
  client: {type: dict, default: {}, description: "More keys for the client."}
  secrets: {type: dict, default: {}, description: "Keys for the client that are never shown."}
  flow: {type: str, required: true, description: "The flow that takes over."}
  topics:
    type: list
    elements: str
    required: true
    description: "Its patterns, of which one matches a topic's whole name."
  beside:
    type: list
    elements: str
    default: []
    description: Patterns of other flows that take over from the same mirror.
  group: {type: str, default: "", description: "Of a classic mirror: its consumer group."}
  offsets_topic: {type: str, default: "", description: "Of MirrorMaker 2: the topic with its positions."}
  alias: {type: str, default: "", description: "Of MirrorMaker 2: what it calls the source."}
  target: {type: dict, default: {}, description: "Bootstrap_servers and client of the target."}
  target_secrets: {type: dict, default: {}, description: "As secrets, for the target."}
  own_offsets: {type: str, default: "", description: "The same of the flow itself."}
  offset_reset: {type: str, default: "", description: "Where the mirror begins without a position."}
  leave_out: {type: list, elements: str, default: [], description: "Topics that are not mirrored any more."}
  into: {type: str, required: true, description: "Group on the source at whose positions the flow begins."}
  stopped:
    type: bool
    default: false
    description: "Whether the mirror was stopped: then no member of its group may be left."
  seconds: {type: int, default: 120, description: "How long the members of a group that stopped may stay."}
author: Kedge
"""

EXAMPLES = r"""
- name: Take over the positions of a mirror that was stopped
  kafka_mirror_positions:
    bootstrap_servers: leaf1:9092
    flow: metrics
    topics: ["metrics[.].*"]
    group: their-mirror
    into: mirror-maker-metrics
    stopped: true
  delegate_to: localhost
"""

RETURN = r"""
refused:
  description: Why the flow must not take over; empty if it may.
  returned: success
  type: str
positions:
  description: How many partitions have a position.
  returned: success
  type: int
behind:
  description: How many records lie behind them.
  returned: success
  type: int
"""

import re
import time
from collections.abc import Iterator
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition

from kedge.deploy.kafka_admin import CLUSTER_ARGUMENTS, TIMEOUT_SECONDS, admin, client_keys, with_next_step
from kedge.deploy.mirror_positions import Positions, Taken, bounds, read_positions, refusal, taken
from kedge.evidence.border.cluster import member

POLL_SECONDS = 0.5
HOLDS = "No position was changed."
OPTIONS: dict[str, dict[str, Any]] = {
    "flow": {"type": "str", "required": True},
    "topics": {"type": "list", "elements": "str", "required": True},
    "beside": {"type": "list", "elements": "str", "default": []},
    "group": {"type": "str", "default": ""},
    "offsets_topic": {"type": "str", "default": ""},
    "alias": {"type": "str", "default": ""},
    "target": {"type": "dict", "default": {}},
    "target_secrets": {"type": "dict", "default": {}, "no_log": True},
    "own_offsets": {"type": "str", "default": ""},
    "offset_reset": {"type": "str", "default": ""},
    "leave_out": {"type": "list", "elements": "str", "default": []},
    "into": {"type": "str", "required": True},
    "stopped": {"type": "bool", "default": False},
    "seconds": {"type": "int", "default": 120},
}


def committed(client: Any, group: str) -> Positions:
    """Return the committed offsets of a group; none if there is no such group."""
    (answer,) = client.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    found = answer.result(TIMEOUT_SECONDS).topic_partitions
    return {(p.topic, p.partition): p.offset for p in found if p.offset >= 0}


def members(client: Any, group: str) -> list[str]:
    """Return the members of a group, as CLIENT on HOST."""
    try:
        described = client.describe_consumer_groups([group])[group].result(TIMEOUT_SECONDS)
    except KafkaException as error:
        if error.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND:
            return []
        raise
    return [member(each.client_id, each.host) for each in described.members]


def left(client: Any, groups: list[str], seconds: float, flow: str) -> str:
    """Wait until groups have no members; return which have some still, or nothing."""
    deadline = time.monotonic() + seconds
    while True:
        found = {group: has for group in groups if (has := members(client, group))}
        if not found or time.monotonic() > deadline:
            said = (f"group {group} still has {', '.join(has)}" for group, has in found.items())
            where = f"mirror_maker_adopt.{flow}.processes"
            return f"{'; '.join(said)}: stop it, or name its process in {where}" if found else ""
        time.sleep(POLL_SECONDS)


class Mirror:
    """A mirror, its flow, and the clusters between which they copy."""

    def __init__(self, params: dict[str, Any]) -> None:
        self.params = params
        self.source = admin(params["bootstrap_servers"], client_keys(params))
        self.where = (params["target"].get("client") or {}) | params["target_secrets"]
        self.servers = params["target"].get("bootstrap_servers", "")
        self.whose = (
            f"topic {params['offsets_topic']}" if params["offsets_topic"] else f"group {params['group']}"
        )

    def read(self, topic: str, source: str) -> Positions:
        """Return the positions in a topic of MirrorMaker 2; of one source, if it is named."""
        return read_positions({"bootstrap.servers": self.servers, **self.where}, topic, source)

    def theirs(self) -> Positions:
        """Return how far the mirror has come."""
        if self.params["offsets_topic"]:
            return self.read(self.params["offsets_topic"], self.params["alias"])
        return committed(self.source, self.params["group"])

    def refused(self, theirs: Positions) -> Iterator[str]:
        """Yield why nothing can be taken over, whatever the positions are."""
        p = self.params
        if theirs:
            return
        # The second look is of a mirror that has just committed for the first time.
        if p["offsets_topic"] and self.read(p["offsets_topic"], "") and not self.theirs():
            yield (
                f"topic {p['offsets_topic']} has positions of other clusters than {p['alias']}: give the "
                f"source of flow {p['flow']} the name that the mirror has for it, in kafka_clusters"
            )
            return
        name = "offsets_topic" if p["offsets_topic"] else "group"
        yield (
            f"{self.whose} has no committed position: correct mirror_maker_adopt.{p['flow']}.{name}, or take "
            "the entry out if nothing is to be taken over any more"
        )

    def at(self, theirs: Positions) -> Taken:
        """Return where the flow begins."""
        p = self.params
        partitions = bounds(self.source, p["topics"], TIMEOUT_SECONDS)
        beside = [re.compile(pattern) for pattern in p["beside"]]
        topics = self.source.list_topics(timeout=TIMEOUT_SECONDS).topics
        there = [topic for topic in topics if not any(each.fullmatch(topic) for each in beside)]
        ours = committed(self.source, p["into"])
        return taken(theirs, ours, partitions, there, p["offset_reset"], p["leave_out"])

    def hidden(self, begin: Positions) -> str:
        """Return what of MirrorMaker 2's own topic would count before the positions; nothing if none does."""
        if not (topic := self.params["own_offsets"]):
            return ""
        own = self.read(topic, "")
        if not any(own.get(at, position) < position for at, position in begin.items()):
            return ""
        return (
            f"topic {topic} of {self.servers} has earlier positions of flow {self.params['flow']}, of a take "
            "over that failed, and they would count: delete the topic, which no process uses now"
        )

    def groups(self) -> list[str]:
        """Return the groups that must have no members: the flow's, and the mirror's if it was stopped."""
        p = self.params
        return [p["into"], *([p["group"]] if p["stopped"] and p["group"] else [])]

    def commit(self, begin: Positions) -> bool:
        """Commit positions for the flow; return whether any changed."""
        new = set(begin.items()) - set(committed(self.source, self.params["into"]).items())
        if new:
            offsets = [TopicPartition(topic, number, offset) for (topic, number), offset in sorted(new)]
            wish = [ConsumerGroupTopicPartitions(self.params["into"], offsets)]
            (answer,) = self.source.alter_consumer_group_offsets(wish).values()
            for each in answer.result(TIMEOUT_SECONDS).topic_partitions:
                if each.error is not None:
                    raise KafkaException(each.error)
            if missing := set(begin.items()) - set(committed(self.source, self.params["into"]).items()):
                message = f"{self.params['bootstrap_servers']} did not keep {len(missing)} positions"
                raise ConnectionError(message)
        return bool(new)


def take(module: AnsibleModule) -> dict[str, Any]:
    """Look, and take over unless that is refused; return what the module answers."""
    mirror = Mirror(module.params)
    wrong = (
        ""
        if module.check_mode
        else left(mirror.source, mirror.groups(), module.params["seconds"], module.params["flow"])
    )
    theirs = mirror.theirs()
    begin = mirror.at(theirs)
    flow = module.params["flow"]
    wrong = wrong or next(mirror.refused(theirs), "") or refusal(begin, flow, mirror.whose)
    wrong = wrong or mirror.hidden(begin.positions)
    if wrong and not module.check_mode:
        module.fail_json(msg=f"{wrong}. {HOLDS} Fix that, then run the playbook again")
    changed = not wrong and not module.check_mode and mirror.commit(begin.positions)
    return {"changed": changed, "refused": wrong, "positions": len(begin.positions), "behind": begin.behind}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=CLUSTER_ARGUMENTS | OPTIONS, supports_check_mode=True)
    try:
        answer = take(module)
    except ConnectionError as error:
        module.fail_json(msg=with_next_step(error, HOLDS))
    except KafkaException as error:
        failed = ConnectionError(f"{module.params['bootstrap_servers']}: {error.args[0].str()}")
        module.fail_json(msg=with_next_step(failed, HOLDS))
    module.exit_json(**answer)


if __name__ == "__main__":
    main()
