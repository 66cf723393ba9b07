"""The declared topics, validated."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from sizing.model import Finding, Inventory
from sizing.workload import Positive, Scalar, Strict, read_model


class Topic(Strict):
    """A topic that the deployment declares."""

    name: Annotated[str, Field(pattern=r"^[a-zA-Z0-9._-]{1,249}$")]
    cluster: str
    partitions: Positive | None = None
    replication: Positive | None = None
    settings: dict[str, Scalar] = {}


def topics(inventory: Inventory) -> tuple[list[Topic], list[Finding]]:
    """Read ``kafka_topics``."""
    found: list[Topic] = []
    wrong: list[Finding] = []
    for number, value in enumerate(inventory.common("kafka_topics") or []):
        topic = read_model(Topic, value, f"kafka_topics[{number}].", "all")
        if isinstance(topic, list):
            wrong += topic
        else:
            found.append(topic)
    return found, wrong
