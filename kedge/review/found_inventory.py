"""Makes an inventory of processes that run: it plans them as they are, their values as ones of your own."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kedge.plan.findings import Finding, Subject
from kedge.plan.inventory.clusters import same_cluster, servers
from kedge.plan.plan_secrets import on_command_line
from kedge.review.as_inventory import SERVICE_OF, ReviewedMachine, own_values, shown_value, variables_of
from kedge.review.judging import Judgement
from kedge.review.kinds import SIGNS
from kedge.review.processes import FLOW, SOURCE, TARGET, RunningProcess
from kedge.review.reading import comes_later
from kedge.services.rest.distributions import DISTRIBUTIONS
from kedge.services.rest.variables import ready_topic

#: What Kedge decides itself, or has a variable for: where clients connect and listen, and who is who.
_PLACES: Final = re.compile(
    r"^(id|host\.name|listeners|advertised\.listeners|port|clusters|application\.id|config\.providers.*)$"
    r"|(^|\.)bootstrap\.servers$|->[^.]+\.(enabled|topics)$|^http\.(host|port|enabled)$|^bridge\.id$"
    r"|^(KAFKA|KAFKAREST)_(OPTS|JMX_OPTS|LOG4J_OPTS)$|^(LOG_DIR|JMX_PORT|KAFKAREST_JMX_PORT|JAVA_HOME)$"
)
#: How a client logs in, which kafka_clusters.NAME.security says for all of them.
_LOGIN: Final = re.compile(r"(^|\.)(security\.protocol|sasl\.|ssl\.)|^(authentication|confluent\.license)")
#: Flags of a JVM that set a size, a share or a switch: none runs a command, loads a file or writes one.
_HARMLESS: Final = re.compile(
    r"-X(ms|mx|mn|ss)\d+[kmgtKMGT]?|-XX:[+-]\w+|-XX:\w+=\d+[kmgtKMGT]?|-server|-D(java\.awt\.headless|java\.net\.\w+)=\w+"
    r"|\d+|true|false"
)
#: Keys of classes and of places that these are loaded from; and how a class is written under any key.
_LOADS: Final = re.compile(
    r"(?i)(class(es)?|\.path|reporters?|interceptors?|(de)?serializer|serde|setter|handler|extractor|converter|factory"
    r"|transforms|predicates|plugins?|providers?|preload|command)$"
)
_CLASS: Final = re.compile(r"([A-Za-z_$][\w$]*\.)+[A-Z][\w$]*")
#: Of Kafka's own clients, which are loaded anyway.
_OF_KAFKA: Final = re.compile(
    r"org\.apache\.kafka\.(clients|common\.(serialization|metrics)|streams)\.[\w.$]+"
)
#: How Ansible's templates begin.
_TEMPLATE: Final = re.compile(r"\{(?=[{%#])")
_KIND: Final = "kafka_rest_distribution"
_ASSUMED: Final = "fill in what it has to sustain: today's figures are assumptions"


@dataclass(frozen=True, slots=True)
class FoundProcess:
    """One process of one host, with what the review says of it: of MirrorMaker 2, once for each flow."""

    host: str
    name: str
    main: str
    ports: tuple[int, ...]
    machine: ReviewedMachine
    process: RunningProcess
    judgement: Judgement | None = None

    @property
    def service(self) -> str:
        """Return the name of the service that it is planned as."""
        return SERVICE_OF[self.process.kind].name


@dataclass(slots=True)
class FoundInventory:
    """An inventory that is being made; ``remarks`` stand above the variables of a host, as comments."""

    #: Of each cluster the brokers, and which hosts name them; "" stands for the first process.
    clusters: dict[str, dict[str, set[str]]] = field(default_factory=dict)
    groups: dict[str, list[str]] = field(default_factory=dict)
    hosts: dict[str, dict[str, Any]] = field(default_factory=dict)
    mirrors: dict[str, Any] = field(default_factory=dict)
    remarks: dict[str, list[str]] = field(default_factory=dict)
    #: Whose word each flow of mirrors is.
    said: list[str] = field(default_factory=list)

    def remark(self, host: str, text: str) -> None:
        """Say something of a host, once."""
        if text not in (lines := self.remarks.setdefault(host, [])):
            lines.append(text)

    def cluster(self, text: str, name: str, host: str) -> str:
        """Return the name of the cluster with these brokers; one of its own where no broker is shared."""
        known = next((one for one, has in self.clusters.items() if same_cluster(text, ",".join(has))), None)
        first = known is None
        if known is None:
            known = name if name not in self.clusters else f"{name}{len(self.clusters) + 1}"
        brokers = self.clusters.setdefault(known, {})
        for broker in sorted(servers(text)):
            brokers.setdefault(broker, set()).update({host, ""} if first else {host})
        return known

    def brokers(self, name: str) -> list[str]:
        """Return the brokers of a cluster that its first process names, or two hosts.

        The word of one host must not lead all others, with their logins, to a broker of its choice.
        """
        return [broker for broker, hosts in self.clusters[name].items() if len(hosts) > 1]

    def lone_brokers(self) -> None:
        """Remark at its host each broker that it alone names."""
        for name, has in self.clusters.items():
            for broker, hosts in has.items():
                if len(hosts) == 1:
                    (host,) = hosts
                    said = f"{broker} is named here alone: add it to kafka_clusters.{name} if it is of it"
                    self.remark(host, said)


def inventory_from(found: Sequence[FoundProcess]) -> FoundInventory:
    """Return the inventory of all processes of all hosts; what of them it cannot plan is a remark."""
    made = FoundInventory()
    # The names that MirrorMaker 2 has for clusters begin topics' names, so that they count for all.
    for one in sorted(found, key=lambda one: one.process.kind != "mm2"):
        kind = one.process.kind
        add = _rest if kind in SIGNS else {"classic": _mirror, "mm2": _mirror, "streams": _streams}.get(kind)
        if add:
            variables = made.hosts.setdefault(one.host, {})
            variables |= {"host_cores": one.machine.cores, "host_memory_mib": one.machine.memory_mib}
            add(made, one, variables)
    made.lone_brokers()
    return made


def _planned(made: FoundInventory, one: FoundProcess) -> dict[str, Any]:
    """Return the variables that plan a process, with those of its values that a plan takes."""
    own = {}
    errors: dict[str, list[Finding]] = {}
    for finding in one.judgement.findings if one.judgement else ():
        for key in finding.subject.keys if finding.severity == "error" and finding.subject else ():
            errors.setdefault(key, []).append(finding)
    for key, value in own_values(one.process).items():
        if why := _left_out(errors, key, value.text, value.place):
            made.remark(one.host, f"{one.name}: {why}")
        elif not _PLACES.search(key) and key not in one.process.unit:
            kept, runs = _without_code(key, value.text)
            if runs:
                made.remark(
                    one.host, f"{one.name}: {key} is left out where it runs code of this host: {runs}"
                )
            if kept:
                own[key] = kept
    planned = variables_of(one.process, own, one.machine)
    return {k: v for k, v in planned.items() if k not in ("kafka_clusters", "host_cores", "host_memory_mib")}


def code_of(process: RunningProcess) -> Iterator[Finding]:
    """Yield a warning for each value with which a process runs a command or loads a class of its host."""
    for key, value in own_values(process).items():
        bare = key.partition(":")[2] or key
        if not _PLACES.search(bare) and (runs := _without_code(key, value.text)[1]):
            yield Finding(
                "warning",
                "review.code",
                value.place,
                f"{bare} runs a command, or loads a class or a library: {shown_value(bare, runs)}",
                "look at what it runs; the found inventory has it as a comment of its host alone",
                Subject(keys=(bare,)),
            )


def _without_code(key: str, text: str) -> tuple[str, str]:
    """Return a value without what runs code that the host chose, and that; one host says it, and not all."""
    if on_command_line(key):
        words = text.split()
        kept = [word for word in words if _HARMLESS.fullmatch(word)]
        return " ".join(kept), " ".join(word for word in words if word not in kept)
    classes = [one for one in re.split(r"[,;\s]+", text) if one and not _OF_KAFKA.fullmatch(one)]
    loads = any(_CLASS.fullmatch(one) for one in classes) or (classes and _LOADS.search(key))
    return ("", text) if loads else (text, "")


def _left_out(errors: Mapping[str, Sequence[Finding]], key: str, text: str, place: str) -> str:
    """Return why a value stands in no inventory; empty where it does, or where Kedge decides it."""
    bare = key.partition(":")[2] or key
    if _PLACES.search(bare):
        return ""
    if _LOGIN.search(bare):
        return f"{bare} is left out: say by kafka_clusters.NAME.security how clients log in"
    if shown_value(bare, text) != text or "***" in text:
        return f"{bare} is left out: it is, or holds, a secret"
    if comes_later(text) or _TEMPLATE.search(bare + text):
        return f"{bare} is left out: {text} is put in by somebody else"
    for finding in errors.get(bare, ()):
        if f"/{place}".endswith(f"/{finding.where}"):
            return f"{bare}={text} is left out: {finding.message}"
    return ""


def _rest(made: FoundInventory, one: FoundProcess, variables: dict[str, Any]) -> None:
    planned = _planned(made, one)
    text = next((v.text for k, v in one.process.values.items() if k.endswith("bootstrap.servers")), "")
    port = _port(one)
    settings = planned.pop("kafka_rest_settings")
    if one.host in made.groups.get(one.service, ()):
        variables["kafka_rest_instances_per_host"] += 1
        if settings != variables["kafka_rest_settings"]:
            made.remark(one.host, f"{one.name} has other values than the first proxy, whose values these are")
        variables["kafka_rest_first_port"] = min(variables["kafka_rest_first_port"], port)
        return
    workload = planned.pop("kafka_rest_workload")
    variables |= planned | {
        "kafka_rest_cluster": made.cluster(text, "kafka", one.host) if text else _nowhere(made, one),
        "kafka_rest_first_port": port,
        "kafka_rest_settings": settings,
    }
    variables |= {"kafka_rest_workload": workload} if workload else {}
    if "kafka_rest_archive" in planned:
        made.remark(one.host, "kafka_rest_archive and its checksum: name the archive to install")
    made.remark(one.host, f"kafka_rest_workload: {_ASSUMED}")
    _in_group(made, one)


def _port(one: FoundProcess) -> int:
    """Return the port of a proxy: of its listeners, else the lowest on which it listens."""
    said = one.process.values.get("listeners") or one.process.values.get("http.port")
    named = re.findall(r"\b(\d{1,5})\s*(?:,|$)", said.text) if said else []
    return int(named[0]) if named else min(one.ports, default=8082)


def _mirror(made: FoundInventory, one: FoundProcess, variables: dict[str, Any]) -> None:
    planned = _planned(made, one)
    ((_, flow),) = planned.pop("mirror_maker_flows").items()
    kind = (planned["mirror_maker_kind"], planned["mirror_maker_version"])
    if made.mirrors and kind != (made.mirrors["mirror_maker_kind"], made.mirrors["mirror_maker_version"]):
        made.remark(one.host, f"{one.name} is {' '.join(kind)}, and one inventory plans one kind and version")
        return
    own = one.process.values
    if one.process.kind == "mm2":
        ends = {}
        for alias in one.process.flow:
            text = own[f"{alias}.bootstrap.servers"].text if f"{alias}.bootstrap.servers" in own else ""
            ends[alias] = made.cluster(text or f"unknown-{alias}:9092", alias, one.host)
        if other := {alias: name for alias, name in ends.items() if alias != name}:
            alias, name = other.popitem()
            what = f"another process calls its cluster {alias} {name}, and topics' names begin with it"
            made.remark(one.host, f"{one.name} is left out: {what}")
            return
        source, target = one.process.flow
        name = "->".join(one.process.flow)
        topics = own.get(f"{name}.topics") or own.get("topics")
        flow["topics"] = [t.strip() for t in topics.text.split(",") if t.strip()] if topics else [".*"]
    else:
        begin = own.get("bootstrap.servers")
        end = one.process.producer.get("bootstrap.servers")
        source = made.cluster(begin.text, SOURCE, one.host) if begin else _nowhere(made, one)
        target = made.cluster(end.text, TARGET, one.host) if end else _nowhere(made, one)
        listed = one.process.arguments.get("whitelist") or one.process.arguments.get("include")
        flow["topics"] = [listed.text.replace(",", "|")] if listed else [".*"]
    flow |= {"source": source, "target": target}
    name = re.sub(r"[^a-z0-9]+", "-", f"{source}-{target}".lower()).strip("-")[:50]
    flows = made.mirrors.setdefault("mirror_maker_flows", {})
    made.mirrors |= planned
    name = name if name[:1].isalpha() else f"{FLOW}-{name}"
    _add_flow(made, one, flows, name, flow)
    made.remark(one.host, f"mirror_maker_flows in group_vars: {_ASSUMED}")
    _in_group(made, one)


def _add_flow(
    made: FoundInventory, one: FoundProcess, flows: dict[str, Any], name: str, flow: dict[str, Any]
) -> None:
    """Add a flow; the same flow of another process makes one process more of it."""
    other = flows.get(name)
    if other is None:
        flows[name] = flow
        made.said.append(f"{name}: as {one.name} of {one.host} runs")
    elif flow["topics"] == other["topics"]:
        other["processes"] += 1
        if {**flow, "processes": 0} != {**other, "processes": 0}:
            made.remark(one.host, f"{one.name} has other values than the flow {name} of the first process")
    else:
        number = sum(key.startswith(name) for key in flows) + 1
        flows[f"{name}-{number}"] = flow
        made.said.append(f"{name}-{number}: as {one.name} of {one.host} runs")


def _streams(made: FoundInventory, one: FoundProcess, variables: dict[str, Any]) -> None:
    if one.host in made.groups.get(one.service, ()):
        made.remark(one.host, f"{one.name} is left out: a host has one Streams application")
        return
    planned = _planned(made, one)
    own = one.process.values
    text = own["bootstrap.servers"].text if "bootstrap.servers" in own else ""
    said = own["application.id"].text if "application.id" in own else one.name
    name = re.sub(r"[^a-z0-9-]+", "-", said.lower()).strip("-")[:60]
    if name != said:
        made.remark(
            one.host,
            f"application.id is {said}, which is no streams_app_name: its group would be another",
        )
    variables |= planned | {
        "streams_app_name": name if name[:1].isalpha() else f"app-{name}",
        "streams_app_main_class": one.main or "Today",
        "streams_app_cluster": made.cluster(text, "kafka", one.host) if text else _nowhere(made, one),
    }
    made.remark(one.host, "streams_app_jars: name the jars of the application, with their checksums")
    made.remark(one.host, f"streams_app_stores and its like: {_ASSUMED}")
    _in_group(made, one)


def _nowhere(made: FoundInventory, one: FoundProcess) -> str:
    """Return the name of a cluster that no file names."""
    made.remark(one.host, f"{one.name} names no brokers in its files: correct kafka_clusters.unknown")
    return made.cluster("unknown:9092", "unknown", one.host)


def _in_group(made: FoundInventory, one: FoundProcess) -> None:
    members = made.groups.setdefault(one.service, [])
    if one.host not in members:
        members.append(one.host)


def documents(made: FoundInventory) -> Iterator[tuple[str, Any, list[str]]]:
    """Yield the files of an inventory: name, content, and comments that stand above it."""
    own = "Values of your own are as they run today."
    children = {group: {"hosts": dict.fromkeys(hosts)} for group, hosts in sorted(made.groups.items())}
    hosts = {"all": {"hosts": dict.fromkeys(made.hosts), "children": children}}
    yield "hosts.yml", hosts, ["How the hosts are reached stands in your own inventory: give that first."]
    clusters = {
        name: {"version": "4.3.1", "bootstrap_servers": ",".join(made.brokers(name))}
        for name in made.clusters
    }
    said = ["version is an assumption. Write security where the brokers ask for a login."]
    if len(clusters) > 1:
        said.append("Two of them with no broker in common may be one cluster: nothing here can tell.")
    topics = list(_ready_topics(made))
    if topics:
        said.append(
            "kafka_topics: what readiness produces to. replication is planned; set it for fewer brokers."
        )
    common = {"kafka_clusters": clusters} | ({"kafka_topics": topics} if topics else {})
    yield "group_vars/all/main.yml", _inert(common), said
    if made.mirrors:
        yield "group_vars/mirror_maker/main.yml", _inert(made.mirrors), [own, *made.said]
    for host, variables in made.hosts.items():
        yield f"host_vars/{host.replace('/', '_')}.yml", _inert(variables), [own, *made.remarks.get(host, ())]


def _ready_topics(made: FoundInventory) -> Iterator[dict[str, Any]]:
    """Yield the topic of the readiness probe for each cluster with proxies: no predecessor has made it."""
    # A topic of a stream is no topic of a cluster, and cannot be declared.
    of_topics = [v for v in made.hosts.values() if _KIND in v and DISTRIBUTIONS[v[_KIND]].streams is None]
    for name in dict.fromkeys(p["kafka_rest_cluster"] for p in of_topics):
        settings = {"retention.ms": 600_000}
        yield {"name": ready_topic({}), "cluster": name, "partitions": 1, "settings": settings}


def _inert(value: Any) -> Any:
    """Return a value that Ansible takes as it stands: what a host says must not be run as a template."""
    if isinstance(value, dict):
        return {_inert(key): _inert(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_inert(one) for one in value]
    return _TEMPLATE.sub("{ ", value) if isinstance(value, str) else value
