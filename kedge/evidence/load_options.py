"""load.json: what a run loads, checks and watches, as verify.yml has it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kedge.evidence.record_layout import PREFIX_BYTES
from kedge.evidence.rest_dialect import Dialect
from kedge.evidence.secrets import SecretsError, from_environment, holds_secret, looks_secret, merged
from kedge.evidence.watch_options import WatchOptions

Client = dict[str, str | int | float | bool]
Text = Annotated[str, Field(min_length=1)]
Rate = Annotated[float, Field(gt=0)]
Instance = Annotated[str, Field(pattern=r"^[^\s/?#@]+:[0-9]+$")]
Origin = Annotated[str, Field(pattern=r"^https?://[^\s/?#@]+$")]


#: Records/s that an instance gets directly: enough to see whether it answers.
TO_INSTANCE_PER_S: Final = 0.2


class LoadError(Exception):
    """Something that the person has to mend; its text is one line: what, where, how."""


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class KafkaLoad(_Model):
    """Load by the Kafka protocol."""

    topic: Text
    """The topic of the load, a name of kafka_topics; nothing else may use it, and no other load."""
    records_per_s: Rate
    """Rate of all its producers together."""
    record_bytes: int = Field(100, ge=PREFIX_BYTES)
    """Size of a record's value; its first bytes identify the record."""
    producers: int = Field(1, ge=1)
    """Number of producers; each is a process."""
    consumers: int = Field(1, ge=0)
    """Number of consumers, all in one group; 0 for none."""
    group: Text = "kedge-kafka"
    """The consumers' group; no two loads may share one."""
    producer: Client = {}
    """Keys of librdkafka for the producers."""
    consumer: Client = {}
    """Keys of librdkafka for the consumers."""


class RestLoad(_Model):
    """Load through REST proxies behind one URL.

    load.json never has the password: see :func:`secrets`.
    """

    topic: Text
    """The topic of the load, a name of kafka_topics; nothing else may use it, and no other load."""
    url: Text
    """URL that REST clients use."""
    ca: Text | None = None
    """File of the CA by which the clients check certificates of an https URL."""
    user: Text | None = None
    """Login to proxies that require one."""
    password: str | None = Field(None, repr=False, exclude=True)
    """Password of that login, best from a vault."""
    records_per_s: Rate
    """Rate of all its producers together."""
    records_per_request: int = Field(100, ge=1)
    """Records in one produce request."""
    record_bytes: int = Field(100, ge=PREFIX_BYTES)
    """Size of a record's value; its first bytes identify the record."""
    producers: int = Field(1, ge=1)
    """Number of producers; each is a process."""
    consumers: int = Field(1, ge=0)
    """Number of consumers, all in one group; 0 for none."""
    group: Text = "kedge-rest"
    """The consumers' group; no two loads may share one."""
    in_flight: int = Field(8, ge=1)
    """Largest number of open requests of one producer."""
    request_timeout_s: float = Field(30, gt=0)
    """Time limit of a produce request."""
    read_timeout_ms: int = Field(200, ge=1)
    """Timeout of a read."""
    read_max_bytes: int = Field(1_048_576, ge=1)
    """max_bytes of a read; not sent to proxies whose dialect has `max_bytes: false`."""
    auto_commit: bool = False
    """Whether consumers leave commits to the proxy and take an empty 200 as no records, as many do."""
    come_home: bool = False
    """Whether a consumer that is sent to its instance returns to its first proxy when that answers again."""
    dialect: Dialect = Dialect()
    """How these proxies differ from kafka-rest; to be set if `url` names proxies outside the plan."""
    proxies: list[Origin] = []
    """Base URIs, besides `url`, to which consumers may be sent with the login."""


class OtherCluster(_Model):
    """A cluster that mirrors copy to: read at the end of a run, never written to."""

    bootstrap_servers: Text
    client: Client = {}


class ClusterTopic(_Model):
    """A topic of a cluster."""

    cluster: Text
    topic: Text


class Mirror(_Model):
    """A topic that a flow copies while it is loaded.

    ``group`` is the flow's consumer group on the source cluster; MirrorMaker 2 has none: it keeps its offsets
    in a topic of its own. ``batch_bytes``, ``codec`` and ``exactly_once`` are for the audit: what a batch
    of the flow holds, by what it is compressed, and whether the flow promises that.
    """

    flow: Text
    source: ClusterTopic
    target: ClusterTopic
    group: Text | None = None
    batch_bytes: int = Field(50_000, ge=1)
    exactly_once: bool = False
    codec: str = ""


class AppInstance(_Model):
    """An instance of an application on a host."""

    host: Text
    instance: Text


class Application(_Model):
    """A Streams application, whose name is its consumer group; with ``input``, it is fed by the load."""

    name: Text
    instances: list[AppInstance] = []
    input: ClusterTopic | None = None
    output: ClusterTopic | None = None
    per_record: int = Field(1, ge=1)
    exactly_once: bool = False


class WatchOnly(_Model):
    """What there is to say of a run that sends nothing."""

    cluster: Text | None = None
    client: Client = {}
    watch: WatchOptions


class LoadSpec(_Model):
    """The whole of `load.json`."""

    run_id: Text
    """The run's name."""
    cluster: Text
    """The cluster that the load is sent to, a name of kafka_clusters."""
    bootstrap_servers: Text
    """Where that cluster answers."""
    service: Text = "kafka_rest"
    """The service that verify.yml restarts under the load."""
    kill: bool = False
    """Whether verify.yml kills one of its instances first."""
    client: Client = {}
    """Keys of librdkafka for all Kafka clients of the load; they override those of kafka_clusters."""
    generators: list[Text] = []
    """Hosts that make the load; this machine where there are none."""
    clusters: dict[str, OtherCluster] = {}
    """Clusters that mirrors copy to."""
    mirrors: list[Mirror] = []
    """What copies the loaded topics."""
    applications: list[Application] = []
    """Streams applications."""
    kafka: KafkaLoad | None = None
    """The load by the Kafka protocol."""
    rest: RestLoad | None = None
    """The load through the REST proxies."""
    rest_instances: dict[Instance, Origin] = {}
    """Base URLs of REST instances that each get records directly, by their names (HOST:PORT)."""
    rest_instances_ca: Text | None = None
    """File of the CA by which certificates of these instances are checked."""
    sampling_ms: int = Field(100, ge=1)
    """Interval at which groups are sampled; measured times without an owner are as exact as this."""
    warm_up_s: float = Field(5, ge=0)
    """First part of the load, which throughput and latency leave out."""
    min_s: float = Field(40, ge=0)
    """The load ends after the restarts, not before this time and min_records."""
    max_s: float = Field(300, gt=0)
    """The load ends after this time in any case."""
    min_records: int = Field(0, ge=0)
    """Least number of records that the load sends."""
    drain_s: float = Field(30, ge=0)
    """How long producers may still send overdue records, and consumers may read, when the load ends."""
    late_ms: float | None = Field(None, gt=0)
    """Acknowledgements slower than this are counted while the load runs, from the warm-up on."""
    watch: WatchOptions = WatchOptions()
    """Which topics and groups of others a watch looks at."""

    def client_config(self, cluster: str | None = None) -> Client:
        """Return what every Kafka client of the load starts from, or one of another cluster."""
        other = self.clusters.get(cluster) if cluster and cluster != self.cluster else None
        servers = other.bootstrap_servers if other else self.bootstrap_servers
        return {"bootstrap.servers": servers, "log_level": 3, **(other.client if other else self.client)}

    def public_client(self, cluster: str) -> Client:
        """Return the keys with which a cluster is reached, without its servers and without secrets."""
        other = self.clusters.get(cluster) if cluster != self.cluster else None
        client = other.client if other else self.client
        return {
            key: value
            for key, value in client.items()
            if not looks_secret(key) and not holds_secret(str(value))
        }

    def instances_in_turn(self) -> list[str]:
        """Return the REST instances in their turn: a record goes to the one at seq modulo their number."""
        return sorted(self.rest_instances)

    def topics(self) -> list[str]:
        """Return the topics that are loaded, each once."""
        return sorted({part.topic for part in (self.kafka, self.rest) if part})

    def places(self) -> list[ClusterTopic]:
        """Return the topics that the run's records are in, with mirrors' and applications', each once."""
        loaded = [ClusterTopic(cluster=self.cluster, topic=topic) for topic in self.topics()]
        made = [m.target for m in self.mirrors] + [app.output for app in self.applications if app.output]
        return list(dict.fromkeys([*loaded, *made]))

    def groups_of_others(self) -> list[str]:
        """Return the consumer groups that read the load and are not its own: of flows and applications."""
        flows = {m.group for m in self.mirrors if m.group}
        return sorted(flows | {app.name for app in self.applications if app.input})

    def groups(self) -> dict[str, tuple[Literal["kafka", "rest"], str, int]]:
        """Return the consumer groups: name to way, topic and number of consumers."""
        found: dict[str, tuple[Literal["kafka", "rest"], str, int]] = {}
        if self.kafka and self.kafka.consumers:
            found[self.kafka.group] = ("kafka", self.kafka.topic, self.kafka.consumers)
        if self.rest and self.rest.consumers:
            found[self.rest.group] = ("rest", self.rest.topic, self.rest.consumers)
        return found


def _completed(document: dict[str, Any], secret: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return load.json with the passwords in their places."""
    clusters = secret.get("clusters", {})
    placed = {key: value for key, value in secret.items() if key in document and key != "clusters"}
    own = {**document.get("client", {}), **clusters.get(document.get("cluster", ""), {})}
    others = {
        name: {**other, "client": {**other.get("client", {}), **clusters.get(name, {})}}
        for name, other in document.get("clusters", {}).items()
    }
    return {**merged(document, placed), "client": own, "clusters": others}


def read_load(run_dir: Path) -> LoadSpec:
    """Read `load.json` of a run's folder; raises LoadError when it is not there or not right."""
    path = run_dir / "load.json"
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        load = LoadSpec.model_validate(
            _completed(document, from_environment()) if isinstance(document, dict) else document
        )
    except OSError as error:
        raise LoadError(f"{path} cannot be read: {error.strerror}; verify.yml writes it") from error
    except SecretsError as error:
        raise LoadError(str(error)) from error
    except json.JSONDecodeError as error:
        raise LoadError(f"{path} is not JSON: {error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise LoadError(f"{path}: {where}: {first['msg']}") from error
    if not load.kafka and not load.rest:
        raise LoadError(f"{path} has neither kafka nor rest: there is nothing to load")
    if load.kafka and load.rest and load.kafka.topic == load.rest.topic:
        raise LoadError(f"{path}: kafka and rest share the topic {load.kafka.topic}: give each its own")
    for mirror in load.mirrors:
        if mirror.source.cluster != load.cluster or mirror.source.topic not in load.topics():
            raise LoadError(f"{path}: mirror {mirror.flow} copies {mirror.source.topic}, which is not loaded")
        if mirror.target.cluster not in {*load.clusters, load.cluster}:
            raise LoadError(f"{path}: clusters lacks {mirror.target.cluster}, to which {mirror.flow} copies")
    if len(load.groups()) < sum(1 for part in (load.kafka, load.rest) if part and part.consumers):
        raise LoadError(f"{path}: kafka and rest share a consumer group: give each its own")
    return load
