"""Puts a process that runs into an inventory that plans it, with what holds where its files say nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kedge.evidence.secrets import holds_secret, looks_secret, without_secrets
from kedge.keys.catalogue import Component, defaults, every_key, known_keys
from kedge.plan.findings import Reader
from kedge.plan.hosts import Inventory
from kedge.plan.inventory.clusters import MESSAGE_MAX_BYTES
from kedge.plan.jvm_flags import maximum_heap_mib, share_mib
from kedge.plan.values import int_or_zero
from kedge.plan.version_numbers import numbers
from kedge.review.containers import LOOPBACK
from kedge.review.kinds import SIGNS
from kedge.review.processes import FLOW, HOST, SHELL, SOURCE, TARGET, UNIT, RunningProcess, clusters_of
from kedge.review.reading import Value
from kedge.services.mirror.keys import unset_values as unset_mirror
from kedge.services.mirror.variables import BESIDE as BESIDE_MIRRORS
from kedge.services.mirror.variables import MirrorFlow
from kedge.services.registry import SERVICES
from kedge.services.rest.distributions import DISTRIBUTIONS
from kedge.services.rest.keys import check_rest_keys, rest_defaults
from kedge.services.rest.variables import RestWorkload
from kedge.services.streams.variables import BESIDE as BESIDE_STREAMS
from kedge.services.streams.variables import StreamsApp, read_by
from kedge.services.streams.variables import unset_values as unset_streams

#: The newest of each line that the rules know, the newest line first.
VERSIONS: Final[Mapping[str, tuple[str, ...]]] = {
    **{name: signs.versions for name, signs in SIGNS.items()},
    "classic": ("3.9.2",),
    "mm2": ("4.3.1", "3.9.2"),
    "streams": ("4.3.1", "3.9.2"),
    "consumer": ("4.3.1", "3.9.2"),
    "producer": ("4.3.1", "3.9.2"),
}
#: Of which service a process of each kind is planned.
SERVICE_OF: Final = {kind: service for service in SERVICES for kind in service.kinds}
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
#: Of a unit: infinity and shares of the host are no number of bytes.
_SIZE: Final = re.compile(r"(\d{1,18})([KMGT]?)B?", re.IGNORECASE)
_SCALE: Final = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}
#: What connect-mirror-maker.sh and connect-distributed.sh take, and kafka-run-class.sh, of Kafka 3.9 and 4.3.
_UNSET_HEAPS: Final = {"mm2": "-Xms256M -Xmx2G", "classic": "-Xmx256M"}
#: What Strimzi gives MirrorMaker 2 of its memory's limit (KafkaConnectCluster, JvmOptionUtils).
_OPERATED_PERCENT: Final = 75


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
        return version, f"{says}, which the rules do not know: judged as {version}"
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
    elif process.kind == "streams":
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
    elif process.kind in ("consumer", "producer"):
        client: dict[str, Any] = {"name": "today", "cluster": "today", "library": "java", "version": version}
        mine = {key: text for key, text in own.items() if key in process.values}
        variables["kafka_clients"] = [client | {"profile": "balanced", f"{process.kind}_settings": mine}]
    else:
        _add_mirror(variables, process, version, own, said)
    groups = {SERVICE_OF[process.kind].name: (HOST,), "all": (HOST,)}
    return Inventory({HOST: variables}, groups, reader=reader)


def variables_of(
    process: RunningProcess, own: Mapping[str, str], machine: ReviewedMachine
) -> Mapping[str, Any]:
    """Return the variables of the host of the one process, with these values of its own."""
    version, _ = versions_of(process)
    return inventory_of(process, version, own, machine, alone=True).hosts[HOST]


def _add_mirror(
    variables: dict[str, Any],
    process: RunningProcess,
    version: str,
    own: Mapping[str, str],
    said: Mapping[str, Any],
) -> None:
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
    environment = {k: v for k, v in own.items() if k in SHELL or k in _OPTIONS.values()}
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
