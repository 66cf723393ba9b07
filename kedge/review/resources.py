"""Reads resources of operators and connectors of MirrorMaker 2 as the configuration that becomes of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kedge.plan.findings import Finding
from kedge.review.containers import ELSEWHERE, limits_of, text_of_value
from kedge.review.reading import Value

#: What an operator fills in.
_FILLED: Final = ELSEWHERE % "the operator"
_CONNECTOR: Final = "org.apache.kafka.connect.mirror.Mirror"
_CLASS: Final = "connector.class"
#: What keys begin with that one of the three connectors reads alone.
_OF: Final = {
    "Source": ("config.propert", "offset.lag.max", "refresh.topics.", "sync.topic."),
    "Checkpoint": ("checkpoints.", "emit.checkpoints.", "group.filter.", "groups", "refresh.groups.",
                   "sync.group."),
    "Heartbeat": ("emit.heartbeats.", "heartbeats.topic."),
}  # fmt: skip
#: What keys begin with that Connect reads of any connector, and MirrorMaker 2 does not.
_OF_CONNECT: Final = (
    "exactly.once.support",
    "offsets.storage.topic",
    "predicates.",
    "topic.creation.",
    "transaction.boundary",
    "transforms.",
)
#: What a connector's keys for its own clients begin with.
_OVERRIDES: Final = ("producer.override.", "source.consumer.", "consumer.")
#: Of a KafkaMirrorMaker2, under a mirror.
_OF_MIRROR: Final = {
    "topicsPattern": "topics",
    "topicsExcludePattern": "topics.exclude",
    "groupsPattern": "groups",
    "groupsExcludePattern": "groups.exclude",
}


@dataclass(frozen=True, slots=True)
class Resource:
    """What a resource, or a connector, configures, as parts of files have it.

    Attributes:
        kind: mm2, or the kind of the resource of a REST proxy.
        flags: of its JVM.
        words: its own names for keys, by what keys begin with.
        part: of a connector, which of the three it is.
        ends: of a connector, the aliases of its source and its target.
        findings: what reading it has shown already.
    """

    kind: str
    where: str
    values: Mapping[str, Value]
    flags: str = ""
    limits: Mapping[str, Value] = field(default_factory=dict)
    image: str = ""
    words: tuple[tuple[str, str], ...] = ()
    part: str = ""
    ends: tuple[str, str] = ("", "")
    findings: tuple[Finding, ...] = ()


def resources(documents: list[Any], name: str) -> Iterator[Resource]:
    """Yield what the documents of a file configure: resources of Strimzi and of Confluent, and connectors."""
    for one in documents:
        if not isinstance(one, Mapping):
            continue
        spec, kind = _map(one, "spec"), one.get("kind")
        where = f"{name}, {_map(one, 'metadata').get('name') or one.get('name') or kind}"
        if kind == "KafkaBridge":
            yield _bridge(spec, name, where)
        elif kind == "KafkaMirrorMaker2":
            yield _mirror(spec, name, where)
        elif kind == "KafkaRestProxy":
            yield _rest_proxy(spec, name, where)
        elif kind == "KafkaConnector":
            values = _values(_map(spec, "config"), name, where)
            values |= _named(spec, {"class": _CLASS, "tasksMax": "tasks.max"}, name, where)
            yield from connector(values, where)
        elif kind is None:
            # One connector, as Connect takes or shows it, or several with all that Connect says of them.
            for each in [one] if {"config", _CLASS} & one.keys() else one.values():
                of = _map(each, "info") or each if isinstance(each, Mapping) else {}
                yield from connector(_values(_map(of, "config") or of, name, where), where)


def connector(values: Mapping[str, Value], where: str) -> Iterator[Resource]:
    """Yield what a connector of MirrorMaker 2 is in dedicated mode; nothing of another connector."""
    of = values[_CLASS].text if _CLASS in values else ""
    if not of.startswith(_CONNECTOR):
        return
    source, target = (values[key].text if key in values else end for end, key in (
        ("source", "source.cluster.alias"), ("target", "target.cluster.alias")))  # fmt: skip
    flow = f"{source}->{target}"
    found = {"clusters": Value(f"{source}, {target}", where), f"{flow}.enabled": Value("true", where)}
    for key, value in values.items():
        of_it = key not in ("name", _CLASS, "source.cluster.alias", "target.cluster.alias")
        if of_it and not key.startswith(_OF_CONNECT):
            found[_of_flow(key, source, target)] = value
    words = (*_words(source, target), (f"{source}.", "source.cluster."), (f"{target}.", "target.cluster."))
    part = of.removeprefix(_CONNECTOR).removesuffix("Connector")
    yield Resource("mm2", where, found, words=words, part=part, ends=(source, target))


def _of_flow(key: str, source: str, target: str) -> str:
    """Return what a key of a connector is in dedicated mode."""
    begins = {
        "source.cluster.": f"{source}.",
        "target.cluster.": f"{target}.",
        "source.consumer.": f"{source}.consumer.",
        "consumer.": f"{source}.consumer.",
        "producer.override.": f"{target}.producer.",
    }
    begin = next((one for one in begins if key.startswith(one)), "")
    return f"{begins.get(begin, f'{source}->{target}.')}{key.removeprefix(begin)}"


def _words(source: str, target: str) -> tuple[tuple[str, str], ...]:
    """Return the names that a connector has for its keys, by what these begin with in dedicated mode."""
    return (
        (f"{source}->{target}.", ""),
        (f"{target}.producer.", "producer.override."),
        (f"{source}.consumer.", "source.consumer."),
    )


def connector_of(key: str) -> str:
    """Return which of the three connectors reads a key alone; empty where several do."""
    return next((part for part, begins in _OF.items() if key.startswith(begins)), "")


def _bridge(spec: Mapping[str, Any], name: str, where: str) -> Resource:
    values = _named(spec, {"bootstrapServers": "kafka.bootstrap.servers"}, name, where)
    values |= _named(_map(spec, "http"), {"port": "http.port"}, name, where)
    values |= _login(spec, "kafka.", name, where)
    words = []
    for part, client in (("producer", "producer"), ("consumer", "consumer"), ("adminClient", "admin")):
        values |= _values(_map(_map(spec, part), "config"), name, where, f"kafka.{client}.")
        words.append((f"kafka.{client}.", f"{part}.config: "))
    words.append(("JAVA_OPTS", "jvmOptions"))
    flags, limits = _flags(spec), limits_of(spec, where)
    found = list(_replicas(spec, name, where))
    image = str(spec.get("image", ""))
    return Resource("KafkaBridge", where, values, flags, limits, image, tuple(words), findings=tuple(found))


def _replicas(spec: Mapping[str, Any], name: str, where: str) -> Iterator[Finding]:
    """Yield several bridges behind one Service, where clients may consume."""
    count = next(((key, spec[key]) for key in spec if key == "replicas"), None)
    if (
        count
        and isinstance(count[1], int)
        and count[1] > 1
        and _map(spec, "consumer").get("enabled") is not False
    ):
        what = (
            f"replicas is {count[1]}: a consumer lives in one of the bridges, and their Service sends its "
            "next request to any (Strimzi, Configuring the Kafka Bridge)"
        )
        fix = "route each consumer to the bridge that has it, as by a resource for each, or set replicas to 1"
        yield Finding("warning", "rest.balancing", _place(count[0], name, where), what, fix)


def _rest_proxy(spec: Mapping[str, Any], name: str, where: str) -> Resource:
    overrides = _map(spec, "configOverrides")
    values = {key: Value(_FILLED, where) for key in ("bootstrap.servers", "listeners")}
    kafka = _map(_map(spec, "dependencies"), "kafka")
    values |= _named(kafka, {"bootstrapEndpoint": "bootstrap.servers"}, name, where)
    for one in _list(overrides, "server"):
        key, _, value = str(one).partition("=")
        values[key.strip()] = Value(value.strip(), _place(one, name, where))
    flags = " ".join(map(str, _list(overrides, "jvm")))
    image = str(_map(spec, "image").get("application", ""))
    limits = limits_of(_map(spec, "podTemplate"), where)
    return Resource("KafkaRestProxy", where, values, flags, limits, image)


def _mirror(spec: Mapping[str, Any], name: str, where: str) -> Resource:
    listed = [one for one in _list(spec, "clusters") if isinstance(one, Mapping)]
    mirrors = [one for one in _list(spec, "mirrors") if isinstance(one, Mapping)]
    target = _map(spec, "target")
    listed += [one for one in (target, *(_map(mirror, "source") for mirror in mirrors)) if one]
    ends = {str(one.get("alias")): one for one in listed}
    values: dict[str, Value] = {"clusters": Value(", ".join(ends), where)}
    for alias, one in ends.items():
        values |= _named(one, {"bootstrapServers": f"{alias}.bootstrap.servers"}, name, where)
        values |= _login(one, f"{alias}.", name, where)
        values |= _values(_map(one, "config"), name, where, f"{alias}.")
    words: list[tuple[str, str]] = []
    findings = list(_targets(spec, mirrors, name, where))
    for mirror in mirrors:
        source = str(mirror.get("sourceCluster") or _map(mirror, "source").get("alias"))
        to = str(mirror.get("targetCluster") or target.get("alias"))
        flow = f"{source}->{to}"
        values[f"{flow}.enabled"] = Value("true", where)
        there = [part for part in ("source", "checkpoint", "heartbeat") if f"{part}Connector" in mirror]
        ofs = {part: _map(_map(mirror, f"{part}Connector"), "config") for part in there}
        findings += differing_names({p.title(): _values(of, name, where) for p, of in ofs.items()})
        values |= _named(mirror, {own: f"{flow}.{key}" for own, key in _OF_MIRROR.items()}, name, where)
        for part in ("heartbeat", "checkpoint", "source"):
            of = _map(mirror, f"{part}Connector")
            for key, value in _values(_map(of, "config"), name, where).items():
                if key.startswith(_OF_CONNECT):
                    continue
                # Of the only mirror, as of all: a plan has one value for them.
                alone = key.endswith("replication.factor") and len(mirrors) == 1
                values[key if alone else _of_flow(key, source, to)] = value
            if part == "source":
                values |= _named(of, {"tasksMax": f"{flow}.tasks.max"}, name, where)
        words += [(f"{flow}.{key}", own) for own, key in {**_OF_MIRROR, "tasksMax": "tasks.max"}.items()]
        # A cluster's own keys keep their names where the connector overrides none.
        words += (
            _words(source, to)
            if any(str(key).startswith(_OVERRIDES) for key in ofs.get("source", ()))
            else [(f"{flow}.", "")]
        )
    image = f":{spec['version']}" if "version" in spec else ""
    words += [
        ("tasks.max", "tasksMax"),
        ("KAFKA_HEAP_OPTS", "jvmOptions"),
        ("KAFKA_JVM_PERFORMANCE_OPTS", "jvmOptions.-XX"),
    ]
    return Resource(
        "mm2",
        where,
        values,
        _flags(spec),
        limits_of(spec, where),
        image,
        tuple(words),
        findings=tuple(findings),
    )


def _targets(
    spec: Mapping[str, Any], mirrors: list[Mapping[str, Any]], name: str, where: str
) -> Iterator[Finding]:
    """Yield what the mirrors of a resource have for targets that Strimzi refuses."""
    named = [mirror.get("targetCluster") or _map(spec, "target").get("alias") for mirror in mirrors]
    targets = list(dict.fromkeys(str(one) for one in named if one))
    if len(targets) > 1:
        said = (
            key for one in mirrors for key in one if key == "targetCluster" and str(one[key]) == targets[1]
        )
        what = f"the mirrors of one KafkaMirrorMaker2 have one target, and these have {' and '.join(targets)}"
        fix = f"write a second resource for the other{'s' * (len(targets) > 2)}"
        yield Finding("error", "mirror.flows", _place(next(said, ""), name, where), what, fix)
    for key in (one for one in spec if one == "connectCluster" and len(targets) == 1):
        if str(spec[key]) != targets[0]:
            what = f"connectCluster is {spec[key] or 'empty'}, and the target of the mirrors is {targets[0]}"
            what, fix = f"{what}: Strimzi refuses it", f"write connectCluster: {targets[0]}"
            yield Finding("error", "mirror.flows", _place(key, name, where), what, fix)


#: By which connectors name the copies of topics, with the defaults.
_POLICY: Final = "replication.policy.class"
_NAMED_BY: Final = {
    _POLICY: "org.apache.kafka.connect.mirror.DefaultReplicationPolicy",
    "replication.policy.separator": ".",
}


def differing_names(connectors: Mapping[str, Mapping[str, Value]]) -> Iterator[Finding]:
    """Yield what the connectors of one flow name the copies of topics by differently."""
    # A heartbeat names no copies.
    naming = {part: values for part, values in connectors.items() if part != "Heartbeat"}
    for key, default in _NAMED_BY.items():
        said = {part: values[key].text if key in values else default for part, values in naming.items()}
        part = next((one for one, text in said.items() if text != said.get("Source", text)), None)
        if part is None:
            continue
        policies = [naming[one].get(_POLICY, Value("", "")).text for one in (part, "Source")]
        # The policy of identical names reads no separator, and another policy is a finding already.
        if key != _POLICY and any(one.endswith("IdentityReplicationPolicy") for one in policies):
            continue
        of, source = ((said[one].rpartition(".")[2] or said[one] or "empty") for one in (part, "Source"))
        yield Finding(
            "warning",
            "mirror.flows",
            (naming[part].get(key) or naming["Source"][key]).place,
            f"{key} is {of} for Mirror{part}Connector and {source} for MirrorSourceConnector: the first "
            "looks for copies under names that the second does not give them",
            f"write the same {key} for each connector of the flow",
        )


def _login(node: Mapping[str, Any], begin: str, name: str, where: str) -> dict[str, Value]:
    """Return the protocol of a cluster, whose login an operator fills in."""
    asked = node.get("authentication")
    sasl = isinstance(asked, Mapping) and asked.get("type") != "tls"
    tls = node.get("tls") is not None
    if not sasl and not tls:
        return {}
    protocol = f"{'SASL_' * sasl}{'SSL' if tls else 'PLAINTEXT'}"
    found = {f"{begin}security.protocol": Value(protocol, where)}
    return found | ({f"{begin}sasl.jaas.config": Value(_FILLED, where)} if sasl else {})


def _flags(spec: Mapping[str, Any]) -> str:
    """Return the flags of ``jvmOptions``."""
    options = _map(spec, "jvmOptions")
    found = [f"{key}{value}" for key, value in options.items() if key in ("-Xms", "-Xmx")]
    for key, value in _map(options, "-XX").items():
        on = {"true": f"+{key}", "false": f"-{key}"}.get(text_of_value(value), f"{key}={value}")
        found.append(f"-XX:{on}")
    return " ".join(found)


def _map(node: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = node.get(key)
    return found if isinstance(found, Mapping) else {}


def _list(node: Mapping[str, Any], key: str) -> list[Any]:
    found = node.get(key)
    return found if isinstance(found, list) else []


def _named(node: Mapping[str, Any], keys: Mapping[str, str], name: str, where: str) -> dict[str, Value]:
    """Return those of the fields that are there, under the keys that they stand for."""
    there = {keys[key]: (key, value) for key, value in node.items() if key in keys}
    return {to: Value(text_of_value(value), _place(key, name, where)) for to, (key, value) in there.items()}


def _values(node: Mapping[str, Any], name: str, where: str, begin: str = "") -> dict[str, Value]:
    plain = {key: value for key, value in node.items() if not isinstance(value, Mapping | list)}
    return {f"{begin}{k}": Value(text_of_value(v), _place(k, name, where)) for k, v in plain.items()}


def _place(word: Any, name: str, where: str) -> str:
    line = getattr(word, "line", 0)
    return f"{name}:{line}" if line else where
