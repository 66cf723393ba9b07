"""run.json: what was run, between which times, against which topics and groups."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, ValidationError, field_validator

from kedge.evidence.errors import EvidenceError, one_line
from kedge.evidence.release import RUN_SCHEMA


class _Part(BaseModel):
    """Keys that other tools add are kept out, not refused."""

    model_config = ConfigDict(frozen=True, extra="ignore")


_CONNECTS: Final = re.compile(
    r"bootstrap\.servers|security\.protocol|client\.(id|rack|dns\.lookup)|broker\.address\.(family|ttl)|api\.version\..*"
    r"|socket\..*|reconnect\..*|retry\.backoff\..*|request\.timeout\.ms|(message|fetch|receive)\..*bytes|isolation\.level"
    r"|enable\.ssl\.certificate\.verification|ssl\.(ca|certificate|key|crl|keystore)\.location|ssl\.(ca|certificate|key)\.pem"
    r"|ssl\.endpoint\.identification\.algorithm|ssl\.(cipher\.suites|curves\.list|sigalgs\.list)|https\.ca\.location"
    r"|sasl\.mechanisms?|sasl\.username|sasl\.kerberos\.(service\.name|principal|keytab)"
    r"|sasl\.oauthbearer\.(method|client\.id|scope|extensions|token\.endpoint\.url|config)"
)
#: librdkafka puts these into a command for a shell.
_OF_KINIT: Final = frozenset(f"sasl.kerberos.{key}" for key in ("service.name", "principal", "keytab"))
_PLAIN: Final = re.compile(r"[\w./@-]*")


class Cluster(_Part):
    """Where a cluster was reached, and with which keys of librdkafka's; passwords are not among them.

    A run may be of others: those keys are taken that say where and how to connect, and none that
    loads a library or runs a command.
    """

    bootstrap_servers: str
    client: dict[str, str | int | float | bool] = {}

    @field_validator("client")
    @classmethod
    def _connects_and_no_more(
        cls, client: dict[str, str | int | float | bool]
    ) -> dict[str, str | int | float | bool]:
        taken = {key: value for key, value in client.items() if _CONNECTS.fullmatch(key)}
        for key in _OF_KINIT & taken.keys():
            if not _PLAIN.fullmatch(str(taken[key])):
                raise ValueError(f"{key} has more than letters, digits and ./@_-, and a shell reads it")
        return taken


class TopicRange(_Part):
    """A topic's range in this run: offsets [start, end) by partition, log start as it was at the end.

    A load that did not end properly left no end: then all that the topic holds is read.
    """

    cluster: str
    topic: str
    partitions: int
    cleanup_policy: str = "delete"
    retention_ms: int | None = None
    start_offsets: dict[int, int]
    end_offsets: dict[int, int] = {}
    log_start_offsets: dict[int, int] = {}

    @property
    def compacted(self) -> bool:
        """Whether the broker may remove records that a later one of the same key replaced."""
        return "compact" in self.cleanup_policy

    def expired_below(self) -> dict[int, int]:
        """Return the partitions whose log now starts after the run's first offset, with that log start."""
        return {
            partition: start
            for partition, start in self.log_start_offsets.items()
            if start > self.start_offsets.get(partition, 0)
        }


#: The interface (``via``) of what goes to REST instances directly, beside ``kafka`` and ``rest``.
REST_INSTANCE: Final = "rest_instance"


class Producer(_Part):
    """What one generator was asked to do, and how many records it says that it wrote into its ledger."""

    via: str
    topic: str
    records_per_s: float = 0
    records: int | None = None


class Group(_Part):
    """A consumer group of the run; ``assignor`` is what its clients were given, empty where nothing was."""

    via: str
    topics: list[str]
    protocol: str = "classic"
    assignor: str = ""
    commits: str = ""


class Clock(_Part):
    """A host's clock against the control machine's, and the error of that measurement, microseconds."""

    offset_us: int
    error_us: int


class ClusterTopic(_Part):
    """A topic of a cluster."""

    cluster: str
    topic: str


class Mirror(_Part):
    """A topic and the copy of it that a flow makes; ``exactly_once`` forbids what at-least-once allows.

    ``group`` is the flow's consumer group on the source cluster, where it has one.
    """

    flow: str
    source: ClusterTopic
    target: ClusterTopic
    group: str | None = None
    exactly_once: bool = False
    #: What a batch holds before compression; the default is the article's, a 20th of a message of 1 MB.
    batch_bytes: Annotated[int, Field(gt=0)] = 50_000
    #: compression.type of its producers, by the plan; empty where it is not known.
    codec: str = ""


class DeployedInstance(_Part):
    """An instance of a service on a host."""

    host: str
    instance: str


class Application(_Part):
    """A Streams application that was deployed, and what it makes of a record, where that is known.

    ``per_record`` outputs with the record's own value, each under a key of its own, are due for each record
    of ``input``; ``exactly_once`` forbids that one comes twice.
    """

    name: str
    instances: list[DeployedInstance] = []
    input: ClusterTopic | None = None
    output: ClusterTopic | None = None
    per_record: int = Field(1, ge=1)
    exactly_once: bool = False


class DeployedService(_Part):
    """A service in one version on some hosts; what is empty is not recorded."""

    service: str
    distribution: str = ""
    version: str = ""
    hosts: list[str] = []
    instances: int | None = None


class PlannedTopic(_Part):
    """A topic of the load, as planned."""

    cluster: str
    topic: str
    partitions: int | None = None
    replication: int | None = None


class IntendedLoad(_Part):
    """What was to be sent by one interface, by all of its producers together."""

    via: str
    topic: str
    records_per_s: float | None = None
    record_bytes: int | None = None
    records_per_request: int | None = None
    producers: int | None = None
    consumers: int | None = None


class Machine(_Part):
    """A machine and the hosts on it: several are containers that share what it has.

    ``load`` says whether the load and the audit ran there too.
    """

    hosts: list[str] = []
    load: bool = False
    cores: int | None = None
    memory_mib: int | None = None
    system: str = ""


class Subject(_Part):
    """What a run tested, for people; no check reads it.

    ``kit`` is the release of Kedge that ran it, ``plan`` the fingerprint of plan.json.
    """

    kit: str = ""
    plan: str = ""
    services: list[DeployedService] = []
    topics: list[PlannedTopic] = []
    load: list[IntendedLoad] = []
    machines: list[Machine] = []


class WatchedTopic(ClusterTopic):
    """A topic of others that was watched; ``partitions`` are those that it had at the begin."""

    partitions: int


class WatchedGroup(_Part):
    """A group of others that was watched, on which cluster, and the watched topics that it reads."""

    cluster: str
    group: str
    topics: list[str] = []
    protocol: str = ""
    #: Services of the inventory on whose hosts it has members.
    services: list[str] = []


class NotWatched(_Part):
    """Something of others that was not watched or cannot be judged, and why, in words."""

    cluster: str
    kind: Literal["topic", "group", "balancer", "cluster"]
    name: str
    why: str


class Watch(_Part):
    """What flowed of others' while a run went on: kedge's own load is none of it.

    What is usual is learned from ``started_us`` until ``usual_until_us``, before anything was done;
    ``ended_us`` is None for a watch that did not end properly. Groups are by the name that the tables have.
    """

    interval_us: Annotated[int, Field(gt=0)]
    started_us: int
    usual_until_us: int | None = None
    ended_us: int | None = None
    #: Whether a playbook changed something meanwhile.
    changing: bool = False
    topics: list[WatchedTopic] = []
    groups: dict[str, WatchedGroup] = {}
    balancers: list[str] = []
    not_watched: list[NotWatched] = []
    #: How many more there were than the first of ``not_watched``.
    not_watched_more: NonNegativeInt = 0


class Run(_Part):
    """The whole of run.json.

    ``ended_us`` and ``load_until_us`` (measured_until_us) are None when the load did not end properly.
    ``keys_per_producer``: record seq of producer p has the key ``p-(seq mod keys_per_producer)``.
    """

    #: The version of its form.
    form: Annotated[int, Field(alias="schema", ge=1)] = 1
    run_id: str
    started_us: int
    ended_us: int | None
    warm_up_us: int = 0
    load_until_us: int | None = Field(alias="measured_until_us")
    clusters: dict[str, Cluster] = {}
    topics: list[TopicRange]
    mirrors: list[Mirror] = []
    applications: list[Application] = []
    producers: dict[int, Producer] = {}
    groups: dict[str, Group] = {}
    clock_offsets: dict[str, Clock] = {}
    generators: dict[str, Clock] = {}
    #: Hosts whose evidence is missing, and what they sent that was not taken.
    refused: dict[str, str] = {}
    sampling_us: dict[str, int] = {}
    measurement: dict[str, Any] | None = None
    watch: Watch | None = None
    keys_per_producer: int | None = None
    #: Rows by table and file, as the writers listed them (kedge.evidence.listing); None: it was not recorded.
    files: dict[str, dict[str, NonNegativeInt]] | None = None
    #: Evidence from before it was recorded has none.
    subject: Subject = Subject()

    @property
    def measured_from_us(self) -> int:
        """Begin of the steady window: the warm-up is dropped."""
        return self.started_us + self.warm_up_us

    @property
    def measured_until_us(self) -> int:
        """End of the steady window, when the load stopped sending."""
        if self.load_until_us is None:
            # Readers put the last time of the ledger where there is none; without a load, there is no ledger.
            return self.ended_us or self.measured_from_us
        return self.load_until_us

    @property
    def measured_s(self) -> float:
        """Length of the steady window, seconds."""
        return (self.measured_until_us - self.measured_from_us) / 1e6

    @property
    def complete(self) -> bool:
        """Whether the load ended properly, so that its ledger and deliveries are whole."""
        return self.ended_us is not None

    @property
    def clock_error_us(self) -> int:
        """Largest error of a clock measurement, which bounds every time taken across hosts."""
        clocks = (*self.clock_offsets.values(), *self.generators.values())
        return max((abs(clock.error_us) for clock in clocks), default=0)

    @property
    def loaded(self) -> bool:
        """Whether generators wrote, or should have: mirrors and others' traffic can be judged without any."""
        return bool(self.producers or not (self.mirrors or self.watch))

    def audited_applications(self) -> list[Application]:
        """Return the applications of which it is known what they make of a record."""
        return [app for app in self.applications if app.input and app.output]

    def written_exactly_once(self) -> set[tuple[str, str]]:
        """Return (cluster, topic) of outputs and copies that are promised exactly once, in transactions."""
        made = [app.output for app in self.applications if app.exactly_once and app.output]
        made += [mirror.target for mirror in self.mirrors if mirror.exactly_once]
        return {(place.cluster, place.topic) for place in made}

    def watched_groups(self) -> list[str]:
        """Return the groups whose state was sampled: its own, those of applications it fed, of flows."""
        fed = (app.name for app in self.applications if app.input)
        flows = (mirror.group for mirror in self.mirrors if mirror.group)
        return list(dict.fromkeys([*self.groups, *fed, *flows]))

    def source_topics(self) -> list[TopicRange]:
        """Return the topics that generators wrote to; copies made by mirrors are left out."""
        written = {producer.topic for producer in self.producers.values()}
        copies = {(mirror.target.cluster, mirror.target.topic) for mirror in self.mirrors}
        return [
            topic
            for topic in self.topics
            if topic.topic in written and (topic.cluster, topic.topic) not in copies
        ]

    def topic_of(self, place: ClusterTopic) -> TopicRange | None:
        """Return what is known of one end of a mirror, or None when run.json does not name the topic."""
        found = (t for t in self.topics if (t.cluster, t.topic) == (place.cluster, place.topic))
        return next(found, None)

    def doubts_about(self, *places: ClusterTopic) -> list[str]:
        """Return why topics may hold less than was written to them, a sentence for each that may."""
        doubts = []
        for place in places:
            topic, where = self.topic_of(place), f"{place.cluster}/{place.topic}"
            if topic is None:
                doubts.append(f"run.json names no offsets of {where}, so it was not read")
            elif topic.compacted:
                doubts.append(f"{where} is compacted, so a record may be gone for a later one of its key")
            elif topic.expired_below():
                doubts.append(f"{where} lost records of the run to retention")
        return doubts


def parse_run(text: str, where: str) -> Run:
    """Read run.json.

    Raises:
        EvidenceError: naming the file and the first key that is missing or of the wrong type.
    """
    try:
        run = Run.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"]) or "the document"
        raise EvidenceError(f"{where}: {key}: {one_line(first['msg'])}") from None
    if run.form > RUN_SCHEMA:
        raise EvidenceError(f"{where}: schema: {run.form} is of a later release; audit it with that one")
    if run.load_until_us is not None and run.load_until_us <= run.measured_from_us:
        raise EvidenceError(
            f"{where}: measured_until_us: the steady window is empty; the load ended within its warm-up"
        )
    return run
