"""The clients inside a REST proxy: the keys of their profile, and whether their acknowledgements hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sizing.clients.embedded import check_acks, put_profile
from sizing.clients.profiles import PROFILES, default_value
from sizing.core.settings import Sheet
from sizing.keys.catalogue import numbers
from sizing.rest.variables import KafkaRest

#: kafka-rest forces idempotence off, and each consumer instance is told by its maker how it commits.
_SET_BY_PROXIES: Final = frozenset({"enable.idempotence", "enable.auto.commit"})
#: Confluent 8 carries a client of Kafka 4, as Strimzi's bridge 1.0 does.
_MODERN: Final = {"confluent": (8,), "strimzi": (1,), "sandbox": ()}


def client_version(variables: KafkaRest) -> str:
    """Return the version of the Kafka client in a proxy; that of MapR is no client of Kafka's own."""
    return "4.3" if numbers(variables.version) >= _MODERN.get(variables.distribution, (99,)) else "3.9"


def put_client_profile(sheet: Sheet, file: str, prefix: str, variables: KafkaRest) -> None:
    """Put the keys of the clients' profile, where the inventory names one."""
    version = client_version(variables)
    for role in ("producer", "consumer"):
        put_profile(sheet, file, f"{prefix}{role}.", role, variables.profile, version, _SET_BY_PROXIES)


def check_clients(sheet: Sheet, variables: KafkaRest, levels: Mapping[str, Any]) -> None:
    """Find a profile that this build has no keys for, and acknowledgements that the service levels forbid."""
    if variables.distribution == "mapr":
        if variables.profile:
            sheet.warning(
                "rest.profile",
                "kafka_rest_profile has no effect: the clients of the MapR build have keys of their own",
                "take it out",
            )
        return
    prefix = "kafka." if variables.distribution == "strimzi" else ""
    own = variables.settings.get(f"{prefix}producer.acks")
    rows = PROFILES[variables.profile]["producer"] if variables.profile else ()
    of_profile = next((row.value for row in rows if row.key == "acks"), None)
    acks = str(own or of_profile or default_value("java", client_version(variables), "acks"))
    named = f" (kafka_rest_profile {variables.profile})" if variables.profile else ""
    mend = f"use kafka_rest_profile balanced, or {prefix}producer.acks: all in kafka_rest_settings"
    check_acks(sheet, f"the producer of the REST proxy{named}", acks, levels, mend, "rest.clients.acks")
