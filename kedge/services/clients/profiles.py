"""The client profiles as data: each key with its value, reason and price; and what versions do unasked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal

from kedge.keys.catalogue import defaults
from kedge.plan.settings import Basis
from kedge.plan.version_numbers import numbers

Role = Literal["producer", "consumer"]
Library = Literal["java", "librdkafka", "spark"]
Profile = Literal["throughput", "latency", "durability", "balanced"]

GUIDE: Final = "Configure Kafka for High Throughput"
_BATCH: Final = f"{GUIDE}, Batching Messages"
_COMPRESS: Final = f"{GUIDE}, Compression"
_ACKS: Final = f"{GUIDE}, Producer acks for 'Production' Throughput"
_CONSUME: Final = f"{GUIDE}, Batching on Consumer Side"
_FACTS: Final = "Broker, client and JVM facts"
#: linger.ms and batch.size of a profile were measured together, with its compression.
_MEASURED_BATCH: Final = f"{_BATCH}; {_FACTS}, Producers"


@dataclass(frozen=True, slots=True)
class ProfileRow:
    """One key of a profile, by its Java name: ``because`` it helps, at which ``price``."""

    key: str
    value: str
    because: str
    price: str
    source: str
    basis: Basis


_DURABLE: Final = (
    ProfileRow(
        "acks",
        "all",
        "a record is acknowledged once all in-sync replicas have it",
        "an acknowledgement waits for the slowest of them",
        _ACKS,
        "documented",
    ),
    ProfileRow(
        "enable.idempotence",
        "true",
        "a retry neither doubles nor reorders a record",
        "five requests on their way at most",
        _FACTS,
        "documented",
    ),
    ProfileRow(
        "max.in.flight.requests.per.connection",
        "5",
        "the most that keeps order with idempotence",
        "none up to five",
        _FACTS,
        "documented",
    ),
)

_LZ4: Final = ProfileRow(
    "compression.type",
    "lz4",
    "fewer bytes for little CPU",
    "CPU cycles on both sides",
    _COMPRESS,
    "documented",
)

PROFILES: Final[dict[Profile, dict[Role, tuple[ProfileRow, ...]]]] = {
    "throughput": {
        "producer": (
            ProfileRow(
                "acks",
                "1",
                "the leader alone answers, so the next batch goes sooner",
                "a record that was acknowledged is lost when the leader fails before it is copied",
                _ACKS,
                "documented",
            ),
            ProfileRow(
                "enable.idempotence",
                "false",
                "it needs acks=all",
                "a retry can double and reorder records",
                _ACKS,
                "documented",
            ),
            ProfileRow(
                "max.in.flight.requests.per.connection",
                "5",
                "requests wait for the broker side by side",
                "a retry comes after later batches",
                f"{GUIDE}, High throughput per partition",
                "documented",
            ),
            ProfileRow(
                "linger.ms",
                "50",
                "batches have time to fill",
                "up to 50 ms more delay at low load",
                _MEASURED_BATCH,
                "measured",
            ),
            ProfileRow(
                "batch.size",
                "131072",
                "fewer, larger requests, and more to compress",
                "128 KiB for each partition written to",
                _MEASURED_BATCH,
                "measured",
            ),
            _LZ4,
        ),
        "consumer": (
            ProfileRow(
                "fetch.min.bytes",
                "100000",
                "fewer, larger answers",
                "a fetch waits for 100 kB, or fetch.max.wait.ms",
                f"{_CONSUME}; {_FACTS}, Consumers",
                "measured",
            ),
            ProfileRow(
                "fetch.max.wait.ms",
                "500",
                "time for fetch.min.bytes to come together",
                "up to 500 ms more delay at low load",
                _CONSUME,
                "documented",
            ),
            ProfileRow(
                "max.partition.fetch.bytes",
                "1048576",
                "the default: a whole batch of any size fits",
                "1 MiB of memory for each partition read",
                f"{GUIDE}, Consumer application",
                "documented",
            ),
        ),
    },
    "latency": {
        "producer": (
            ProfileRow(
                "acks",
                "all",
                "readers see a record only once all in-sync replicas have it, whatever acks says",
                "the producer's own wait is longer than with acks=1",
                f"{_ACKS}, Trade-offs",
                "documented",
            ),
            _DURABLE[1],
            _DURABLE[2],
            ProfileRow(
                "linger.ms",
                "0",
                "a record goes as soon as the connection is free",
                "small batches: more requests, less throughput",
                _BATCH,
                "documented",
            ),
            ProfileRow(
                "batch.size",
                "16384",
                "the default; batches form only while earlier ones are on their way",
                "less throughput",
                _BATCH,
                "documented",
            ),
            ProfileRow(
                "compression.type",
                "none",
                "no time is spent compressing small batches",
                "more bytes on the network",
                _COMPRESS,
                "documented",
            ),
        ),
        "consumer": (
            ProfileRow(
                "fetch.min.bytes",
                "1",
                "an answer comes with the first record",
                "more requests to the brokers",
                _CONSUME,
                "documented",
            ),
            ProfileRow(
                "fetch.max.wait.ms",
                "100",
                "an empty fetch ends soon",
                "ten empty requests a second",
                _CONSUME,
                "estimate",
            ),
        ),
    },
    "durability": {
        "producer": (
            *_DURABLE,
            ProfileRow(
                "delivery.timeout.ms",
                "300000",
                "a broker may be down for minutes before a record is given up",
                "the application sees a failure later",
                "Kafka documentation, Producer configurations",
                "estimate",
            ),
            ProfileRow(
                "linger.ms", "5", "the default since 4.0", "up to 5 ms more delay", _BATCH, "documented"
            ),
            _LZ4,
        ),
        "consumer": (
            ProfileRow(
                "enable.auto.commit",
                "false",
                "the application commits what it has processed, never more",
                "the application has to commit",
                "Kafka documentation, Consumer configurations",
                "documented",
            ),
            ProfileRow(
                "isolation.level",
                "read_committed",
                "records of aborted transactions are not read",
                "open transactions hold readers back",
                "Kafka documentation, Consumer configurations",
                "documented",
            ),
        ),
    },
    "balanced": {
        "producer": (
            *_DURABLE,
            ProfileRow(
                "linger.ms",
                "10",
                "batches fill at moderate load",
                "up to 10 ms more delay at low load",
                _MEASURED_BATCH,
                "measured",
            ),
            ProfileRow(
                "batch.size",
                "65536",
                "room for what comes within 10 ms",
                "64 KiB for each partition written to",
                _MEASURED_BATCH,
                "measured",
            ),
            _LZ4,
        ),
        "consumer": (
            ProfileRow(
                "fetch.min.bytes",
                "1",
                "the default: an answer comes with the first record",
                "more requests to the brokers at low load",
                _CONSUME,
                "documented",
            ),
            ProfileRow(
                "fetch.max.wait.ms", "500", "the default", "none while records flow", _CONSUME, "documented"
            ),
        ),
    },
}

#: librdkafka's names where they differ.
_LIBRDKAFKA: Final = {
    "buffer.memory": "queue.buffering.max.kbytes",
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "delivery.timeout.ms": "message.timeout.ms",
}

#: Spark's Kafka source and sink carry this client; Spark's own pom.xml.
_SPARK_CLIENTS: Final = (((4, 0), "3.9.0"), ((3, 5), "3.4.1"), ((3, 4), "3.3.2"), ((3, 0), "2.8.1"))
#: Keys that Spark sets by itself and refuses.
_SPARK_OWN: Final = frozenset({"enable.auto.commit", "auto.offset.reset", "group.id", "key.serializer"})

#: Defaults of the Java client; :func:`default_value` knows which of them a version changed.
JAVA_DEFAULTS: Final = {**defaults("consumer", "3.9"), **defaults("producer", "3.9")}
_BEFORE_3: Final = {"acks": "1", "enable.idempotence": "false", "session.timeout.ms": "10000"}
_LIBRDKAFKA_DEFAULTS: Final = {
    "acks": "all",
    "batch.size": "1000000",
    "buffer.memory": str(1024 * 1024),  # KiB
    "compression.type": "none",
    "delivery.timeout.ms": "300000",
    "enable.auto.commit": "true",
    "enable.idempotence": "false",
    "fetch.max.wait.ms": "500",
    "fetch.min.bytes": "1",
    "isolation.level": "read_committed",
    "linger.ms": "5",
    "max.in.flight.requests.per.connection": "1000000",
    "max.partition.fetch.bytes": "1048576",
}


def client_version(library: Library, version: str) -> str:
    """Return the version of the Kafka client: Spark carries one of its own."""
    if library != "spark":
        return version
    return next((client for spark, client in _SPARK_CLIENTS if numbers(version) >= spark), "2.4.0")


def default_value(library: Library, version: str, key: str) -> str | None:
    """Return what a version of a library does when a key (its Java name) is not set; None when unknown."""
    if library == "librdkafka":
        return _LIBRDKAFKA_DEFAULTS.get(key)
    return _java_defaults(client_version(library, version)).get(key)


@cache
def _java_defaults(version: str) -> Mapping[str, str]:
    client = numbers(version)
    older = {} if client >= (3,) else _BEFORE_3
    newer = {} if client < (4,) else {**defaults("consumer", "4.3"), **defaults("producer", "4.3")}
    return {**JAVA_DEFAULTS, **newer, **older}


def key_name(library: Library, key: str) -> str | None:
    """Return a key as a library names it; None when it refuses the key or does not have it."""
    if library == "librdkafka":
        return None if key == "max.poll.records" else _LIBRDKAFKA.get(key, key)
    if library == "spark":
        return None if key in _SPARK_OWN else f"kafka.{key}"
    return key
