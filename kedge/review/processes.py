"""Puts the parts of all files together into processes."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from kedge.plan.findings import Finding
from kedge.review.containers import LimitNames
from kedge.review.kinds import JVM_FLAGS, SIGNS, FileFindings, handed_on
from kedge.review.reading import ReviewError, Value, comes_later, settled
from kedge.review.resources import connector_of, differing_names
from kedge.services.mirror.topology import NO_CLUSTER
from kedge.services.rest.distributions import DISTRIBUTIONS

#: The host and the clusters of the inventory that a review plans.
HOST: Final = "today"
SOURCE, TARGET = "source", "target"
FLOW: Final = "today"
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
#: Of one MirrorMaker 2: each two of them may be a flow.
_CLUSTERS: Final = 30
#: Directives of a unit that the plan sets too.
UNIT: Final = ("MemoryMax", "LimitNOFILE", "TasksMax", "TimeoutStopSec")
_CORES: Final = "CPUQuota"
SHELL: Final = ("KAFKA_HEAP_OPTS", "KAFKA_JVM_PERFORMANCE_OPTS", "KAFKA_OPTS", "JMX_PORT", "LOG_DIR")


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
    joined = replace(first, where=where, values={**theirs, **values}, words=words, findings=tuple(findings))
    if worker is None or not worker.limits:
        return joined
    # Its container has the JVM of its connectors.
    ran = replace(joined, environment=worker.environment, unit=worker.unit, limits=worker.limits)
    return replace(ran, version=joined.version or worker.version, lacking=worker.lacking)


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
    options = jvm.options if jvm else SHELL
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
