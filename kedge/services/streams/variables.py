"""The variables of the role streams_app, validated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import Field, PositiveFloat

from kedge.keys.accepted_values import check_names, check_values
from kedge.keys.catalogue import Component, defaults, takes
from kedge.plan.findings import Finding
from kedge.plan.hosts import Inventory
from kedge.plan.inventory.security import HostFile, KeyPair, Password, Principal
from kedge.plan.measured_capacity import Measured
from kedge.plan.restart_waits import GATE_MAX_LAG, GATE_SECONDS
from kedge.plan.variable_messages import missing_variable, wrong_variable
from kedge.plan.variables import Asked, Count, DefaultRule, Positive, Scalar, Strict, Version, role_variables

ROLE = "streams_app"
ARTICLE: Final = "A Journey of Performance Tuning KafkaStream Application"
CONFIG: Final = "Kafka Streams documentation, Configuration"
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


class StateStore(Strict):
    """State that an application keeps: ``count`` stores of one kind, or ``count`` windowed joins."""

    name: Annotated[str, Field(min_length=1)]
    """Name of the store."""
    kind: Kind = "windowed"
    """Kind of the store. A join of two streams keeps two stores."""
    count: Positive = 1
    """Number of identical stores or joins."""
    partitions: Positive
    """Partitions of the topics that it reads."""
    window_ms: Positive | None = None
    """Size of the window; for a session its gap, for a join the difference in either direction."""
    grace_ms: Annotated[int, Field(ge=0)] = 0
    """How late a record may be."""
    changelog: bool = True
    """Whether the store has a changelog topic."""
    records_per_s: PositiveFloat | None = None
    """Rate of records into one store, over all partitions."""
    record_bytes: Positive | None = None
    """Size of a record in the store."""
    keys: Positive | None = None
    """Number of keys of a key_value store, instead of records_per_s."""

    @property
    def retention_ms(self) -> int:
        """How long a window is kept: its size and grace; a join keeps both sides of it. 0 without windows."""
        if self.kind == "key_value" or self.window_ms is None:
            return 0
        return self.window_ms * (2 if self.kind == "join" else 1) + self.grace_ms


class AppJar(Strict):
    """A jar of the application on the control machine."""

    path: Annotated[str, Field(pattern=r"^.+\.jar$")]
    """Path of the jar on the control machine."""
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None
    """SHA-256 of the jar, compared before a deploy."""


class Delivery(Strict):
    """What the application makes of a record, for the audit of verify.yml."""

    input: str
    """Input topic, to which verify.yml sends."""
    output: str
    """Output topic."""
    per_record: Positive = 1
    """Number of output records for each input record, each with the input's value and its own key."""


class MeasuredApplication(Measured):
    """What an application's instances carry, as capacity.yml measured it."""

    name: str
    """Name of the application, as in streams_app_name."""
    instances_per_host: Positive
    """Number of its instances on each host."""


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
    """The variables of the role streams_app."""

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,60}$")]
    """The application's id, and the name of its instances."""
    main_class: Annotated[str, Field(pattern=r"^[A-Za-z_$][\w$]*(\.[A-Za-z_$][\w$]*)*$")]
    """Main class, with its package."""
    jars: Annotated[list[AppJar], Field(min_length=1)]
    """Jars of the application and its libraries."""
    lock: str = ""
    """Lock file of further jars, which Maven fetches and Kedge verifies."""
    arguments: list[str] = Field(default_factory=lambda: ["/etc/streams-app/%i/streams.properties"])
    """Arguments of the main class; %i is the instance's name."""
    delivery: Delivery | None = None
    """Topics by which verify.yml audits the output."""
    version: Version
    """Version of the kafka-streams library that it is built with."""
    cluster: str
    """Its cluster, a name of kafka_clusters."""
    user: Principal | None = None
    """Login to its cluster, where its security asks for one and settings name no security.protocol."""
    password: Password | None = None
    """Password of that login, best from a vault."""
    client_tls: KeyPair | None = None
    """Certificate and key towards its cluster, where brokers ask for one."""
    keytab: HostFile | None = None
    """Path on the hosts of the keytab of `streams_app_user`; the service's group has to read it (GSSAPI)."""
    records_per_s: Annotated[PositiveFloat | None, Asked()] = None
    """Records of delivery.input at the peak, all instances; compared with measured_capacity."""
    measured_capacity: MeasuredApplication | None = None
    """Load that the application sustained in a run of capacity.yml; from its recommendations.yml."""
    stores: list[StateStore] = Field(default_factory=list)
    """State stores, for which the plan provides memory."""
    instances_per_host: Positive = 1
    """Number of instances on each host."""
    threads: Annotated[Positive | None, DefaultRule("streams.threads")] = None
    """Stream threads of one process."""
    record_bytes: Annotated[Positive, Asked()] = 1000
    """Size of a record, on average."""
    latency_ms: Annotated[Positive, Asked()] = 1000
    """How late a result may be."""
    output_partitions: Annotated[int, Field(ge=0), Asked()] = 0
    """Partitions of its output topics."""
    exactly_once: bool = False
    """Whether results are exactly once, by transactions."""
    group_protocol: Literal["classic", "streams"] = "classic"
    """The group protocol; streams is for brokers and libraries from 4.2 on."""
    heap_mib: Annotated[Positive | None, DefaultRule("streams.heap")] = None
    """Heap of one process."""
    memory_mib: Annotated[Positive | None, DefaultRule("streams.memory")] = None
    """Memory limit of one process."""
    rocksdb_mib: Annotated[Positive | None, DefaultRule("streams.rocksdb.bound")] = None
    """Limit of what all stores of one process use outside the heap."""
    rocksdb: dict[RocksDbKey, Scalar] = Field(default_factory=dict)
    """RocksDB options; they override the plan."""
    restore_s: Positive = 60
    """How long a restart on an empty disk may take."""
    restore_mb_per_s: Annotated[PositiveFloat | None, DefaultRule("streams.changelog")] = None
    """Measured rate of a restore; if not set, 20 MB/s are assumed."""
    standbys: Annotated[Annotated[int, Field(ge=0)] | None, DefaultRule("streams.standbys")] = None
    """Standby copies of the state."""
    state_dir: Annotated[Annotated[str, Field(pattern=r"^/.+")] | None, DefaultRule("streams.state")] = None
    """Folder for the state, owned by root, best on its own disk; each instance has a folder in it."""
    jemalloc: Annotated[str, Field(pattern=r"^/.+\.so[.0-9]*$")] | None = None
    """File of the jemalloc library to preload, installed if it is missing."""
    settings: dict[str, Scalar] = Field(default_factory=dict)
    """Keys of streams.properties; they override the plan."""
    environment: dict[str, Scalar] = Field(default_factory=dict)
    """Environment variables of the processes."""
    ready_seconds: Positive = 120
    """How long a started instance may take until it is RUNNING."""
    stop_seconds: Positive = 120
    """How long an instance may take to close its stores before it is killed."""
    gate_seconds: Positive = GATE_SECONDS
    """How long consumer groups may take to be stable again after a restart."""
    gate_max_lag: Count = GATE_MAX_LAG
    """Lag at which a group counts as caught up after a restart, whatever it was before."""


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
                wrong.append(missing_variable(f"{where}.window_ms", host, fix))
            elif store.kind == "key_value" and store.window_ms is not None:
                fix = "take it out, or set kind to windowed"
                wrong.append(wrong_variable(f"{where}.window_ms", host, "is set, and kind is key_value", fix))
        names = [s.name for s in variables.stores]
        for name in sorted({n for n in names if names.count(n) > 1}):
            fix = "name each once; count says how many are identical"
            wrong.append(wrong_variable("streams_app_stores", host, f"holds {name} twice", fix))
    return found, wrong


def read_by(key: str) -> tuple[Component | None, str]:
    """Return the client that a key is for by its prefix, and the key without it; no client without one."""
    prefix, client = next(((p, c) for p, c in _PREFIXES if key.startswith(p)), ("", None))
    return client, key.removeprefix(prefix)


def unset_values(version: str, own: Mapping[str, str]) -> dict[str, str]:
    """Return what holds of keys that an application's ``own`` ones leave out, as StreamsConfig has it."""
    streams = {**defaults("streams", version)}
    producer = {**defaults("producer", version), "linger.ms": "100"}
    consumer = {**defaults("consumer", version), "max.poll.records": "1000", "auto.offset.reset": "earliest",
                "enable.auto.commit": "false"}  # fmt: skip
    if own.get("processing.guarantee", "").startswith("exactly_once"):
        streams["commit.interval.ms"] = "100"
        producer |= {"enable.idempotence": "true", "transaction.timeout.ms": "10000"}
        producer["delivery.timeout.ms"] = str(2**31 - 1)
        consumer["isolation.level"] = "read_committed"
    plain = {key: value for key, value in own.items() if read_by(key)[0] is None}
    consumers = {key.removeprefix("consumer."): value for key, value in own.items()
                 if key.startswith("consumer.")}  # fmt: skip
    found = streams | {f"producer.{key}": value for key, value in (producer | plain).items()}
    found |= {f"consumer.{key}": value for key, value in (consumer | plain).items()}
    return found | {f"main.consumer.{k}": v for k, v in (consumer | plain | consumers).items()}


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
