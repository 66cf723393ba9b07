"""The properties of a Streams instance, who it is, and which records its producer can send."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Final

from kedge.plan.findings import WITH_INVENTORY, Finding, Reader
from kedge.plan.inventory.clusters import MESSAGE_MAX_BYTES
from kedge.plan.inventory.logins import login_of, names_protocol
from kedge.plan.inventory.security import Login, Security, plan_client
from kedge.plan.settings import MIB, Advice, Basis, Choice, Sheet
from kedge.plan.values import int_or_zero, value_of
from kedge.services.clients.client_checks import check_batch, check_consumer, check_producer
from kedge.services.clients.fetches import Fetches
from kedge.services.clients.profile_settings import within
from kedge.services.clients.profiles import JAVA_DEFAULTS
from kedge.services.host.variables import HostFacts
from kedge.services.streams import stores as streams_stores
from kedge.services.streams.changelogs import kept_of, put_changelogs, windowed
from kedge.services.streams.protocol import put_protocol
from kedge.services.streams.stores import InstanceState, Kept
from kedge.services.streams.variables import ARTICLE, CONFIG, StreamsApp, unset_values

UNIT: Final = "streams-app"
MEASURED: Final = "Streams memory measurements, single runs of 2 minutes"
BENCH: Final = "lab/bench/streams, throughput over the bound"
GUIDE: Final = "Kafka Streams documentation, Memory Management"

#: The class that the role renders, compiles and puts on the class path.
ROCKSDB_CLASS: Final = "kedge.BoundedRocksDb"
#: What tells the application's state and the memory of its stores in files (templates/streams).
REPORTERS: Final = "org.apache.kafka.common.metrics.JmxReporter,kedge.StateReporter"
_DOCUMENTED_BATCH: Final = MIB  # "1MB"
_DOCUMENTED_LINGER_MS: Final = 50
_STOCK_BATCH: Final = 16_384
#: 1 MB holds 175 of the article's records of 6 kB; smaller records fill as many with less memory.
_RECORDS_A_BATCH: Final = 175
_COMMIT_MS: Final = 30_000  # default of commit.interval.ms
_EXACTLY_ONCE_COMMIT_MS: Final = 5_000  # half of the transaction timeout that Streams sets
_BUFFER_MIN: Final = int(JAVA_DEFAULTS["buffer.memory"])
MESSAGE_BYTES: Final = "topic.max.message.bytes"
#: What keys of an application's consumers begin with.
CONSUMER_PREFIXES: Final = ("consumer.", "main.consumer.", "restore.consumer.", "")


@dataclass(frozen=True, slots=True)
class App:
    """One instance of an application on its host, with what its rules ask for.

    ``carriers`` is how many instances the state is spread over while one host is away; ``fetches`` is how its
    consumers fetch, ``java`` the host's release; ``takes`` is the largest message that its cluster takes, and
    ``security`` how clients speak with that.
    """

    variables: StreamsApp
    host: str
    facts: HostFacts
    number: int
    hosts: int
    carriers: int
    servers: str
    advice: Advice
    fetches: Fetches = field(default_factory=Fetches)
    java: int | None = None
    takes: int = MESSAGE_MAX_BYTES
    security: Security | None = None
    reader: Reader = WITH_INVENTORY

    @property
    def name(self) -> str:
        """The instance's name: the application and a number that begins at 0 on each host."""
        return f"{self.variables.name}-{self.number}"

    @property
    def folder(self) -> str:
        """Its configuration folder."""
        return f"/etc/{UNIT}/{self.name}"

    @property
    def dropin(self) -> str:
        """Its unit's own limits."""
        return f"/etc/systemd/system/{UNIT}@{self.name}.service.d/10-kedge.conf"

    @property
    def state_dir(self) -> str:
        """Where its stores lie: two instances never share a folder."""
        base = self.variables.state_dir
        return f"{base}/{self.name}" if base else f"/var/lib/{UNIT}/{self.name}"

    def state(self, standbys: int) -> InstanceState:
        """Return its state with that many standbys a partition."""
        stores, measured = self.variables.stores, self.advice == "measured"
        return streams_stores.state(stores, self.carriers, standbys, measured=measured)

    def sheet(self, own: dict[str, Any], variable: str) -> Sheet:
        """Return an empty sheet that speaks of this instance, whose own values stand in ``variable``."""
        return Sheet(f"{self.host} streams_app@{self.name}", self.advice, own, variable, self.reader)


def plan_properties(sheet: Sheet, app: App) -> tuple[int, int]:
    """Plan streams.properties; return the standbys and the producer buffers of all threads in bytes."""
    spec, file = app.variables, f"{app.folder}/streams.properties"

    def put(key: str, rule: str, value: str | int, because: str, source: str = CONFIG) -> str:
        return sheet.put(file, key, f"streams.{rule}", Choice(value, because, source, "derived")) or ""

    put("application.id", "identity", spec.name, "all instances of the application are one group")
    put("bootstrap.servers", "cluster", app.servers, f"the brokers of cluster {spec.cluster}")
    _login(sheet, app, file)
    identity = f"{spec.name}-{app.host}-{app.number}"
    put("client.id", "identity", identity, "application, host and number: unique, and stable as hosts change")
    put_protocol(sheet, file, spec, identity)
    threads = put_threads(sheet, file, spec, app.facts)
    because = "a folder of its own: the default lies under /tmp and goes with a restart"
    if held := streams_stores.disk_bytes(spec.stores, app.carriers) / 1e6:
        because += (
            f"; its stores hold about {held:.0f} MB there before compression, and an estimated twice as much "
            "while they are compacted"
        )
    put("state.dir", "state", app.state_dir, because)
    because = "tells the state and the memory of the stores in files, without a port; JMX as ever"
    put("metric.reporters", "reporter", REPORTERS, because)
    _latency(sheet, app, file)
    written = _written(app, threads)
    batch = int_or_zero(value_of(sheet, "producer.batch.size"))
    because = (
        f"a batch of {batch} bytes for each of {written} partitions that a thread writes; 32 MiB at least"
    )
    planned = Choice(
        max(_BUFFER_MIN, written * batch),
        because,
        "Configure Kafka for High Throughput, Memory Allocation",
        "documented" if written * batch <= _BUFFER_MIN else "derived",
    )
    buffer = int_or_zero(sheet.put(file, "producer.buffer.memory", "streams.buffer", planned))
    if buffer < written * batch:
        sheet.warning(
            "streams.buffer",
            f"producer.buffer.memory is {buffer}, and {written} partitions x {batch} bytes are "
            f"{written * batch}: send() will block",
            f"set producer.buffer.memory to {written * batch} or more, or leave it out",
            "producer.buffer.memory",
        )
    kept = kept_of(spec)
    standbys = _standbys(sheet, app, file, kept)
    if spec.exactly_once:
        put("processing.guarantee", "guarantee", "exactly_once_v2", "exactly_once is true")
    if windowed(spec):
        put_changelogs(sheet, file, spec, app.carriers, kept)
    if spec.stores:
        put(
            "rocksdb.config.setter",
            "rocksdb",
            ROCKSDB_CLASS,
            "bounds the memory of all stores together",
            GUIDE,
        )
    sheet.rest_of_own(file, "streams.own")
    _check_clients(sheet, spec)
    return standbys, threads * buffer


def _check_clients(sheet: Sheet, spec: StreamsApp) -> None:
    """Find what keeps the clients from starting, once all keys are put, and what exactly-once takes back."""
    once = value_of(sheet, "processing.guarantee").startswith("exactly_once")
    guarantee = {"processing.guarantee": "exactly_once_v2"} if once else {}
    own = {key: str(value) for key, value in spec.settings.items()} | guarantee
    given = {key.removeprefix("producer."): value for key, value in unset_values(spec.version, own).items()
             if key.startswith("producer.")}  # fmt: skip
    forced = {"enable.idempotence": "true", "transactional.id": "of its threads"} if once else {}
    check_producer(sheet, "the application", "producer.", spec.version, "the application ends as it starts",
                   shared=("",), given=given, forced=forced)  # fmt: skip
    check_consumer(sheet, "the application", "main.consumer.", spec.version, "consumer.", "")
    for prefix in ("consumer.", "main.consumer."):
        key = f"{prefix}auto.offset.reset"
        if key in own and own[key] == "latest":
            sheet.warning(
                "streams.offsets",
                f"{key} is latest: records of a partition without a committed offset are skipped, those "
                "written before the first start and those of new partitions",
                f"take {key} out: Kafka Streams sets earliest",
                key,
            )
    if (folder := value_of(sheet, "state.dir")).startswith("/tmp"):  # noqa: S108 - what is looked for
        sheet.warning(
            "streams.state",
            f"state.dir is {folder}{'' if 'state.dir' in own else ' by default'}: what empties /tmp takes "
            "the stores, and they are restored from their changelogs",
            "set state.dir to a folder that stays",
            "state.dir",
        )
    if not once:
        return
    commit, limit = "commit.interval.ms", "producer.transaction.timeout.ms"
    most = int_or_zero(own.get(limit, unset_values(spec.version, own)[limit]))
    if (interval := int_or_zero(value_of(sheet, commit))) > most:
        sheet.error(
            "streams.transactions",
            f"{commit} is {interval}, above the {most} ms of {limit}: the application refuses to start",
            f"set {commit} to {most // 2} or less, or take it out",
            commit,
        )
    for key, value, held in (
        ("producer.enable.idempotence", "false", "true"),
        ("consumer.isolation.level", "read_uncommitted", "read_committed"),
        ("main.consumer.isolation.level", "read_uncommitted", "read_committed"),
    ):
        if own.get(key) == value:
            sheet.warning(
                "streams.transactions",
                f"{key} is {value}, and under exactly-once Kafka Streams sets {held} over it",
                f"take {key} out",
                key,
            )


def _login(sheet: Sheet, app: App, file: str) -> None:
    """Plan how it speaks with its cluster, unless its own settings name a protocol."""
    spec = app.variables
    if names_protocol(spec.settings):
        return
    given = Login(spec.user, spec.password, spec.client_tls, spec.keytab)
    login = login_of(sheet, "streams_app", app.security, given)
    plan_client(sheet, file, "", f"{app.folder}/cluster", app.security, login, spec.version)


def _latency(sheet: Sheet, app: App, file: str) -> None:
    spec = app.variables
    section = f"{ARTICLE}, Minimise overall latency"
    most = _EXACTLY_ONCE_COMMIT_MS if spec.exactly_once else _COMMIT_MS
    seen = (
        "its results are read after a commit" if spec.exactly_once else "caches pass results on at a commit"
    )
    because = (
        f"half of the {spec.latency_ms} ms wanted, {most} at most: larger is more throughput, and {seen}"
    )
    interval = min(most, max(1, spec.latency_ms // 2))
    basis: Basis = "documented" if interval == _COMMIT_MS else "estimate"
    commit = Choice(interval, because, section, basis)
    planned = sheet.put(file, "commit.interval.ms", "streams.commit", commit)
    if int_or_zero(planned) > spec.latency_ms and sheet.reader.known("streams_app_latency_ms"):
        wanted = f"{sheet.name('streams_app_latency_ms')} {spec.latency_ms}"
        sheet.warning(
            "streams.latency",
            f"commit.interval.ms is {planned}, above {wanted}: {seen}",
            f"set commit.interval.ms to {commit.value} or less",
            "commit.interval.ms",
        )
    batch = min(
        _DOCUMENTED_BATCH, max(_STOCK_BATCH, math.ceil(_RECORDS_A_BATCH * spec.record_bytes / 1024) * 1024)
    )
    because = (
        f"{_STOCK_BATCH} bytes hold {_STOCK_BATCH / spec.record_bytes:.1f} records of {spec.record_bytes} "
        f"bytes, {batch} hold {batch // spec.record_bytes}: fewer requests"
    )
    documented = Choice(_DOCUMENTED_BATCH, "1 MB, so that there are fewer requests", section, "documented")
    measured = Choice(batch, because, f"{section}; streams_app_record_bytes", "derived")
    # One size for all topics that it writes to: its own internal ones, and those of its results.
    takes = min(app.takes, int_or_zero(spec.settings.get(MESSAGE_BYTES)) or app.takes)
    taker = f"a topic of cluster {spec.cluster}"
    key, fits = "producer.batch.size", within(documented, takes, taker)
    if fits is not documented:  # no longer what the document says
        documented = measured = fits if sheet.advice == "documented" else within(measured, takes, taker)
    sheet.put(file, key, "streams.batch", documented, measured)
    check_batch(sheet, "the application", key, takes, taker, "streams.batch")
    linger = min(_DOCUMENTED_LINGER_MS, spec.latency_ms // 4)
    because = (
        f"{_DOCUMENTED_LINGER_MS} ms to fill a batch, a quarter of the {spec.latency_ms} ms wanted at most"
    )
    basis = "documented" if linger == _DOCUMENTED_LINGER_MS else "estimate"
    documented = Choice(
        _DOCUMENTED_LINGER_MS, f"{_DOCUMENTED_LINGER_MS} ms to fill a batch", section, "documented"
    )
    measured = Choice(linger, because, f"{section}; streams_app_latency_ms", basis)
    sheet.put(file, "producer.linger.ms", "streams.linger", documented, measured)


def _written(app: App, threads: int) -> int:
    """Return how many partitions one thread's producer writes to: changelogs of its tasks, and outputs."""
    changelogs = streams_stores.changelogs_of(app.variables.stores, app.carriers, threads)
    return changelogs + app.variables.output_partitions


def _standbys(sheet: Sheet, app: App, file: str, kept: Kept) -> int:
    spec = app.variables
    takes = streams_stores.restore_seconds(spec, app.carriers, kept)
    rate = spec.restore_mb_per_s or streams_stores.RESTORE_MB_PER_S
    said = "measured" if spec.restore_mb_per_s else "assumed until it is measured"
    away = "while a host is away, " if app.hosts > 1 else ""
    whose = f"one of {app.carriers} instances" if app.carriers > 1 else "the instance"
    what = f"{away}{whose} restores its stores in about {takes:.0f} s at {rate:g} MB/s ({said})"
    wanted = 1 if takes > spec.restore_s and app.hosts > 1 else 0
    planned = spec.standbys if spec.standbys is not None else wanted
    if spec.group_protocol == "streams":
        if planned:
            sheet.note(
                "streams.standbys",
                f"{what}; under group_protocol streams, standbys are the group's, not the application's",
                f"set num.standby.replicas={planned} on group {spec.name} with kafka-configs",
                variable="streams_app_standbys",
            )
        return planned
    because = f"{what}, {spec.restore_s} s are wanted"
    if spec.standbys is not None:
        because = f"standbys is {planned}; {because}"
    settled = spec.standbys is not None or spec.restore_mb_per_s or not takes
    basis: Basis = "derived" if settled else "estimate"
    key = "num.standby.replicas"
    value = int_or_zero(
        sheet.put(
            file,
            key,
            "streams.standbys",
            Choice(planned, because, f"{ARTICLE}, Stateful Operation and Change log restore process", basis),
        )
    )
    # A person's own key wins over the variable.
    variable = key if key in spec.settings else sheet.name("streams_app_standbys")
    if takes > spec.restore_s and not value:
        sheet.warning(
            "streams.restore",
            f"{what}, and {sheet.name('streams_app_restore_s')} is {spec.restore_s}",
            "use standbys and a second host, or shorter windows"
            if app.hosts == 1
            else f"set {variable} to 1",
            key,
        )
    if value >= app.hosts * spec.instances_per_host:
        sheet.warning(
            "streams.standbys",
            f"num.standby.replicas is {value}, and there are {app.hosts * spec.instances_per_host} "
            "instances: a standby is never on the instance of its partition",
            f"set {variable} to {app.hosts * spec.instances_per_host - 1} or less",
            key,
        )
    return value


def threads_of(spec: StreamsApp, facts: HostFacts) -> int:
    """Return how many stream threads an instance runs on a host."""
    own = int_or_zero(spec.settings.get("num.stream.threads"))
    return own or spec.threads or max(1, facts.cores // spec.instances_per_host)


def put_threads(sheet: Sheet, file: str, spec: StreamsApp, facts: HostFacts) -> int:
    """Plan the stream threads; return how many there are."""
    threads, each = threads_of(spec, facts), spec.instances_per_host
    because = (
        f"threads is {spec.threads}"
        if spec.threads
        else f"{facts.cores} cores for {each} instances on the host"
    )
    sheet.put(file, "num.stream.threads", "streams.threads", Choice(threads, because, CONFIG, "derived"))
    return threads


_MAX_REQUEST_BYTES: Final = MIB  # default of max.request.size


def check_records(spec: StreamsApp, brokers: int | None, reader: Reader = WITH_INVENTORY) -> list[Finding]:
    """Return what refuses an application's records; ``brokers`` take so many bytes, None by default."""
    sheet = Sheet(f"application {spec.name}", "measured", {}, "streams_app_settings", reader)
    size = _written_bytes(spec)
    request = int_or_zero(spec.settings.get("producer.max.request.size")) or _MAX_REQUEST_BYTES
    if size > request:
        sheet.error(
            "streams.record_bytes",
            f"records have {size} bytes, and the application's producer refuses more than {request}",
            f"set producer.max.request.size to {2 * size}{sheet.inside}",
            "producer.max.request.size",
        )
    own = int_or_zero(spec.settings.get(MESSAGE_BYTES))
    takes = own or brokers or MESSAGE_MAX_BYTES
    if size <= takes:
        return sheet.findings
    taker = (
        f"{MESSAGE_BYTES} is {takes}"
        if own
        else f"cluster {spec.cluster} takes messages of {takes} bytes{'' if brokers else ' by default'}"
    )
    said = f"; kafka_clusters.{spec.cluster}.message_max_bytes says it of its topics"
    packed = str(spec.settings.get("producer.compression.type", "none")) != "none"
    report = sheet.warning if packed else sheet.error
    report(
        "streams.record_bytes",
        f"{taker}, and the application writes records of {size}: they are refused"
        + (", unless they compress so far" if packed else ""),
        f"set {MESSAGE_BYTES} to {2 * size}{sheet.inside}" + ("" if own else sheet.either(said, "")),
        MESSAGE_BYTES,
    )
    return sheet.findings


def _written_bytes(spec: StreamsApp) -> int:
    """Return the largest record that an application is known to write: to changelogs, and as results."""
    stores = [store.record_bytes or spec.record_bytes for store in spec.stores if store.changelog]
    return max([*stores, *([spec.record_bytes] if spec.output_partitions or not stores else [])])
