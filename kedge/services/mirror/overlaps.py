"""Flows that copy the same records: in a circle, or twice."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from kedge.plan.findings import Finding
from kedge.plan.inventory.clusters import same_cluster
from kedge.plan.plan import Part
from kedge.plan.settings import Sheet
from kedge.services.mirror.variables import MirrorFlow, MirrorMaker


def check_overlaps(
    role: MirrorMaker,
    flows: Mapping[str, MirrorFlow],
    topics: Part,
    addresses: Mapping[str, tuple[str, str]],
) -> list[Finding]:
    """Find two flows of which one brings records back, or that copy the same ones."""
    sheet = Sheet("mirror_maker", "measured", {})
    for name, flow in flows.items():
        variable = f"mirror_maker_flows.{name}"
        for other, back in flows.items():
            loops = flow.source == back.target and flow.target == back.source and name < other
            renamed = role.kind == "mirror_maker_2" and "default" in (
                flow.replication_policy,
                back.replication_policy,
            )
            shared = _shared(flow, back, topics.topics.get(flow.source, {}))
            if loops and shared and not renamed:
                sheet.error(
                    "mirror.loop",
                    f"{variable}.topics and mirror_maker_flows.{other}.topics both match {shared[0]}, in "
                    "opposite directions: records would go round for ever",
                    "mirror it one way, or with MirrorMaker 2 and replication_policy default",
                )
            named = [(flow.source, back.source), (flow.target, back.target)]
            same = all(
                one == two or same_cluster(here, there)
                for (one, two), here, there in zip(named, addresses[name], addresses[other], strict=True)
            )
            # MirrorMaker 2 puts the source's name before a topic's: another name makes another topic.
            renames = renamed and flow.source != back.source
            policy = flow.replication_policy == back.replication_policy
            if name < other and same and shared and policy and not renames:
                brokers = "".join(
                    f"; {one} and {two} have a broker in common" for one, two in named if one != two
                )
                sheet.error(
                    "mirror.twice",
                    f"{variable}.topics and mirror_maker_flows.{other}.topics both match {shared[0]}, from "
                    f"{flow.source} to {flow.target}: every record would be copied twice{brokers}",
                    "take it out of one of the two",
                )
    return sheet.findings


def _shared(flow: MirrorFlow, other: MirrorFlow, declared: Iterable[str]) -> list[str]:
    """Return what two flows both copy: patterns that they share, and topics that a pattern of each matches.

    A topic is one that is declared, or a pattern that is a plain name.
    """
    patterns = [[re.compile(topic) for topic in one.topics] for one in (flow, other)]
    plain = {topic for one in (flow, other) for topic in one.topics if re.fullmatch(r"[\w-]+", topic)}
    both = {t for t in {*declared, *plain} if all(any(p.fullmatch(t) for p in of) for of in patterns)}
    return sorted(set(flow.topics) & set(other.topics)) or sorted(both)
