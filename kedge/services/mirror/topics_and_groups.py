"""Which topics a flow copies, to which names, by which groups; and flows that copy the same records."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from kedge.plan.findings import Finding
from kedge.plan.hosts import Inventory
from kedge.plan.inventory.clusters import same_cluster
from kedge.plan.plan import Part
from kedge.plan.settings import Sheet
from kedge.services.mirror.variables import MirrorFlow, MirrorMaker, mirror_makers


@dataclass(frozen=True, slots=True)
class FlowFacts:
    """A flow as a load, a gate or an audit sees it.

    Attributes:
        source, target: clusters.
        topics: patterns, of which one matches a mirrored topic's whole name.
        prefix: what a topic's name begins with on the target.
        group: consumer group on the source that holds the committed offsets; None for MirrorMaker 2.
        workers: group of the MirrorMaker 2 workers on the target; None for classic.
        offsets_topic: topic on the target that holds the offsets of MirrorMaker 2; None for classic.
    """

    source: str
    target: str
    topics: tuple[str, ...]
    prefix: str
    group: str | None
    workers: str | None
    offsets_topic: str | None

    def copy_of(self, topic: str) -> str | None:
        """Return the name of a source topic's copy; None when the flow leaves the topic out."""
        matched = any(re.fullmatch(pattern, topic) for pattern in self.topics)
        return f"{self.prefix}{topic}" if matched else None


def consumer_group(flow: str) -> str:
    """Return the group that the classic processes of a flow share."""
    return f"mirror-maker-{flow}"


def worker_group(flow: str) -> str:
    """Return the group of a flow's MirrorMaker 2 workers."""
    return f"{flow}-mm2"


def offsets_topic(flow: str) -> str:
    """Return the topic in which a flow's MirrorMaker 2 workers keep the source's offsets."""
    return f"mm2-offsets.{flow}.internal"


def target_prefix(kind: str, flow: MirrorFlow) -> str:
    """Return what the names of a flow's topics begin with on the target; '' where they keep their names."""
    return f"{flow.source}." if kind == "mirror_maker_2" and flow.replication_policy == "default" else ""


def flow_facts(inventory: Inventory) -> dict[str, FlowFacts]:
    """Return every flow of the inventory by its name; what is wrong with them is told by the plan."""
    found = {}
    for of_host in mirror_makers(inventory)[0].values():
        classic = of_host.kind == "classic"
        for name, flow in of_host.flows.items():
            own = flow.consumer_settings.get("group.id")
            found[name] = FlowFacts(
                source=flow.source,
                target=flow.target,
                topics=tuple(flow.topics),
                prefix=target_prefix(of_host.kind, flow),
                group=str(own or consumer_group(name)) if classic else None,
                workers=None if classic else worker_group(name),
                offsets_topic=None if classic else offsets_topic(name),
            )
    return dict(sorted(found.items()))


def flows_json(inventory: Inventory) -> dict[str, dict[str, Any]]:
    """Return the flows as the plan's JSON has them."""
    return {name: asdict(facts) for name, facts in flow_facts(inventory).items()}


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
            renamed = any(target_prefix(role.kind, one) for one in (flow, back))
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
