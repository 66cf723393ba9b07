"""All services, in the order in which messages name them; to add one is a folder, a role and a line here."""

from __future__ import annotations

from typing import Final

from kedge.plan.service import Service
from kedge.services.balancer.service import REST_BALANCER
from kedge.services.broker.service import KAFKA_BROKER
from kedge.services.canary.service import CANARY
from kedge.services.host.service import HOST_TUNING, LOAD_GENERATOR
from kedge.services.mirror.service import MIRROR_MAKER
from kedge.services.rest.service import KAFKA_REST
from kedge.services.streams.service import STREAMS_APP

SERVICES: Final[tuple[Service, ...]] = (
    KAFKA_REST,
    KAFKA_BROKER,
    REST_BALANCER,
    MIRROR_MAKER,
    STREAMS_APP,
    CANARY,
    LOAD_GENERATOR,
    HOST_TUNING,
)
