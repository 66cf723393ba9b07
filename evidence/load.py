"""load.json: what a run loads, checks and watches, as verify.yml writes it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from evidence.dialect import Dialect
from evidence.record import PREFIX_BYTES
from evidence.secrets import SecretsError, from_environment, looks_secret, merged

Client = dict[str, str | int | float | bool]
Text = Annotated[str, Field(min_length=1)]
Rate = Annotated[float, Field(gt=0)]


class LoadError(Exception):
    """Something that the person has to mend; its text is one line: what, where, how."""


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class KafkaLoad(_Model):
    """Load by the Kafka protocol; ``records_per_s`` is shared by the producers."""

    topic: Text
    records_per_s: Rate
    record_bytes: int = Field(100, ge=PREFIX_BYTES)
    producers: int = Field(1, ge=1)
    consumers: int = Field(1, ge=0)
    group: Text = "kedge-kafka"
    producer: Client = {}
    consumer: Client = {}


class RestLoad(_Model):
    """Load through REST proxies behind one URL; ``in_flight`` requests at most are open per producer.

    ``ca`` is the file of the CA that the certificates of an https URL are held against; ``user`` logs in with
    ``password``, which load.json never has: see :func:`secrets`. ``dialect`` is the proxies'.
    """

    topic: Text
    url: Text
    ca: Text | None = None
    user: Text | None = None
    password: str | None = Field(None, repr=False, exclude=True)
    records_per_s: Rate
    records_per_request: int = Field(100, ge=1)
    record_bytes: int = Field(100, ge=PREFIX_BYTES)
    producers: int = Field(1, ge=1)
    consumers: int = Field(1, ge=0)
    group: Text = "kedge-rest"
    in_flight: int = Field(8, ge=1)
    request_timeout_s: float = Field(30, gt=0)
    read_timeout_ms: int = Field(200, ge=1)
    read_max_bytes: int = Field(1_048_576, ge=1)
    dialect: Dialect = Dialect()


class OtherCluster(_Model):
    """A cluster that mirrors copy to: read at the end of a run, never written to."""

    bootstrap_servers: Text
    client: Client = {}


class Place(_Model):
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
    source: Place
    target: Place
    group: Text | None = None
    batch_bytes: int = Field(50_000, ge=1)
    exactly_once: bool = False
    codec: str = ""


class Instance(_Model):
    """An instance of an application on a host."""

    host: Text
    instance: Text


class Application(_Model):
    """A Streams application, whose name is its consumer group; with ``input``, it is fed by the load."""

    name: Text
    instances: list[Instance] = []
    input: Place | None = None
    output: Place | None = None
    per_record: int = Field(1, ge=1)
    exactly_once: bool = False


class Load(_Model):
    """The whole of `load.json`; ``service`` is the one that verify.yml restarts while the load runs.

    With ``kill``, one of its instances is killed before.
    """

    run_id: Text
    cluster: Text
    bootstrap_servers: Text
    service: Text = "kafka_rest"
    kill: bool = False
    client: Client = {}
    clusters: dict[str, OtherCluster] = {}
    mirrors: list[Mirror] = []
    applications: list[Application] = []
    kafka: KafkaLoad | None = None
    rest: RestLoad | None = None
    sampling_ms: int = Field(100, ge=1)
    warm_up_s: float = Field(5, ge=0)
    min_s: float = Field(40, ge=0)
    max_s: float = Field(300, gt=0)
    min_records: int = Field(0, ge=0)
    drain_s: float = Field(30, ge=0)

    def client_config(self, cluster: str | None = None) -> Client:
        """Return what every Kafka client of the load starts from, or one of another cluster."""
        other = self.clusters.get(cluster) if cluster and cluster != self.cluster else None
        servers = other.bootstrap_servers if other else self.bootstrap_servers
        return {"bootstrap.servers": servers, "log_level": 3, **(other.client if other else self.client)}

    def public_client(self, cluster: str) -> Client:
        """Return the keys with which a cluster is reached, without its servers and without secrets."""
        other = self.clusters.get(cluster) if cluster != self.cluster else None
        client = other.client if other else self.client
        return {key: value for key, value in client.items() if not looks_secret(key)}

    def topics(self) -> list[str]:
        """Return the topics that are loaded, each once."""
        return sorted({part.topic for part in (self.kafka, self.rest) if part})

    def places(self) -> list[Place]:
        """Return the topics that the run's records are in, with mirrors' and applications', each once."""
        loaded = [Place(cluster=self.cluster, topic=topic) for topic in self.topics()]
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


def read_load(run_dir: Path) -> Load:
    """Read `load.json` of a run's folder; raises LoadError when it is not there or not right."""
    path = run_dir / "load.json"
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        load = Load.model_validate(
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
