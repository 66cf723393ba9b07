"""What a distribution of the REST proxy is, and one process of it: all else follows from these."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Literal

from kedge.evidence.rest_dialect import Dialect
from kedge.keys.catalogue import Component
from kedge.plan.findings import Severity
from kedge.plan.inventory.security import Security
from kedge.plan.plan import PlannedInstance
from kedge.plan.service import JavaNeed
from kedge.plan.settings import Sheet
from kedge.plan.version_numbers import numbers
from kedge.services.clients.fetches import Fetches
from kedge.services.clients.group_protocol import Coordinator
from kedge.services.host.variables import HostFacts
from kedge.services.rest.jetty import ACCEPT_QUEUE
from kedge.services.rest.memory import SHARED_PRODUCER, Connection, ProcessWorkload, load_of
from kedge.services.rest.traffic import KAFKA_REST, Cost, ProcessTraffic
from kedge.services.rest.variables import KafkaRest

SERVICE: Final = "kafka_rest"
#: The file of a release that has it is that of an encrypted listener: its key and its certificate.
LISTENER: Final = "listener.pem"

Way = Literal["archive", "package"]


@dataclass(frozen=True, slots=True)
class Versions:
    """The versions that the rules know: from ``low`` on and before ``end``; ``said`` names them."""

    low: tuple[int, ...]
    end: tuple[int, ...]
    said: str

    def have(self, version: str) -> bool:
        """Return whether the rules know a version."""
        return self.low <= numbers(version) < self.end


@dataclass(frozen=True, slots=True)
class Software:
    """How the software of a proxy comes to a host, and how it is started there.

    Attributes:
        ways: how it is installed; the first unless a person says otherwise.
        start: the start script with its arguments, in the archive's folder or the package's; ``{file}`` is
            the path of the properties.
        properties: the name of the file that the start script is given.
        package: the package's name in a host's repositories.
        package_home: where a package has put itself; ``{version}`` is the proxy's.
        built_here: its archive is built on this machine: none has to be named, nor to have a checksum.
        user: the user that it runs as, which the kit makes unless it is ``vendors_user``.
        control: the service by which Warden runs the first instance of a host; empty where systemd runs all.
        accept_queue: connections that it asks the kernel to keep waiting; the kernel bounds them.
    """

    ways: tuple[Way, ...]
    start: str = "bin/kafka-rest-start {file}"
    properties: str = "kafka-rest.properties"
    package: str = ""
    package_home: str = "/usr"
    built_here: bool = False
    user: str = "kafka-rest"
    vendors_user: bool = False
    control: str = ""
    accept_queue: int = ACCEPT_QUEUE


@dataclass(frozen=True, slots=True)
class Jvm:
    """A JVM whose heap is planned: the variable of its start script that has it, and all that has flags.

    ``unset`` is what the start script takes where the variable of the heap is not set; empty where the JVM
    takes its own share. Under an operator it is ``operated`` of that share; 0 where nobody knows.
    """

    heap: str
    options: tuple[str, ...]
    unset: str = ""
    operated: float = 0


@dataclass(frozen=True, slots=True)
class Java:
    """The least release of the host's Java, where that is known from, and which part of a proxy needs it."""

    least: int
    source: str
    part: str = ""


@dataclass(frozen=True, slots=True)
class Keys:
    """Which keys a proxy reads, its clients' keys included.

    Attributes:
        subject: what reads them, as a finding says it.
        components: the catalogues of its own keys; nothing is said of a version that the first has not.
        version: the version of these catalogues for a version of the proxy.
        clients: the version of the catalogues of Kafka's clients for a version of the proxy; None where no
            keys of clients are passed on.
        prefix: what the keys of its clients begin with.
        shared: what keys begin with, after the prefix, that go to every client; ``producer.`` goes to one.
        more: keys that are in no catalogue.
        unknown: the severity of a key that no version knows.
    """

    subject: str
    components: tuple[Component, ...] = ()
    version: Callable[[str], str] = str
    clients: Callable[[str], str] | None = None
    prefix: str = ""
    shared: tuple[str, ...] = ("client.",)
    more: frozenset[str] = frozenset()
    unknown: Severity = "error"


@dataclass(frozen=True, slots=True)
class Groups:
    """Whether the consumers of a proxy can speak the consumer protocol (KIP-848).

    They can from the version ``since`` on, None where none can; ``because`` says what is known, or why not;
    ``price`` what the consumer protocol costs, against the classic one; ``pauses`` that a read pauses after
    a poll that found nothing, where it could wait in the client.
    """

    since: tuple[int, ...] | None
    because: str
    source: str
    price: str = "not measured here"
    pauses: bool = False


@dataclass(frozen=True, slots=True)
class Health:
    """Where a proxy says that it is ready: the path, its port by version and own port, and why there."""

    path: str
    port: Callable[[str, int], int]
    because: str
    source: str


@dataclass(frozen=True, slots=True)
class Signs:
    """How what runs already is told to be a distribution.

    Attributes:
        title: what a review calls it.
        versions: the newest of each line that the rules know, the newest line first.
        started: a regular expression that its command line, or its start script's, has in it.
        main: the main class of its JVM.
        keys: of its configuration, that no other one has.
        file: a regular expression of the file's name, where its keys are not its alone.
        images: words of which the name of its image has one.
        plain: of its vendor's image, which sets none of its variables itself.
        variables: what the variables begin with of which its image makes properties; empty where it has none.
        of_image: what follows, of those that the image reads for itself.
        handed_on: variables of its image, each with that of the start script as which it is handed on.
        resource: the kind of the resource of which an operator makes it.
    """

    title: str
    versions: tuple[str, ...]
    started: str
    main: str
    keys: tuple[str, ...] = ()
    file: str = ""
    images: tuple[str, ...] = ()
    plain: str = ""
    variables: str = ""
    of_image: tuple[str, ...] = ()
    handed_on: Mapping[str, str] = field(default_factory=dict)
    resource: str = ""


@dataclass(frozen=True, slots=True)
class Distribution:
    """A distribution of the REST proxy: all that sets it apart from others.

    Attributes:
        name: as ``kafka_rest_distribution`` has it.
        title: what findings call it.
        versions: those that the rules know.
        plan: plans the settings of one process.
        software: how it is installed and started.
        keys: what a person's own keys are held against.
        java: the Java of the host that a version needs; None where it brings its own, or needs none.
        groups: whether its consumers can speak the consumer protocol.
        jvm: the JVM whose heap is planned; None where there is none, so that instances follow from cores
            and load alone.
        clients: the version of Kafka's clients in a version of the proxy; None where its clients are others,
            with keys of their own.
        environment: further variables that its start script reads.
        identity: the key of an instance's id.
        ready: the kind of the probe that says that an instance does its job.
        health: what balancers ask each second; None where they produce a record, as readiness does.
        fleet_only: it serves local fleets, and is no product.
        streams: returns the commands, by service, that create its default stream and try it, given a host,
            its address and variables; None where it has topics, and the groups of a Kafka cluster.
        connection: what a connection that produces takes of a process.
        cost: what producing takes of the processors; that of kafka-rest where no other was measured.
        leaves_groups: whether the consumers of a process that stops leave their groups; else they are missed
            after their session, and the kit deletes them before it stops one.
        dialect: how clients speak with it.
        signs: how what runs already is told to be it; None where it is never found.
    """

    name: str
    title: str
    versions: Versions
    plan: Callable[[Sheet, RestProcess], None]
    software: Software
    keys: Keys
    java: Callable[[str], Java | None]
    groups: Groups
    jvm: Jvm | None = None
    clients: Callable[[str], str] | None = None
    environment: tuple[str, ...] = ()
    identity: str = "id"
    ready: str = "http_produce"
    health: Health | None = None
    fleet_only: bool = False
    streams: Callable[[str, str, KafkaRest], Mapping[str, tuple[PlannedInstance, ...]]] | None = None
    connection: Connection = SHARED_PRODUCER
    cost: Cost = KAFKA_REST
    leaves_groups: bool = True
    dialect: Dialect = field(default_factory=Dialect)
    signs: Signs | None = None

    def java_of(self, version: str) -> JavaNeed | None:
        """Return the Java of the host that a version needs; None for none."""
        java = self.java(version)
        return JavaNeed(java.least, f"{self.name} {version}{java.part}", java.source) if java else None

    def way(self, variables: KafkaRest) -> Way:
        """Return how the software comes to a host."""
        return variables.install or self.software.ways[0]

    def variables(self) -> tuple[str, ...]:
        """Return the environment variables that its start script reads."""
        return (*self.environment, *(self.jvm.options if self.jvm else ()))

    def deployed(self, host: str, number: int, variables: KafkaRest) -> dict[str, object]:
        """Return what roles and state tests need to know of an instance beside its settings.

        ``number`` counts the instances of the host from 0. JSON: ``install`` is a way; ``package``,
        ``package_version`` and ``home`` are there for a package alone; ``start`` is relative to the folder of
        the software, ``%i`` in it the instance's name; ``control`` (service, node) is there where Warden
        runs the instance; ``tls`` says whether its listener is encrypted, ``kafka_groups`` whether its
        consumers form groups of its Kafka cluster, ``leaves_groups`` whether they leave these when it stops;
        ``jvm_options`` are the variables whose words are flags of its JVM; ``dialect`` is what is otherwise
        than of kafka-rest; ``adopt`` names the predecessor from which it takes over its port, if any.
        """
        software, way = self.software, self.way(variables)
        found: dict[str, object] = {
            "install": way,
            "start": software.start.format(file=f"/etc/kafka-rest/%i/{software.properties}"),
            "properties": software.properties,
            "user": software.user,
            "own_user": not software.vendors_user,
            "ready": self.ready,
            "identity": self.identity,
            "tls": variables.tls is not None,
            "kafka_groups": self.streams is None,
            "leaves_groups": self.leaves_groups,
            "jvm_options": list(self.jvm.options) if self.jvm else [],
            "accept_queue": software.accept_queue,
            "dialect": self.dialect.model_dump(exclude_defaults=True),
        }
        if way == "package":
            found["package"] = variables.package or software.package
            found["package_version"] = variables.package_version or f"{variables.version}*"
            found["home"] = software.package_home.format(version=variables.version)
        if software.control and number == 0:
            found["control"] = {"service": software.control, "node": variables.node or host}
        for adopted in variables.adopt:
            if adopted.port == variables.first_port + number:
                found["adopt"] = adopted.model_dump(exclude_defaults=True)
        return found


@dataclass(frozen=True)
class RestProcess:
    """One instance of a host, with all that its settings follow from.

    ``number`` counts from 0 on the host; ``small_fetch`` says that its readers' fetches are bounded to keep
    the heap within its limit, ``balancer_keeps`` that the balancer keeps a consumer to its owning instance,
    and that its URL leads to another one if there are several; ``fetches`` how they fetch; ``java`` is the
    release on the host, None where nobody says; ``stall_s`` is the service level for a group that gets
    nothing; ``coordinator`` is what its groups find at the brokers; ``security`` is what its cluster asks
    of clients.
    """

    distribution: Distribution
    host: str
    address: str
    number: int
    instances: int
    servers: str
    balancer_url: str | None
    balancer_keeps: bool
    stall_s: float | None
    variables: KafkaRest
    facts: HostFacts
    small_fetch: bool
    fetches: Fetches
    java: int | None
    coordinator: Coordinator
    security: Security | None = None

    @property
    def scheme(self) -> str:
        """What its URLs begin with."""
        return "https" if self.variables.tls else "http"

    @property
    def port(self) -> int:
        """The port on which it listens."""
        return self.variables.first_port + self.number

    @property
    def id(self) -> str:
        """The name that tells it from all others, whatever hosts come and go."""
        return f"{self.host}-{self.port}"

    @cached_property
    def load(self) -> ProcessWorkload:
        """Its share of what its host carries."""
        connection = self.distribution.connection
        return load_of(self.variables, self.instances, connection, self.fetches, small_fetch=self.small_fetch)

    @property
    def requests(self) -> ProcessTraffic:
        """Its share of the requests that reach its host."""
        return self.load.requests
