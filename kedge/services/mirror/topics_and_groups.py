"""Which topics a flow copies, to which names, and by which groups: what loads, gates and audits ask."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Any

from kedge.plan.hosts import Inventory
from kedge.services.mirror.variables import mirror_makers


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


def flow_facts(inventory: Inventory) -> dict[str, FlowFacts]:
    """Return every flow of the inventory by its name; what is wrong with them is told by the plan."""
    found = {}
    for of_host in mirror_makers(inventory)[0].values():
        classic = of_host.kind == "classic"
        for name, flow in of_host.flows.items():
            renamed = not classic and flow.replication_policy == "default"
            own = flow.consumer_settings.get("group.id")
            found[name] = FlowFacts(
                source=flow.source,
                target=flow.target,
                topics=tuple(flow.topics),
                prefix=f"{flow.source}." if renamed else "",
                group=str(own or consumer_group(name)) if classic else None,
                workers=None if classic else worker_group(name),
                offsets_topic=None if classic else offsets_topic(name),
            )
    return dict(sorted(found.items()))


def flows_json(inventory: Inventory) -> dict[str, dict[str, Any]]:
    """Return the flows as the plan's JSON has them."""
    return {name: asdict(facts) for name, facts in flow_facts(inventory).items()}
