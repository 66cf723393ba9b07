"""Reads the changelog topics of a Streams application from its cluster."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from confluent_kafka.admin import ConfigResource

from kedge.deploy.kafka_admin import TIMEOUT_SECONDS
from kedge.services.streams.changelogs import Changelog, from_configs, is_changelog


def read_changelogs(client: Any, app: str, apps: Iterable[str]) -> list[Changelog]:
    """Return the changelogs that the cluster has of an application; raises KafkaException."""
    topics = client.list_topics(timeout=TIMEOUT_SECONDS).topics
    asked = [ConfigResource(ConfigResource.Type.TOPIC, t) for t in topics if is_changelog(t, app, apps)]
    answers = client.describe_configs(asked) if asked else {}
    configs = {
        resource.name: {key: entry.value for key, entry in answer.result(TIMEOUT_SECONDS).items()}
        for resource, answer in answers.items()
    }
    return from_configs(configs)
