"""The clients inside a REST proxy: the keys of their profile, and whether their acknowledgements hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kedge.plan.jvm_flags import check_flags
from kedge.plan.settings import Sheet
from kedge.plan.values import int_or_none
from kedge.services.clients.client_checks import check_acks, check_consumer, check_producer
from kedge.services.clients.profile_settings import put_profile
from kedge.services.clients.profiles import PROFILES, default_value
from kedge.services.rest.distribution import Distribution, RestProcess
from kedge.services.rest.variables import KafkaRest

#: kafka-rest forces idempotence off, and each consumer instance is told by its maker how it commits.
_SET_BY_PROXIES: Final = frozenset({"enable.idempotence", "enable.auto.commit"})
_FORCED: Final = {"enable.idempotence": "false"}


def put_client_profile(sheet: Sheet, file: str, process: RestProcess) -> None:
    """Put the keys of the clients' profile, where the inventory names one and the clients are Kafka's own."""
    distribution, variables = process.distribution, process.variables
    if distribution.clients is None:
        return
    version, prefix = distribution.clients(variables.version), distribution.keys.prefix
    for role in ("producer", "consumer"):
        put_profile(sheet, file, f"{prefix}{role}.", role, variables.profile, version, _SET_BY_PROXIES)


def check_start(sheet: Sheet, process: RestProcess) -> None:
    """Find what the JVM or the clients inside would not start with, once all keys are put."""
    distribution = process.distribution
    java = distribution.java(process.variables.version)
    if distribution.jvm and java:
        what = f"{distribution.title} {process.variables.version}"
        check_flags(sheet, distribution.jvm.options, java.least, process.java, what)
    if distribution.clients is not None:
        version = distribution.clients(process.variables.version)
        prefix = distribution.keys.prefix
        shared = tuple(f"{prefix}{begin}" for begin in distribution.keys.shared)
        # Neither makes its producer before a request asks for it.
        late = "each produce request fails"
        forced = {} if prefix else _FORCED
        check_producer(sheet, "the proxy", f"{prefix}producer.", version, late, shared=shared, forced=forced)
        check_consumer(sheet, "the proxy", f"{prefix}consumer.", version, *shared)


def check_clients(
    sheet: Sheet, distribution: Distribution, variables: KafkaRest, levels: Mapping[str, Any]
) -> None:
    """Find a profile that this build has no keys for, and acknowledgements that the service levels forbid."""
    if distribution.clients is None:
        if variables.profile:
            sheet.warning(
                "rest.profile",
                f"kafka_rest_profile has no effect: the clients of {distribution.title} have keys of their "
                "own",
                "take it out",
                variable="kafka_rest_profile",
            )
        return
    prefix = distribution.keys.prefix
    key = f"{prefix}producer.acks"
    own = variables.settings.get(key)
    rows = PROFILES[variables.profile]["producer"] if variables.profile else ()
    of_profile = next((row.value for row in rows if row.key == "acks"), None)
    acks = str(own or of_profile or default_value("java", distribution.clients(variables.version), "acks"))
    named = f" (kafka_rest_profile {variables.profile})" if variables.profile else ""
    in_files = f"write {key}: all"
    mend = sheet.either(f"use kafka_rest_profile balanced, or {key}: all in {sheet.variable}", in_files)
    what = f"the producer of the REST proxy{named}"
    check_acks(sheet, what, acks, levels, mend, "rest.clients.acks", key=key)
    begins = (f"{prefix}producer.", *(f"{prefix}{one}" for one in distribution.keys.shared if prefix or one))
    tries = next((name for one in begins if (name := f"{one}retries") in variables.settings), "")
    if acks != "0" and tries and int_or_none(variables.settings[tries]) == 0:
        sheet.warning(
            "rest.producer.retries",
            f"{tries} is 0: a record whose partition's leader has just moved is an error for its client",
            f"take {tries}{sheet.out}: the producer tries again until delivery.timeout.ms",
            tries,
        )
