"""All services, in the order in which messages name them; to add one is a folder, a role and a line here."""

from __future__ import annotations

from typing import Final

from sizing.balancer.service import REST_BALANCER
from sizing.broker.service import KAFKA_BROKER
from sizing.core.service import Service
from sizing.host.service import HOST_TUNING, LOAD_GENERATOR
from sizing.mirror.service import MIRROR_MAKER
from sizing.rest.service import KAFKA_REST
from sizing.streams.service import STREAMS_APP

SERVICES: Final[tuple[Service, ...]] = (
    KAFKA_REST,
    KAFKA_BROKER,
    REST_BALANCER,
    MIRROR_MAKER,
    STREAMS_APP,
    LOAD_GENERATOR,
    HOST_TUNING,
)
