"""The variables of the role streams_app, validated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import Field, PositiveFloat

from sizing.core.findings import Finding
from sizing.core.inventory import Inventory
from sizing.core.messages import wrong_variable
from sizing.core.variables import Count, Positive, Scalar, Strict, Version, role_variables
from sizing.keys.catalogue import Component, takes
from sizing.keys.values import check_names, check_values

ROLE = "streams_app"
#: Variables that the role reads and no rule does.
OF_ROLE: Final = frozenset({"streams_app_cache", "streams_app_jemalloc_packages"})
#: What reads the keys of an application beside Streams itself.
BESIDE: Final[tuple[Component, ...]] = ("consumer", "producer", "admin")
_PREFIXES: Final[tuple[tuple[str, Component], ...]] = (
    ("main.consumer.", "consumer"),
    ("restore.consumer.", "consumer"),
    ("global.consumer.", "consumer"),
    ("consumer.", "consumer"),
    ("producer.", "producer"),
    ("admin.", "admin"),
    ("topic.", "topic"),
)
Kind = Literal["windowed", "session", "join", "key_value"]


class Store(Strict):
    """State that an application keeps: ``count`` stores of one kind, or ``count`` windowed joins.

    ``window_ms`` is the size of the window (of a session its gap, of a join the difference each way).
    ``records_per_s`` and ``record_bytes`` are what all partitions of one store take together.
    """

    name: Annotated[str, Field(min_length=1)]
    kind: Kind = "windowed"
    count: Positive = 1
    partitions: Positive
    window_ms: Positive | None = None
    grace_ms: Annotated[int, Field(ge=0)] = 0
    changelog: bool = True
    records_per_s: PositiveFloat | None = None
    record_bytes: Positive | None = None
    keys: Positive | None = None

    @property
    def retention_ms(self) -> int:
        """How long a window is kept: its size and grace; a join keeps both sides of it. 0 without windows."""
        if self.kind == "key_value" or self.window_ms is None:
            return 0
        return self.window_ms * (2 if self.kind == "join" else 1) + self.grace_ms


class Jar(Strict):
    """A jar of the application on the control machine, and the SHA-256 that it must have."""

    path: Annotated[str, Field(pattern=r"^.+\.jar$")]
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None


class Delivery(Strict):
    """What the application makes of a record, for the audit of verify.yml.

    ``per_record`` is how many outputs with the record's own value each record of ``input`` leads to, each
    under a key of its own.
    """

    input: str
    output: str
    per_record: Positive = 1


RocksDbKey = Literal[
    "write.buffer.bytes", "write.buffer.count", "high.priority.ratio", "compaction.style", "compression"
]


#: What RocksDB's Java classes CompactionStyle and CompressionType have, as Kafka Streams can use it.
_STYLES: Final = ("LEVEL", "UNIVERSAL", "FIFO")
_COMPRESSIONS: Final = (
    "NO_COMPRESSION",
    "SNAPPY_COMPRESSION",
    "ZLIB_COMPRESSION",
    "LZ4_COMPRESSION",
    "LZ4HC_COMPRESSION",
    "ZSTD_COMPRESSION",
)


class StreamsApp(Strict):
    """The variables of the role streams_app.

    ``memory_mib`` limits an instance as a whole, ``rocksdb_mib`` the stores' part of it. ``jars`` with the
    jars of ``lock`` are the class path, on which ``main_class`` is started with ``arguments``.
    """

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,60}$")]
    main_class: Annotated[str, Field(pattern=r"^[A-Za-z_$][\w$]*(\.[A-Za-z_$][\w$]*)*$")]
    jars: Annotated[list[Jar], Field(min_length=1)]
    lock: str | None = None
    arguments: list[str] = Field(default_factory=lambda: ["/etc/streams-app/%i/streams.properties"])
    delivery: Delivery | None = None
    version: Version
    cluster: str
    stores: list[Store] = Field(default_factory=list)
    instances_per_host: Positive = 1
    threads: Positive | None = None
    record_bytes: Positive = 1000
    latency_ms: Positive = 1000
    output_partitions: Annotated[int, Field(ge=0)] = 0
    exactly_once: bool = False
    group_protocol: Literal["classic", "streams"] = "classic"
    heap_mib: Positive | None = None
    memory_mib: Positive | None = None
    rocksdb_mib: Positive | None = None
    rocksdb: dict[RocksDbKey, Scalar] = Field(default_factory=dict)
    restore_s: Positive = 60
    restore_mb_per_s: PositiveFloat | None = None
    standbys: Annotated[int, Field(ge=0)] | None = None
    state_dir: Annotated[str, Field(pattern=r"^/.+")] | None = None
    jemalloc: Annotated[str, Field(pattern=r"^/.+\.so[.0-9]*$")] | None = None
    settings: dict[str, Scalar] = Field(default_factory=dict)
    environment: dict[str, Scalar] = Field(default_factory=dict)
    ready_seconds: Positive = 120
    stop_seconds: Positive = 120
    gate_seconds: Positive = 120
    gate_max_lag: Count = 10_000


def streams_apps(inventory: Inventory) -> tuple[dict[str, StreamsApp], list[Finding]]:
    """Read the variables of every host of the group streams_app."""
    found: dict[str, StreamsApp] = {}
    wrong: list[Finding] = []
    for host in inventory.group(ROLE):
        variables = role_variables(StreamsApp, ROLE, host, inventory.hosts[host], OF_ROLE)
        if isinstance(variables, list):
            wrong += variables
            continue
        found[host] = variables
        wrong += check_values("streams_app_settings", host, variables.settings, _taken(variables))
        wrong += check_names("streams_app_environment", host, variables.environment)
        wrong += _rocksdb(host, dict(variables.rocksdb.items()))
        for number, store in enumerate(variables.stores):
            where = f"streams_app_stores[{number}]"
            if store.kind != "key_value" and store.window_ms is None:
                fix = f"say how long a window of {store.name} is, or that its kind is key_value"
                wrong.append(wrong_variable(f"{where}.window_ms", host, "is missing", fix))
            elif store.kind == "key_value" and store.window_ms is not None:
                fix = "take it out, or set kind to windowed"
                wrong.append(wrong_variable(f"{where}.window_ms", host, "is set, and kind is key_value", fix))
        names = [s.name for s in variables.stores]
        for name in sorted({n for n in names if names.count(n) > 1}):
            fix = "name each once; count says how many are alike"
            wrong.append(wrong_variable("streams_app_stores", host, f"holds {name} twice", fix))
    return found, wrong


def read_by(key: str) -> tuple[Component | None, str]:
    """Return the client that a key is for by its prefix, and the key without it; no client without one."""
    prefix, client = next(((p, c) for p, c in _PREFIXES if key.startswith(p)), ("", None))
    return client, key.removeprefix(prefix)


def _taken(variables: StreamsApp) -> dict[str, str]:
    """Return what each key of the settings takes; one without a prefix goes to the clients too."""
    plain: dict[str, str] = {}
    for component in (*BESIDE, "streams"):
        plain |= takes(component, variables.version)
    read = {key: read_by(key) for key in variables.settings}
    return {
        key: (takes(client, variables.version) if client else plain).get(bare, "")
        for key, (client, bare) in read.items()
    }


def _rocksdb(host: str, values: Mapping[str, Any]) -> Iterator[Finding]:
    """Complain of values that the RocksDB class could not be compiled with, or would refuse at its start."""
    for key, value in values.items():
        known = {"compaction.style": _STYLES, "compression": _COMPRESSIONS}.get(key)
        name = f"streams_app_rocksdb.{key}"
        if known is not None:
            if value not in known:
                yield wrong_variable(name, host, f"is {value!r}", f"write one of {', '.join(known)}")
        elif isinstance(value, bool) or not isinstance(value, int | float):
            yield wrong_variable(name, host, f"is {value!r}", "write a number")
        elif key == "high.priority.ratio" and not 0 <= value < 1:
            yield wrong_variable(name, host, f"is {value}", "write a share from 0 to below 1, such as 0.1")
        elif key != "high.priority.ratio" and (value <= 0 or value != int(value)):
            yield wrong_variable(name, host, f"is {value}", "write a whole number above 0")
