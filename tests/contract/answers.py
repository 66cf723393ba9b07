"""What each distribution answers where they differ; what all of them answer stands in the tests themselves.

A client that shall serve all of them must not rely on anything that is a field here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kedge.evidence.rest_dialect import Dialect
from kedge.services.rest.distributions.strimzi import STRIMZI


@dataclass(frozen=True)
class Answers:
    """One distribution. Answers that are errors are (status, error_code); the defaults are kafka-rest's."""

    #: How clients speak with it, by its own record.
    spoken: Dialect = field(default_factory=Dialect)
    #: What stands before a key of the Kafka clients inside, and the keys of the proxy itself.
    prefix: str = ""
    keys: Mapping[str, str] = field(
        # Without fetch.min.bytes each read takes its whole time-out.
        default_factory=lambda: {"id": "{name}", "host.name": "127.0.0.1", "fetch.min.bytes": "1"}
    )
    root: Mapping[str, Any] = field(default_factory=dict)

    unknown_topic: tuple[int, int] = (404, 40403)
    unknown_instance: tuple[int, int] = (404, 40403)
    taken_name: tuple[int, int] = (409, 40902)
    other_format: tuple[int, int] = (406, 40601)
    other_type: int = 415
    #: Of the malformed requests to produce, those that are answered 200 all the same.
    takes_malformed: frozenset[str] = frozenset()

    #: Whether the cluster is shown, by /brokers and /v3/clusters.
    shows_cluster: bool = True
    #: Whether instances tell their partitions and their commits; else a subscription tells the partitions.
    tells_assignments: bool = True
    #: Whether each entry of a produce answer has all keys, null where they say nothing.
    full_entries: bool = True
    #: Whether a JSON value may be a number.
    json_numbers: bool = True
    #: What a null value in the binary format becomes.
    null_becomes: bytes | None = None

    def properties(self, servers: str, name: str) -> dict[str, str]:
        """Return the file of a proxy with that name."""
        return {
            f"{self.prefix}bootstrap.servers": servers,
            # A topic that does not exist is waited for this long.
            f"{self.prefix}producer.max.block.ms": "2000",
            **{key: value.format(name=name) for key, value in self.keys.items()},
        }


_KAFKA_REST: Final = Answers()
ANSWERS: Final[Mapping[str, Answers]] = {
    "sandbox": _KAFKA_REST,
    "confluent": _KAFKA_REST,
    "strimzi": Answers(
        spoken=STRIMZI.dialect,
        prefix="kafka.",
        keys={"bridge.id": "{name}"},
        # A bridge that its own project built has its version there.
        root={"bridge_version": "null"},
        unknown_topic=(404, 404),
        unknown_instance=(404, 404),
        taken_name=(409, 409),
        other_format=(406, 406),
        other_type=400,
        takes_malformed=frozenset({"no record", "not base64"}),
        shows_cluster=False,
        tells_assignments=False,
        full_entries=False,
        json_numbers=False,
        # The word null, read as base64.
        null_becomes=b"\x9e\xe9\x65",
    ),
}
