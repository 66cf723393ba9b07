"""Puts the parts of all files together into processes, and each into an inventory that plans it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from kedge.evidence.secrets import holds_secret, looks_secret, without_secrets
from kedge.keys.catalogue import Component, defaults, every_key, known_keys
from kedge.plan.findings import Finding, Reader
from kedge.plan.hosts import Inventory
from kedge.plan.inventory.clusters import MESSAGE_MAX_BYTES
from kedge.plan.jvm_flags import maximum_heap_mib, share_mib
from kedge.plan.values import int_or_zero
from kedge.plan.version_numbers import numbers
from kedge.review.containers import LOOPBACK, LimitNames
from kedge.review.kinds import JVM_FLAGS, SIGNS, FileFindings, handed_on
from kedge.review.reading import ReviewError, Value, comes_later, settled
from kedge.review.resources import connector_of, differing_names
from kedge.services.mirror.keys import unset_values as unset_mirror
from kedge.services.mirror.topology import NO_CLUSTER
from kedge.services.mirror.variables import BESIDE as BESIDE_MIRRORS
from kedge.services.mirror.variables import MirrorFlow
from kedge.services.rest.distributions import DISTRIBUTIONS
from kedge.services.rest.keys import check_rest_keys, rest_defaults
from kedge.services.rest.variables import RestWorkload
from kedge.services.streams.variables import BESIDE as BESIDE_STREAMS
from kedge.services.streams.variables import StreamsApp, read_by
from kedge.services.streams.variables import unset_values as unset_streams

#: The host and the clusters of the inventory that a review plans.
HOST: Final = "today"
SOURCE, TARGET = "source", "target"
FLOW: Final = "today"
#: The newest of each line that the rules know, the newest line first.
VERSIONS: Final[Mapping[str, tuple[str, ...]]] = {
    **{name: signs.versions for name, signs in SIGNS.items()},
    "classic": ("3.9.2",),
    "mm2": ("4.3.1", "3.9.2"),
    "streams": ("4.3.1", "3.9.2"),
    "consumer": ("4.3.1", "3.9.2"),
    "producer": ("4.3.1", "3.9.2"),
}
TITLES: Final[Mapping[str, str]] = {
    **{name: signs.title for name, signs in SIGNS.items()},
    "classic": "a classic MirrorMaker",
    "mm2": "MirrorMaker 2 in dedicated mode",
    "streams": "a Kafka Streams application",
    "consumer": "a consumer of Kafka's Java client",
    "producer": "a producer of Kafka's Java client",
    "haproxy": "HAProxy",
    "sysctl": "kernel settings",
}
#: What a person may allow to happen to records, by the names of service_levels.delivery.
ALLOWED: Final = ("lost", "duplicated", "reordered")
#: What a plan asks for of software that is there already.
ARCHIVE: Final = {"kafka_rest_archive": "today.tar.gz", "kafka_rest_archive_checksum": "1" * 64}
#: Options of classic MirrorMaker, and the variable of ours that stands for each.
_OPTIONS: Final[Mapping[str, str]] = {
    "num.streams": "MIRROR_NUM_STREAMS",
    "offset.commit.interval.ms": "MIRROR_OFFSET_COMMIT_INTERVAL_MS",
    "abort.on.send.failure": "MIRROR_ABORT_ON_SEND_FAILURE",
}
#: Their defaults.
_UNSET_OPTIONS: Final = {
    "MIRROR_NUM_STREAMS": "1",
    "MIRROR_OFFSET_COMMIT_INTERVAL_MS": "60000",
    "MIRROR_ABORT_ON_SEND_FAILURE": "true",
}
#: Of one MirrorMaker 2: each two of them may be a flow.
_CLUSTERS: Final = 30
#: Directives of a unit that the plan sets too.
UNIT: Final = ("MemoryMax", "LimitNOFILE", "TasksMax", "TimeoutStopSec")
_CORES: Final = "CPUQuota"
#: Of a unit: infinity and shares of the host are no number of bytes.
_SIZE: Final = re.compile(r"(\d{1,18})([KMGT]?)B?", re.IGNORECASE)
_SCALE: Final = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}
#: What connect-mirror-maker.sh and connect-distributed.sh take, and kafka-run-class.sh, of Kafka 3.9 and 4.3.
_UNSET_HEAPS: Final = {"mm2": "-Xms256M -Xmx2G", "classic": "-Xmx256M"}
#: What Strimzi gives MirrorMaker 2 of its memory's limit (KafkaConnectCluster, JvmOptionUtils).
_OPERATED_PERCENT: Final = 75
_SHELL: Final = ("KAFKA_HEAP_OPTS", "KAFKA_JVM_PERFORMANCE_OPTS", "KAFKA_OPTS", "JMX_PORT", "LOG_DIR")


@dataclass(frozen=True, slots=True)
class RunningProcess:
    """One process as it runs today.

    Attributes:
        kind: what it is.
        where: the files that say so.
        values: keys of its own configuration; of a classic mirror those of the consumer.
        producer: of a classic mirror, the keys of the producer.
        environment: variables, flags of the JVM among them.
        unit: directives that the plan has as well.
        arguments: options of its command line.
        version: what an image, or a jar, says.
        flow: of MirrorMaker 2, source and target.
        commands: its whole command lines, which everybody on its host may read.
        cores: what its unit or container limits it to; None where nothing does.
        files: configurations that its commands name.
        ports: of a container with a network of its own, its published ports: outside, by those inside.
        words: the names that its files have for keys, by what keys begin with.
        findings: what reading its files has shown already.
        variables: what the variables begin with that its keys are written as; empty where none are.
        limits: what its file calls the directives of a unit that bound it; a unit's own where it is None.
        starts: its files show all that its start script is given, unless they are ``lacking``.
        lacking: some of what gives it variables was not given.
    """

    kind: str
    where: str
    values: Mapping[str, Value]
    producer: Mapping[str, Value]
    environment: Mapping[str, Value]
    unit: Mapping[str, Value]
    arguments: Mapping[str, Value]
    version: str = ""
    flow: tuple[str, str] = (SOURCE, TARGET)
    commands: tuple[Value, ...] = ()
    cores: int | None = None
    files: tuple[str, ...] = ()
    ports: Mapping[str, Value] | None = None
    words: tuple[tuple[str, str], ...] = ()
    findings: tuple[Finding, ...] = ()
    limits: LimitNames | None = None
    variables: str = ""
    starts: bool = False
    lacking: bool = False

    @property
    def lacks(self) -> tuple[str, ...]:
        """The configurations that it is started with, where none of them was given."""
        return () if self.values or self.producer else self.files

    @property
    def operated(self) -> bool:
        """Whether an operator makes its command."""
        return self.limits is not None and not self.limits.compose and not self.commands

    @property
    def own(self) -> dict[str, Value]:
        """Everything that it says, by its key; a key of the producer behind those of the consumer."""
        return {**self.producer, **self.values, **self.environment, **self.unit, **self.arguments}


def with_their_files(parts: Sequence[FileFindings]) -> tuple[list[FileFindings], list[str]]:
    """Return the parts, each container with the files that give it variables; and what was not given.

    What a container has in its own environment wins, as it does where it runs.
    """
    taken: list[FileFindings] = []
    missing = []
    found = []
    for part in parts:
        values: dict[str, Value] = {}
        environment: dict[str, Value] = {}
        lacking = False
        for name in part.elsewhere:
            given = [p for p in parts if p.where.rpartition("/")[2] == name and p.kind != "other"]
            if given:
                taken += given
                # Of several files the last one wins.
                values |= given[0].values
                environment |= given[0].environment
            else:
                lacking = True
                missing.append(f"{part.where}: variables of {name}; {_given(name)}")
        one = replace(
            part,
            values={**values, **part.values},
            environment={**environment, **part.environment},
            lacking=lacking,
        )
        nothing = part.elsewhere and not (one.values or one.environment or one.arguments or one.files)
        found += [] if nothing else [one]
    return [handed_on(part) for part in found if part not in taken], missing


def _given(name: str) -> str:
    if name.startswith(("Secret ", "service ")):
        return "nothing can be said of them"
    if name.startswith("ConfigMap "):
        return "add its manifest to the same file, after a line of ---"
    return "add that file"


def with_connectors(parts: Sequence[FileFindings]) -> tuple[list[FileFindings], list[str]]:
    """Return the parts, the connectors of a flow and their worker as one; and what says too little.

    A worker's own keys of producers hold for the connectors that it runs.
    """
    flows: dict[tuple[str, str], list[FileFindings]] = {}
    for part in parts:
        if part.connector:
            flows.setdefault(part.ends, []).append(part)
    workers = [part for part in parts if part.kind == "other" and _WORKER in part.values]
    worker = workers[0] if flows and len(workers) == 1 else None
    found = [part for part in parts if not part.connector and part is not worker]
    missing = []
    for ends, members in flows.items():
        if not any(part.connector == "Source" for part in members):
            missing.append(
                f"{members[0].where}: one connector of {', '.join(ends)}; add its MirrorSourceConnector"
            )
            continue
        found.append(_joined(ends, members, worker))
    return found, missing


def _joined(
    ends: Sequence[str], members: Sequence[FileFindings], worker: FileFindings | None
) -> FileFindings:
    begin = f"{'->'.join(ends)}."
    values: dict[str, Value] = {}
    findings: list[Finding] = []
    for part in members:
        for key, value in part.values.items():
            only = connector_of(bare := key.removeprefix(begin))
            if key == bare or only in ("", part.connector):
                values.setdefault(key, value)
            else:
                what = f"Mirror{part.connector}Connector does not read {bare}, and Mirror{only}Connector does"
                findings.append(Finding("warning", "keys.unknown", value.place, what,
                                        f"write {bare} for Mirror{only}Connector"))  # fmt: skip
    own = {p.connector: {k.removeprefix(begin): v for k, v in p.values.items()} for p in members}
    findings += differing_names(own)
    of_worker = worker.values if worker else {}
    theirs = {f"{ends[1]}.{k}": v for k, v in of_worker.items() if k.startswith("producer.")}
    for bare in ("key.converter", "value.converter"):
        held = values.get(f"{begin}{bare}") or of_worker.get(bare)
        if held and not held.text.endswith("ByteArrayConverter"):
            what = f"{bare} is {held.text.rpartition('.')[2]}: it changes every record that is copied"
            fix = f"write {bare} = org.apache.kafka.connect.converters.ByteArrayConverter for the connector"
            findings.append(Finding("error", "review.converter", held.place, what, fix))
    where = ", ".join(part.where for part in (*members, *([worker] if worker else [])))
    first = next(part for part in members if part.connector == "Source")
    words = (*((key, f"{key.removeprefix(f'{ends[1]}.')} of its worker") for key in theirs), *first.words)
    return replace(first, where=where, values={**theirs, **values}, words=words, findings=tuple(findings))


#: What the configuration of a worker of Connect has, and that of no connector.
_WORKER: Final = "offset.storage.topic"


def processes_of(parts: Sequence[FileFindings]) -> list[RunningProcess]:
    """Return the processes that the parts of all files make together.

    A unit and an environment belong to the one process that they name, or to the only one there is; consumer
    and producer properties that are given together, of two clusters, are a classic mirror's.
    """
    loose = [part for part in parts if part.kind == "environment"]
    commands = [
        p for p in parts if p.kind != "other" and not p.values and (p.arguments or p.files or p.environment)
    ]
    commands = [p for p in commands if p.kind not in ("environment", "haproxy", "sysctl")]
    configured = [part for part in parts if part.values and part.kind not in ("haproxy", "sysctl", "other")]
    configured = [_as_started(part, commands) for part in configured]
    found = [_process(part, _for(part, commands, configured)) for part in _paired(configured, commands)]
    alone = [part for part in commands if not any(_same(part, one) for one in found)]
    found += [_process(part, []) for part in alone]
    if loose and not found:
        kinds = {kind for part in loose if (kind := _environment_of(part))}
        if len(kinds) != 1:
            places = ", ".join(part.where for part in loose)
            raise ReviewError(
                f"{places}: sets variables of no process of Kafka's; name its configuration as well"
            )
        found = [_process(FileFindings(kinds.pop(), loose[0].where), [])]
    for part in loose:
        fitting = [p for p in found if _fits(part, p)]
        if len(fitting) > 1:
            names = " and ".join(p.where for p in fitting)
            raise ReviewError(f"{part.where}: may belong to {names}; review one of them at a time")
        if fitting:
            found[found.index(fitting[0])] = _with(fitting[0], part)
    return [flow for one in found for flow in _flows(one)]


def _as_started(part: FileFindings, commands: Sequence[FileFindings]) -> FileFindings:
    """Return a REST proxy's configuration as that of the proxy whose command names it.

    Builds of kafka-rest read one file, so that its keys and name do not tell them apart.
    """
    name = part.where.rpartition("/")[2]
    kinds = {one.kind for one in commands if one.kind in SIGNS and name in one.files.values()}
    return replace(part, kind=kinds.pop()) if part.kind in SIGNS and len(kinds) == 1 else part


def _paired(configured: Sequence[FileFindings], commands: Sequence[FileFindings]) -> list[FileFindings]:
    """Return the configurations, a consumer and a producer that belong together as one."""
    consumers = [part for part in configured if part.kind == "consumer"]
    producers = [part for part in configured if part.kind == "producer"]
    mirrored = any(part.kind == "classic" for part in commands)
    one_each = len(consumers) == 1 and len(producers) == 1
    if one_each and (mirrored or _mirrors(consumers[0].values, producers[0].values)):
        both = replace(consumers[0], kind="classic", where=f"{consumers[0].where} and {producers[0].where}")
        findings = (*consumers[0].findings, *producers[0].findings)
        pair = [replace(both, arguments=producers[0].values, heading="pair", findings=findings)]
    elif mirrored and len(consumers) + len(producers) == 1:
        one = (consumers + producers)[0]
        values, producer = (one.values, {}) if consumers else ({}, one.values)
        pair = [replace(one, kind="classic", values=values, arguments=producer, heading="pair")]
    else:
        pair = [*consumers, *producers]
    return [part for part in configured if part.kind not in ("consumer", "producer")] + pair


def _mirrors(consumer: Mapping[str, Value], producer: Mapping[str, Value]) -> bool:
    """Return whether a consumer and a producer are a mirror's: of two clusters, without a serializer."""
    if any(key.endswith("serializer") for key in (*consumer, *producer)):
        return False
    servers = [one["bootstrap.servers"].text for one in (consumer, producer) if "bootstrap.servers" in one]
    return len(servers) < 2 or servers[0] != servers[1]


def _for(
    part: FileFindings, commands: Sequence[FileFindings], configured: Sequence[FileFindings]
) -> list[FileFindings]:
    """Return the commands that start what a part configures."""
    fitting = [one for one in commands if one.kind == part.kind]
    kin = [one for one in configured if one.kind == part.kind]
    if part.heading == "pair" or len(kin) == 1:
        return fitting
    name = re.split(r"[/,]", part.where)[-1]
    return [one for one in fitting if name in one.files.values()]


def _same(part: FileFindings, process: RunningProcess) -> bool:
    return part.kind == process.kind and part.where in process.where


def _process(part: FileFindings, commands: Sequence[FileFindings]) -> RunningProcess:
    pair = part.heading == "pair"
    where = ", ".join(dict.fromkeys([part.where, *(c.where for c in commands)]))
    process = RunningProcess(
        part.kind,
        where,
        _settled(part.values),
        _settled(part.arguments) if pair else {},
        {},
        {},
        {} if pair else part.arguments,
        part.version,
    )
    for one in (replace(part, arguments={}) if pair else part, *commands):
        process = _with(process, one)
    return process


def _with(process: RunningProcess, part: FileFindings) -> RunningProcess:
    environment = {**process.environment, **_settled(part.environment)}
    if flags := environment.pop(JVM_FLAGS, None):
        environment = {**_flags(process.kind, flags), **environment}
    options = {k: v for k, v in part.arguments.items() if not k.endswith(".config")}
    places = part.where if part.where in process.where else f"{process.where}, {part.where}"
    return replace(
        process,
        where=places if process.where else part.where,
        environment=environment,
        unit={**process.unit, **{k: v for k, v in part.unit.items() if k in UNIT}},
        arguments={**process.arguments, **_settled(options)},
        version=process.version or part.version,
        commands=(*process.commands, *([part.command] if part.command else ())),
        cores=_cores(part.unit) or process.cores,
        files=(*process.files, *part.files.values()),
        ports=process.ports if part.ports is None else part.ports,
        words=process.words or part.words,
        findings=(*process.findings, *part.findings),
        limits=process.limits or part.limits,
        # Where a file has the keys, a container beside it does not name them.
        variables=process.variables or (part.variables if part.values or not process.values else ""),
        starts=process.starts or part.starts,
        lacking=process.lacking or part.lacking,
    )


def _cores(unit: Mapping[str, Value]) -> int | None:
    """Return the cores of a quota, as a JVM counts them: the next whole number."""
    share = re.fullmatch(r"(\d{1,9})%", unit[_CORES].text.strip()) if _CORES in unit else None
    return max(1, math.ceil(int(share[1]) / 100)) if share else None


def _settled(values: Mapping[str, Value]) -> dict[str, Value]:
    return {key: settled(value) for key, value in values.items()}


def _flags(kind: str, flags: Value) -> dict[str, Value]:
    """Return the variables that would put these flags on a command line."""
    jvm = DISTRIBUTIONS[kind].jvm if kind in SIGNS else None
    options = jvm.options if jvm else _SHELL
    performance = next((name for name in options if "PERFORMANCE" in name), None)
    listed = flags.text.split()
    # GCTimeRatio says when a heap grows (kedge/plan/jvm_flags.py).
    sizes = ("-Xmx", "-Xms", "-XX:GCTimeRatio=", "-XX:MaxRAMPercentage=")
    heap = [word for word in listed if word.startswith(sizes)]
    tuned = [word for word in listed if word.startswith(("-XX:", "-Xlog", "-server")) and word not in heap]
    first = jvm.heap if jvm else "KAFKA_HEAP_OPTS"
    named = {first: heap, performance: tuned} if performance else {first: heap + tuned}
    return {name: Value(" ".join(some), flags.place) for name, some in named.items() if some}


def _environment_of(part: FileFindings) -> str | None:
    """Return what an environment is of; of a REST proxy, the first distribution that it may be of."""
    if part.starts:
        return "classic"
    names = " ".join([part.where, *part.environment, *part.files, *part.files.values()])
    for name, signs in SIGNS.items():
        jvm = DISTRIBUTIONS[name].jvm
        own = [option for option in (jvm.options if jvm else ()) if option.startswith("KAFKA")]
        if any(option in part.environment for option in own) or (signs.file and re.search(signs.file, names)):
            return name
    return "classic" if "mirror" in names.lower() else None


def _fits(part: FileFindings, process: RunningProcess) -> bool:
    named = _environment_of(part)
    if named is None:
        return process.kind in ("classic", "mm2", "streams", *SIGNS)
    return process.kind in (SIGNS if named in SIGNS else ("classic", "mm2"))


def _flows(process: RunningProcess) -> Iterator[RunningProcess]:
    """Yield a process of MirrorMaker 2 once for each of its flows."""
    if process.kind != "mm2":
        yield process
        return
    clusters = clusters_of(process)
    pairs = [(source, target) for source in clusters for target in clusters if source != target]
    enabled = [
        (source, target)
        for source, target in pairs
        if (value := process.values.get(f"{source}->{target}.enabled"))
        and value.text.strip().lower() == "true"
    ]
    for flow in enabled or [pairs[0] if pairs else (SOURCE, TARGET)]:
        yield replace(process, flow=flow)


def clusters_of(process: RunningProcess) -> list[str]:
    """Return the names of the clusters of a MirrorMaker 2."""
    named = process.values.get("clusters")
    names = [name for name in re.split(r"[,\s]+", named.text) if name] if named else []
    if named and comes_later(named.text):
        # Of names that are put in later the keys say those that the file is about.
        there = [name for name in names if f"{name}.bootstrap.servers" in process.values]
        names = list(dict.fromkeys([*(there if len(there) == len(names) else ()), *_aliases(process.values)]))
    if named and len(names) > _CLUSTERS:
        raise ReviewError(
            f"{named.place}: names {len(names):,} clusters, and {_CLUSTERS} are reviewed; take some out"
        )
    return names


def _aliases(keys: Iterable[str]) -> Iterator[str]:
    """Yield what the keys of a MirrorMaker 2 name as clusters."""
    for key in keys:
        named = re.match(r"([^\s.]+)->([^\s.]+)\.", key) or re.fullmatch(
            r"([^\s.]+)\.bootstrap\.servers", key
        )
        yield from (name for name in (named.groups() if named else ()) if name not in NO_CLUSTER)


def versions_of(process: RunningProcess) -> tuple[str, str]:
    """Return the version that the process is planned as, and why that one."""
    known = VERSIONS[process.kind]
    said = numbers(process.version)
    # Of MirrorMaker 2 with other words for its keys, a resource says it.
    of_resource = process.kind == "mm2" and process.words
    says = f"its {'spec.version is' if of_resource else 'image or its jars say'} {process.version}"
    if any(said) and process.kind in SIGNS and DISTRIBUTIONS[process.kind].versions.have(process.version):
        return process.version, says
    if any(said):
        version = next((v for v in known if numbers(v)[0] == said[0]), known[-1])
        if version == process.version:
            return version, says
        return version, f"{says}, which the rules do not know: held against {version}"
    unread = {version: set(_unread(process, version)) for version in known}
    version = min(known, key=lambda one: len(unread[one]))
    if newest := unread[known[0]] - unread[version]:
        line = ".".join(version.split(".")[:2])
        return version, f"{', '.join(sorted(newest)[:3])} is read up to {line} alone"
    return version, _why(process, version)


def _why(process: RunningProcess, version: str) -> str:
    if process.kind != "classic":
        return f"nothing says which; its keys are those of {version}"
    old = "zookeeper.connect is the old consumer's, which Kafka has no more since 2.0"
    if "zookeeper.connect" not in process.values:
        return "the last that has it is 3.9"
    if "bootstrap.servers" not in process.values:
        return f"{old}: it runs on 1.1 or older"
    return f"the last that has it is 3.9; {old}"


def _unread(process: RunningProcess, version: str) -> list[str]:
    if process.kind in SIGNS:
        found = check_rest_keys(DISTRIBUTIONS[process.kind], version, process.values, "")
        return [key for f in found if f.subject for key in f.subject.keys]
    beside: tuple[Component, ...] = ("consumer", "producer")
    if process.kind == "mm2":
        beside = ("mm2", *BESIDE_MIRRORS)
    elif process.kind == "streams":
        beside = ("streams", *BESIDE_STREAMS)
    known = frozenset[str]().union(*(known_keys(one, version) for one in beside))
    ever = frozenset[str]().union(*(every_key(one) for one in beside))
    bare = [_bare(process, key) for key in (*process.values, *process.producer)]
    return [key for key in bare if key in ever and key not in known]


def _bare(process: RunningProcess, key: str) -> str:
    """Return a key without what says for which cluster and client it is."""
    if process.kind == "mm2":
        ends = "|".join(map(re.escape, clusters_of(process))) or "-"
        return re.sub(rf"^(({ends})->({ends})|{ends})\.((consumer|producer|admin)\.)?", "", key)
    return read_by(key)[1] if process.kind == "streams" else key


def shown_value(key: str, text: str) -> str:
    """Return a value without what is a secret in it, by its key or by its form."""
    return "***" if looks_secret(key) and text else without_secrets(text) if holds_secret(text) else text


@dataclass(frozen=True, slots=True)
class ReviewedMachine:
    """What a person says beside the files: the machine, and what the process has to carry."""

    cores: int = 8
    memory_mib: int = 16_384
    workload: Mapping[str, Any] | None = None
    #: Of ``ALLOWED``.
    allowed: tuple[str, ...] = ()


#: What holds the number of a workload, or of an application, that an option of a review says.
_SAID: Final = ("kafka_rest_workload.", f"mirror_maker_flows.{FLOW}.", "streams_app_")
#: What a person calls what a review has a variable for.
_NAMES: Final[Mapping[str, str]] = {
    "host_cores": "--cores",
    "host_memory_mib": "--memory-mib",
    **{variable: f"--{option}" for option, variable in _OPTIONS.items()},
    **dict.fromkeys(("kafka_rest_version", "mirror_maker_version", "streams_app_version"), "its version"),
}


class FileReader(Reader):
    """A person who has files and the options of a review, and no inventory.

    ``unset`` has defaults, ``process`` is what is reviewed.
    """

    def __init__(
        self,
        unset: Mapping[str, str] | None = None,
        said: Iterable[str] = (),
        process: RunningProcess | None = None,
    ) -> None:
        self._unset, self._said, self._process = unset or {}, frozenset(said), process

    def reach(self, port: str) -> str:
        """Return who connects to a port, by what its container publishes."""
        if self._process and self._process.limits and not self._process.limits.compose:
            return "everybody who reaches its pod"
        if self._process is None or self._process.ports is None:
            return super().reach(port)
        outside = next((out for one, out in self._process.ports.items() if covers(one, port)), None)
        if outside is None:
            return "every container of its networks (its port is not published)"
        return "everybody on the host" if LOOPBACK.match(outside.text) else super().reach(port)

    def known(self, variable: str) -> bool:
        """Return whether an option says it."""
        return variable.rpartition(".")[2].removeprefix("streams_app_") in self._said

    def unset(self, key: str) -> str | None:
        """Return the component's own default."""
        return self._unset.get(key)

    def name(self, variable: str) -> str:
        """Return the option that says what a variable would, or the name that its files have for it."""
        begin = next((begin for begin in _SAID if variable.startswith(begin)), None)
        return _NAMES.get(variable) or (f"--workload {variable.removeprefix(begin)}" if begin else variable)

    def either(self, inventory: str, files: str) -> str:
        """Return the words for who has files."""
        return files


def covers(published: str, port: str) -> bool:
    """Return whether a port of a container, or a range of them, is or has another one."""
    low, _, high = published.partition("-")
    numbered = low.isdecimal() and port.isdecimal() and (high or low).isdecimal()
    return int(low) <= int(port) <= int(high or low) if numbered else published == port


def started_with(process: RunningProcess) -> dict[str, str]:
    """Return what the start script of a process takes for variables that its files do not set."""
    variable, flags = _unset_heap(process)
    given = " ".join(value.text for value in process.environment.values())
    heap = process.environment.get(variable)
    set_elsewhere = bool(heap and heap.text.strip()) or re.search(r"-Xmx|-XX:MaxRAM", given)
    return {} if set_elsewhere or process.lacking or not flags else {variable: flags}


def _unset_heap(process: RunningProcess) -> tuple[str, str]:
    """Return the variable of a process's heap, and what it comes to where it is not set; empty if unknown."""
    jvm = DISTRIBUTIONS[process.kind].jvm if process.kind in SIGNS else None
    variable = jvm.heap if jvm else "KAFKA_HEAP_OPTS"
    limit = memory_limit(process)
    if process.operated:
        share = share_mib(limit, _OPERATED_PERCENT) if limit and process.kind == "mm2" else None
        share = int(share_mib(limit) * jvm.operated) if limit and jvm else share
    elif not process.starts:
        share = None
    elif unset := jvm.unset if jvm else _UNSET_HEAPS.get(process.kind):
        return variable, unset
    else:
        share = share_mib(limit) if limit else None
    return variable, f"-Xmx{share}m" if share else ""


def memory_limit(process: RunningProcess) -> int | None:
    """Return the memory in MiB that the process's unit or container has; None where nothing limits it."""
    return size_mib(process.unit["MemoryMax"].text) if "MemoryMax" in process.unit else None


def size_mib(text: str) -> int | None:
    """Return a size in MiB; None where it is none, such as a share of the host."""
    size = _SIZE.fullmatch(text.strip())
    return int(size[1]) * _SCALE[size[2].lower()] >> 20 if size else None


def unset_values(process: RunningProcess, version: str, own: Mapping[str, str]) -> dict[str, str]:
    """Return what holds in the process where it says nothing: the defaults of its version."""
    if process.kind in SIGNS:
        return {**rest_defaults(DISTRIBUTIONS[process.kind], version, own), **started_with(process)}
    if process.kind == "streams":
        return unset_streams(version, own)
    if process.kind in ("consumer", "producer"):
        return {**defaults("consumer" if process.kind == "consumer" else "producer", version)}
    classic = process.kind == "classic"
    options = _UNSET_OPTIONS if classic else {}
    return unset_mirror(version, *process.flow, classic=classic) | options | started_with(process)


def inventory_of(
    process: RunningProcess,
    version: str,
    own: Mapping[str, str],
    machine: ReviewedMachine,
    *,
    alone: bool,
    processes: int | None = 1,
) -> Inventory:
    """Return an inventory of one host that runs the process with these values of its own.

    ``alone`` plans the process as it is, with the component's defaults where it sets nothing. Of a REST proxy
    ``processes`` carry the workload, as many as the plan would give the host where it is None.
    """
    said = dict(machine.workload or {})
    reader = FileReader(unset_values(process, version, own) if alone else None, said, process)
    variables: dict[str, Any] = {
        "host_cores": machine.cores,
        "host_memory_mib": machine.memory_mib,
        "service_levels": {"delivery": dict.fromkeys(machine.allowed)},
        "kafka_clusters": {
            name: {"version": "4.3.1", "bootstrap_servers": f"{place}:9092"}
            for name, place in (("today", "today"), (SOURCE, "source"), (TARGET, "target"))
        },
    }
    if process.kind in SIGNS:
        workload = {k: v for k, v in said.items() if k in RestWorkload.model_fields}
        variables |= {
            "kafka_rest_distribution": process.kind,
            "kafka_rest_version": version,
            "kafka_rest_cluster": "today",
            "kafka_rest_workload": workload,
            "kafka_rest_settings": dict(own),
        }
        if DISTRIBUTIONS[process.kind].software.ways[0] == "archive":
            variables |= ARCHIVE
        if DISTRIBUTIONS[process.kind].fleet_only:
            variables["fleet"] = True
        if processes:
            variables["kafka_rest_instances_per_host"] = processes
        return Inventory({HOST: variables}, {"kafka_rest": (HOST,), "all": (HOST,)}, reader=reader)
    if process.kind == "streams":
        fields = {k: v for k, v in said.items() if k in StreamsApp.model_fields}
        settings = {k: v for k, v in own.items() if not k.isupper() and k not in UNIT}
        variables |= {
            "streams_app_name": "today",
            "streams_app_main_class": "Today",
            "streams_app_jars": [{"path": "today.jar", "sha256": "1" * 64}],
            "streams_app_version": version,
            "streams_app_cluster": "today",
            "streams_app_settings": settings,
            "streams_app_environment": {k: v for k, v in own.items() if k.isupper()},
        } | {f"streams_app_{k}": v for k, v in fields.items()}
        return Inventory({HOST: variables}, {"streams_app": (HOST,), "all": (HOST,)}, reader=reader)
    if process.kind in ("consumer", "producer"):
        client: dict[str, Any] = {"name": "today", "cluster": "today", "library": "java", "version": version}
        mine = {key: text for key, text in own.items() if key in process.values}
        variables["kafka_clients"] = [client | {"profile": "balanced", f"{process.kind}_settings": mine}]
        return Inventory({HOST: variables}, {"load_generator": (HOST,), "all": (HOST,)}, reader=reader)
    return _mirror(process, version, own, said, variables, reader)


def variables_of(
    process: RunningProcess, own: Mapping[str, str], machine: ReviewedMachine
) -> Mapping[str, Any]:
    """Return the variables of the host of the one process, with these values of its own."""
    version, _ = versions_of(process)
    return inventory_of(process, version, own, machine, alone=True).hosts[HOST]


def _mirror(
    process: RunningProcess,
    version: str,
    own: Mapping[str, str],
    said: Mapping[str, Any],
    variables: dict[str, Any],
    reader: Reader,
) -> Inventory:
    classic = process.kind == "classic"
    fields = {k: v for k, v in said.items() if k in MirrorFlow.model_fields}
    source, target = process.flow
    variables["kafka_clusters"] |= {
        name: {"version": "4.3.1", "bootstrap_servers": "today:9092"} for name in process.flow
    }
    flow: dict[str, Any] = {"source": source, "target": target, "topics": [".*"], "processes": 1}
    flow |= {"latency_budget_ms": 60_000, "largest_topic_partitions": 12} | fields
    # Who lets requests be larger has messages, and brokers, that ask for it.
    places = (PRODUCER, f"{target}.producer.", f"{source}->{target}.producer.override.")
    largest = max(int_or_zero(own.get(f"{place}max.request.size")) for place in places)
    if largest > MESSAGE_MAX_BYTES and "max_message_bytes" not in fields:
        flow["max_message_bytes"] = largest
        for cluster in variables["kafka_clusters"].values():
            cluster["message_max_bytes"] = largest
    environment = {k: v for k, v in own.items() if k in _SHELL or k in _OPTIONS.values()}
    if classic:
        mine = {key: own[key] for key in process.values if key in own}
        theirs = {key: own[f"{PRODUCER}{key}"] for key in process.producer if f"{PRODUCER}{key}" in own}
        flow |= {"consumer_settings": mine, "producer_settings": theirs}
    else:
        flow["settings"] = {key: own[key] for key in process.values if key in own and _of(key, process)}
    flow["environment"] = environment
    variables |= {
        "mirror_maker_kind": "classic" if classic else "mirror_maker_2",
        "mirror_maker_version": version,
        "mirror_maker_flows": {FLOW: flow},
    }
    return Inventory({HOST: variables}, {"mirror_maker": (HOST,), "all": (HOST,)}, reader=reader)


#: Before a key of a classic mirror's producer, where both files' keys stand together.
PRODUCER: Final = "producer:"


def _of(key: str, process: RunningProcess) -> bool:
    """Return whether a key of MirrorMaker 2 is for one flow of several, or for all."""
    if "->" in key:
        source, _, rest = key.partition("->")
        return {source, rest.partition(".")[0]} <= set(process.flow)
    others = set(clusters_of(process)) - set(process.flow)
    return key.partition(".")[0] not in others


def own_values(process: RunningProcess) -> dict[str, Value]:
    """Return what the process sets itself, under the names that the plan has for it."""
    found = dict(process.values)
    if process.kind == "classic":
        found |= {f"{PRODUCER}{key}": value for key, value in process.producer.items()}
    for option, variable in _OPTIONS.items():
        if option in process.arguments and process.kind == "classic":
            found[variable] = process.arguments[option]
    return found | dict(process.environment) | dict(process.unit)


def heap_of(environment: Mapping[str, str], memory_mib: int | None = None) -> int | None:
    """Return the heap in MiB that a process is started with; None where nothing says it."""
    held = [text for key, text in environment.items() if key.endswith(("HEAP_OPTS", "JAVA_OPTS"))]
    heaps = (maximum_heap_mib(text, memory_mib) for text in held)
    return next((mib for mib in heaps if mib), None)
