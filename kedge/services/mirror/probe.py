"""When a mirror counts as ready: the probe that its host runs, and the gate after a restart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kedge.plan.document import planned_value, reached
from kedge.services.mirror.flow import flow_of


def mirror_probe(instance: Mapping[str, Any]) -> dict[str, Any]:
    """Return the probe of a mirror: it has its partitions, and the target has acknowledged what it read."""
    exactly_once = any(s["key"].endswith("exactly.once.source.support") for s in instance["settings"])
    if any(s["key"] == "MIRROR_INCLUDE" for s in instance["settings"]):
        steps = [
            ["has partitions assigned", "Adding newly assigned partitions"],
            ["commits what the target has acknowledged", r"Committing offsets\."],
        ]
    else:
        task = r"MirrorSourceConnector-\d+\} "
        steps = [["runs a task", f"{task}Source task finished initialization and start"]]
        # A task that waits for the target says 0; one with nothing to copy says so. Transactions say neither.
        acknowledged = rf"{task}(Committing offsets for [1-9]|Either no records were produced)"
        steps += [] if exactly_once else [["commits what the target has acknowledged", acknowledged]]
    return {"kind": "journal", "steps": steps}


def mirror_gate(
    instance: Mapping[str, Any], plan: Mapping[str, Any], secrets: Mapping[str, Mapping[str, str]]
) -> dict[str, Any]:
    """Return the gate of a mirror's restart: its flow's group, or where MirrorMaker 2 keeps its offsets.

    ``secrets`` are those of the kit's own clients, by cluster.
    """
    flow = flow_of(instance["name"])
    facts = plan["flows"][flow]
    gate: dict[str, Any] = {**reached(plan, facts["source"]), "secrets": secrets[facts["source"]]}
    if facts["group"]:
        committed = planned_value(instance, "MIRROR_OFFSET_COMMIT_INTERVAL_MS")
        return gate | {"groups": [facts["group"]], "commit_ms": int(committed)}
    where = reached(plan, facts["target"])
    positions = {"flow": flow, "topic": facts["offsets_topic"], "topics": facts["topics"], **where}
    gate["positions_secrets"] = secrets[facts["target"]]
    committed = planned_value(instance, f"{facts['target']}.offset.flush.interval.ms")
    return gate | {"positions": positions, "commit_ms": int(committed)}
