"""Tells what a file is by what it holds, and takes it apart: one part a process, a container or a command."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from kedge.evidence.secrets import holds_secret, looks_secret
from kedge.plan.findings import Finding
from kedge.review.containers import LINKED, ComposeContainer, LimitNames, config_maps, containers
from kedge.review.reading import (
    ReviewError,
    Value,
    assignments,
    document,
    joined,
    properties,
    shown,
    text_of,
    unit,
    words,
)
from kedge.review.resources import Resource, connector, resources
from kedge.services.rest.distribution import Signs
from kedge.services.rest.distributions import DISTRIBUTIONS

#: What a part is: the name of a distribution of the REST proxy, mm2, classic, streams, consumer, producer,
#: haproxy, sysctl; ``environment`` belongs to a process of another file, and ``other`` is not reviewed.
Kind = str

#: How the distributions of the REST proxy are told, by their names.
SIGNS: Final[Mapping[str, Signs]] = {d.name: d.signs for d in DISTRIBUTIONS.values() if d.signs}
#: The one whose image makes properties of variables.
_NAME, _CONTAINED = next((name, signs) for name, signs in SIGNS.items() if signs.variables)
#: Under this name stand the flags of a process's own command line, whichever variable gave them.
JVM_FLAGS: Final = "JVM_FLAGS"


@dataclass(frozen=True, slots=True)
class FileFindings:
    """What one file, or one container or command of it, says.

    Attributes:
        kind: what it is.
        where: the file, and what of it.
        values: the keys of its configuration.
        environment: environment variables, JVM flags among them.
        unit: directives of a systemd unit.
        arguments: options of a command line: ``--num.streams``.
        files: base names of the configurations that a command names, by option.
        version: what an image, or a jar, says of it.
        heading: what ``other`` is, in words.
        command: its whole command line.
        elsewhere: what gives it more variables, and is named alone.
        ports: of a container with a network of its own, its published ports: outside, by those inside.
        words: the names that the file has for keys, by what keys begin with.
        connector: which of the connectors of MirrorMaker 2 it is, if it is one.
        ends: of a connector, the aliases of its source and its target.
        findings: what reading it has shown already.
        limits: of a container, what the file calls its limits.
        variables: what the variables begin with that an image makes ``values`` of.
        starts: it shows all that its start script is given, unless it is ``lacking``.
        lacking: some of what gives it variables was not given.
    """

    kind: Kind
    where: str
    values: Mapping[str, Value] = field(default_factory=dict)
    environment: Mapping[str, Value] = field(default_factory=dict)
    unit: Mapping[str, Value] = field(default_factory=dict)
    arguments: Mapping[str, Value] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    version: str = ""
    heading: str = ""
    command: Value | None = None
    elsewhere: tuple[str, ...] = ()
    ports: Mapping[str, Value] | None = None
    words: tuple[tuple[str, str], ...] = ()
    connector: str = ""
    ends: tuple[str, str] = ("", "")
    findings: tuple[Finding, ...] = ()
    limits: LimitNames | None = None
    variables: str = ""
    starts: bool = False
    lacking: bool = False


_IMAGE_VERSION: Final = re.compile(r":v?(\d+\.\d+(?:\.\d+)?)")
# Of one line each: what goes on over empty ones would be looked at from each of them.
_COMPOSE: Final = re.compile(r"(?m)^[ \t]*(?:- )?(services|spec|containers|image):")
_HAPROXY: Final = re.compile(r"(?m)^[ \t]*(?:frontend|backend|listen)[ \t]+\S")
_NGINX: Final = re.compile(r"(?m)^[ \t]*(?:proxy_pass[ \t]|upstream[ \t]+\S+[ \t]*\{)")
_SYSCTL: Final = re.compile(r"(?m)^[ \t]*(?:sysctl[ \t]+-w[ \t]+|-)?(?:net|vm|fs|kernel)\.[\w./-]+[ \t]*=")
_SYSCTL_KEY: Final = re.compile(r"(?:net|vm|fs|kernel)[./][\w./-]+")
_UNIT: Final = re.compile(r"(?m)^\[(?:Unit|Service|Install)\][ \t]*$")
#: A kernel has a few for each of its network devices.
_SYSCTL_KEYS: Final = 100_000
#: The version of an image whose tag says none: today's.
NEWEST: Final = "latest"
_LATEST: Final = re.compile(r"^[^:@]*(?::latest)?$")
#: What the variables of a worker of Connect begin with, in its image.
_WORKERS: Final = "CONNECT_"
#: What the command lines of mirrors have in them.
MIRRORS: Final[Mapping[Kind, str]] = {
    "classic": r"kafka\.tools\.MirrorMaker\b|kafka-mirror-maker(?:\.sh)?\b",
    "mm2": r"org\.apache\.kafka\.connect\.mirror\.MirrorMaker\b|connect-mirror-maker(?:\.sh)?\b",
}
_APPLICATIONS_FILE: Final = r"^(?!.*(?:consumer|producer)).*(?<![a-z])streams"
#: An application's own program with Kafka Streams on its class path, as Kafka's own programs have it too.
_APPLICATION: Final = (
    r"^(?!.*\s(?:kafka|org\.apache|io\.confluent)\.\w)(?:\S*/)?java\s.*\bkafka-streams-\d[\w.-]{0,60}\.jar\b"
)
# A build of another's program has a place of its own, and is asked for first.
_MAIN: Final = {
    **{name: SIGNS[name].started for name in reversed(list(SIGNS))},
    **MIRRORS,
    "streams": _APPLICATION,
}
#: What a JVM reads after its command line.
_OF_JVM: Final = "_JAVA_OPTIONS"
#: A start script that nothing stands before which may set variables.
_START: Final = (
    r"(?:/\S*/)?(?:kafka-rest-start|kafka_bridge_run\.sh"
    r"|(?:(?:connect|kafka)-mirror-maker|connect-distributed)(?:\.sh)?)\s"
)
#: Of Kafka's own image, which sets no variable of them.
_KAFKA: Final = re.compile(r"(?:docker\.io/)?apache/kafka(?::|$)")
#: A version in the name of a jar of a class path; Confluent's builds of Kafka have a version of their own.
_JAR_VERSION: Final = (
    r"kafka-rest-(\d+\.\d+\.\d+)\.jar",
    r"(?:connect-mirror|kafka_2\.\d+|kafka-streams|kafka-clients)-(\d+\.\d+\.\d+)\.jar",
)
#: Keys that only one kind of configuration has; those of a REST proxy stand in its record.
_OWN: Final[Mapping[Kind, tuple[str, ...]]] = {
    "mm2": ("clusters",),
    **{name: signs.keys for name, signs in SIGNS.items() if not signs.file},
    "streams": ("application.id", "num.stream.threads", "processing.guarantee"),
}
_LIKELY: Final[Mapping[Kind, tuple[str, ...]]] = {
    "other": ("node.id", "broker.id", "process.roles", "log.dirs", "tickTime", "kafkastore.topic",
              "plugin.path", "offset.storage.topic", "offset.storage.file.filename", "connector.class"),
    **{name: signs.keys for name, signs in SIGNS.items() if signs.file},
    "consumer": ("group.id", "auto.offset.reset", "partition.assignment.strategy", "fetch.min.bytes",
                 "consumer.timeout.ms", "max.poll.records", "enable.auto.commit", "session.timeout.ms",
                 "key.deserializer"),
    "producer": ("acks", "compression.type", "batch.size", "linger.ms", "buffer.memory", "producer.type",
                 "request.required.acks", "max.block.ms", "metadata.broker.list", "retries",
                 "max.request.size", "serializer.class", "key.serializer"),
}  # fmt: skip
#: Of a REST proxy's start; what is written like one of these is meant to be one.
_REST_VARIABLE: Final = re.compile(
    r"KAFKA_?REST_((HEAP|JVM_PERFORMANCE|JMX|LOG4J)_)?OPTS|KAFKA_?REST_JMX_PORT"
)
_VARIABLE: Final = re.compile(r"[A-Z][A-Z0-9_]*")


def parts_of(path: Path) -> list[FileFindings]:
    """Return the parts of a file.

    Raises:
        ReviewError: when it cannot be read, or is nothing that can be told.
    """
    text, name = text_of(path), shown(path)
    if not text.strip():
        raise ReviewError(f"{name}: is empty; name a file that holds a configuration")
    yaml_name = path.suffix in (".yml", ".yaml", ".json")
    if yaml_name or (_COMPOSE.search(text) and path.suffix not in (".properties", ".cfg", ".sh")):
        documents = document(text, name)
        found = [_of_container(one) for one in containers(documents, name)]
        found += [_of_resource(one) for one in resources(documents, name)]
        found += _of_maps(documents, name)
        if not found:
            raise ReviewError(
                f"{name}: names no container; name a compose file, a manifest or a configuration"
            )
        return found
    if nginx := _NGINX.search(text) or _HAPROXY.search(text):
        other = FileFindings("other", name, heading="nginx, whose configuration is not read")
        return [other if nginx.re is _NGINX else FileFindings("haproxy", name, {"": Value(text, name)})]
    if _UNIT.search(text):
        return [_of_unit(text, name)]
    lines = [line for line in text.split("\n") if line.strip() and line.strip()[0] not in "#!;"]
    if len(_SYSCTL.findall(text)) * 2 >= len(lines):
        return [_of_kernel(text, name)]
    if commands := list(_commands(text, name)):
        variables = assignments(text, name)
        return [_of_command(value, variables, name) for value in commands]
    return [_of_keys(text, name, path)]


def _of_kernel(text: str, name: str) -> FileFindings:
    findings = []
    lines = text.split("\n")
    for at, line in enumerate(lines):
        key, *rest = line.split(maxsplit=1) or [""]
        if "=" in line or not _SYSCTL_KEY.fullmatch(bare := key.removeprefix("-")):
            continue
        lines[at] = ""
        # With a dash before it, systemd takes it for one to leave alone.
        if bare == key:
            what = f"{key} has no =: sysctl leaves the line out"
            fix = f"write {key} = {' '.join(rest).rstrip() or 'VALUE'}"
            findings.append(Finding("error", "host.own", f"{name}:{at + 1}", what, fix))
    values = properties("\n".join(lines), name, _SYSCTL_KEYS)
    return FileFindings("sysctl", name, values, findings=(*findings, *_twice(values)))


def _twice(values: Mapping[str, Value]) -> Iterator[Finding]:
    """Yield keys of a file that stand in two lines, of which the last one holds."""
    for key, value in values.items():
        if value.former is None or key == "sysctl":
            continue
        line = value.former.place.rpartition(":")[2]
        if value.text == value.former.text:
            what = f"{key} is in line {line} too, with the same value"
            yield Finding("note", "review.twice", value.place, what, "")
        else:
            secret = looks_secret(key) or holds_secret(value.former.text)
            said = "another value" if secret else value.former.text or "empty"
            what = f"{key} is in line {line} too, as {said}: this line holds"
            yield Finding("warning", "review.twice", value.place, what, "take one of the two lines out")


def _of_resource(one: Resource) -> FileFindings:
    kind = next((n for n, signs in SIGNS.items() if signs.resource == one.kind), one.kind)
    version = _IMAGE_VERSION.search(one.image)
    flags = {JVM_FLAGS: Value(one.flags, one.where)} if one.flags else {}
    part = FileFindings(kind, one.where, one.values, flags, one.limits, version=version[1] if version else "")
    # A connector runs in a worker, whose limits are another file's.
    limits = None if one.part else LimitNames(compose=False)
    return replace(
        part, words=one.words, connector=one.part, ends=one.ends, limits=limits, findings=one.findings
    )


def _of_maps(documents: list[Any], name: str) -> Iterator[FileFindings]:
    """Yield the configurations in the ConfigMaps of a file, which containers mount."""
    for called, data in config_maps(documents).items():
        for key, text in data.items():
            if str(key).endswith(".properties") and isinstance(text, str):
                where = f"{name}, {called}/{key}"
                values = properties(text, where)
                if (kind := kind_of(values)) not in (None, "other"):
                    yield FileFindings(str(kind), where, values, findings=tuple(_twice(values)))


def _of_keys(text: str, name: str, path: Path) -> FileFindings:
    values = properties(text, name)
    if mirrored := list(connector(values, name)):
        return _of_resource(mirrored[0])
    variables = {key: value for key, value in assignments(text, name).items() if _VARIABLE.fullmatch(key)}
    if variables and path.suffix != ".properties" and len(variables) * 2 >= len(values):
        return _of_environment(variables, name)
    named = next((n for n, signs in SIGNS.items() if signs.file and re.search(signs.file, path.name)), None)
    kind = kind_of(values)
    if kind in (None, "consumer", "producer"):
        kind = named or next((role for role in ("consumer", "producer") if role in path.name.lower()), kind)
    if not values and kind is None:
        raise ReviewError(f"{name}: holds no key; name a file of KEY=VALUE lines, a unit or a compose file")
    kind = named if named and kind == "other" else kind
    # What an application's own file has more of may be anything.
    open_kind = kind in (None, "other", "consumer", "producer") and not named
    if open_kind and re.search(_APPLICATIONS_FILE, path.name.lower()):
        kind = "streams"
    if kind is None:
        raise ReviewError(
            f"{name}: is of no kind that is known: it has no key of a REST proxy, a mirror, Streams, HAProxy "
            "or the kernel; call it kafka-rest.properties, consumer.properties or producer.properties"
        )
    heading = "a configuration of a broker, of Connect or of a registry" if kind == "other" else ""
    return FileFindings(kind, name, values, heading=heading, findings=tuple(_twice(values)))


def kind_of(values: Mapping[str, Value]) -> Kind | None:
    """Return what a configuration is by its keys; None where they do not say."""
    if any(re.match(r"\S+->\S+\.", key) for key in values):
        return "mm2"
    for kind, keys in _OWN.items():
        if any(key in values for key in keys):
            return kind
    scores = {kind: sum(key in values for key in keys) for kind, keys in _LIKELY.items()}
    best = max(scores, key=lambda kind: scores[kind])
    return best if scores[best] else None


def _of_environment(variables: Mapping[str, Value], name: str) -> FileFindings:
    values, environment = rest_properties(variables)
    if values:
        return FileFindings(_NAME, name, values, environment, variables=_CONTAINED.variables)
    return FileFindings("environment", name, environment=environment)


def rest_properties(variables: Mapping[str, Value]) -> tuple[dict[str, Value], dict[str, Value]]:
    """Return the properties that kafka-rest's image makes of ``KAFKA_REST_*``, and the other variables."""
    values: dict[str, Value] = {}
    others: dict[str, Value] = {}
    for name, value in variables.items():
        rest = name.removeprefix(_CONTAINED.variables)
        if rest == name or _REST_VARIABLE.fullmatch(name) or rest == "PORT":
            others[name] = value
        elif rest not in _CONTAINED.of_image:
            values[_key(rest)] = value
    return values, others


def handed_on(part: FileFindings) -> FileFindings:
    """Return what an image runs with the variables that its launch script hands on, under their names."""
    if not part.variables:
        return part
    there = {own: name for own, name in _CONTAINED.handed_on.items() if own in part.environment}
    environment = {there.get(name, name): value for name, value in part.environment.items()}
    return replace(part, environment=environment, words=(*part.words, *((n, o) for o, n in there.items())))


def meant_for_image(name: str, known: Callable[[str], bool]) -> str | None:
    """Return the variable of an image that one which it does not read is meant to be.

    Its names begin in two ways, which are mistaken for each other; ``known`` says what is a property.
    """
    read = (*_CONTAINED.handed_on, *(f"{_CONTAINED.variables}{one}" for one in _CONTAINED.of_image))
    letters = name.replace("_", "")
    begin = _CONTAINED.variables.replace("_", "")
    rest = name.removeprefix(f"{begin}_")
    of_property = f"{_CONTAINED.variables}{rest}" if rest != name and known(_key(rest)) else None
    return next((one for one in read if one.replace("_", "") == letters), of_property)


def _key(name: str) -> str:
    """Return the property of a variable: three underscores are a dash, two an underscore, one is a dot."""
    return name.lower().replace("___", "-").replace("__", "\0").replace("_", ".").replace("\0", "_")


def variable_of(begin: str, key: str) -> str:
    """Return the variable that an image makes a property of."""
    return f"{begin}{key.replace('_', '__').replace('-', '___').replace('.', '_').upper()}"


def _of_container(one: ComposeContainer) -> FileFindings:
    version = _IMAGE_VERSION.search(one.image)
    image = one.image.lower()
    said = version[1] if version else NEWEST if _CONTAINED.plain in image and _LATEST.search(image) else ""
    # Of what Kubernetes writes itself, an image reads one alone; nobody can take the others out.
    own = {k: v for k, v in one.environment.items() if v.text != LINKED or k == f"{_CONTAINED.variables}PORT"}
    one = replace(one, environment=own)
    rest = not image or any(word in image for word in _CONTAINED.images)
    command = Value(one.command, one.where)
    of_rest = any(name.startswith(_CONTAINED.variables) for name in one.environment)
    if rest and (of_rest or (one.elsewhere and "rest" in image)):
        values, environment = rest_properties(one.environment)
        # A broker's own stand beside them in an image of both.
        proxy = not image or "rest" in image
        kept = {k: v for k, v in environment.items() if proxy or _REST_VARIABLE.fullmatch(k)}
        kept = {k: v for k, v in kept.items() if k.startswith(("KAFKA", "JMX_PORT", "LOG_DIR"))}
        part = FileFindings(_NAME, one.where, values, kept, one.limits, version=said)
        # Another image, another command, or the JVM itself may set what is not seen here.
        starts = _CONTAINED.plain in image and not (one.properties or one.command or _OF_JVM in environment)
        part = replace(part, command=command, limits=one.names, starts=bool(image) and starts)
        variables = "" if one.properties else _CONTAINED.variables
        lacking = bool(one.elsewhere)
        return replace(part, elsewhere=one.elsewhere, ports=one.ports, variables=variables, lacking=lacking)
    if one.command and (kind := _main(one.command)):
        part = _of_command(command, one.environment, one.where)
        # The tag of an application's image is the application's; a jar says more than any tag.
        of_image = "" if kind == "streams" else said
        files = {option: one.mounted.get(file, file) for option, file in part.files.items()}
        part = replace(part, kind=kind, unit=one.limits, version=part.version or of_image, files=files)
        starts = bool(_KAFKA.match(image)) and _starts(one.command, one.environment)
        part = replace(part, limits=one.names, starts=starts, lacking=bool(one.elsewhere))
        return replace(part, elsewhere=one.elsewhere, ports=one.ports)
    other = FileFindings("other", one.where, heading=f"a container of {one.image or 'no image'}")
    # A worker of Connect, whose connectors are in files of their own; its image makes keys of variables.
    keys = {_key(k.removeprefix(_WORKERS)): v for k, v in one.environment.items() if k.startswith(_WORKERS)}
    of_jvm = {k: v for k, v in one.environment.items() if k.startswith("KAFKA_")}
    worker = replace(
        other, values=keys, environment=of_jvm, unit=one.limits, limits=one.names, ports=one.ports
    )
    return replace(worker, lacking=bool(one.elsewhere)) if keys else other


def _of_unit(text: str, name: str) -> FileFindings:
    directives, variables, commands, files = unit(text, name)
    for value in commands:
        if kind := _main(value.text):
            part = _of_command(value, variables, name)
            environment = {**variables, **part.environment}
            starts = _starts(value.text, variables)
            part = replace(part, kind=kind, environment=environment, unit=directives, elsewhere=files)
            return replace(part, starts=starts, lacking=bool(files))
    # A worker of Connect, whose connectors are in files of their own.
    starts = any(_starts(value.text, variables) for value in commands)
    part = FileFindings("environment", name, environment=variables, unit=directives, elsewhere=files)
    return replace(part, starts=starts, lacking=bool(files))


def _starts(command: str, variables: Container[str]) -> bool:
    """Return whether a command is a start script to which these variables are given alone."""
    return bool(re.match(_START, command)) and _OF_JVM not in variables


def _commands(text: str, name: str) -> Iterator[Value]:
    for number, line in joined(text, name):
        if line and _main(line) and not re.match(r"[\w.-]+\s*=", line):
            yield Value(line, f"{name}:{number}")


def _main(line: str) -> Kind | None:
    return next((kind for kind, pattern in _MAIN.items() if re.search(pattern, line)), None)


def _of_command(command: Value, variables: Mapping[str, Value], name: str) -> FileFindings:
    kind = _main(command.text) or "other"
    listed = words(command.text)
    arguments: dict[str, Value] = {}
    files: dict[str, str] = {}
    flags: list[str] = []
    for at, word in enumerate(listed):
        option, equals, given = word.partition("=")
        if word.startswith("--"):
            following = (
                listed[at + 1] if at + 1 < len(listed) and not listed[at + 1].startswith("--") else "true"
            )
            value = given if equals else following
            arguments[option.lstrip("-")] = Value(value, command.place)
            if option.endswith((".config", "config-file")):
                files[option.lstrip("-")] = Path(value).name
        elif word.startswith("-") and len(word) > 1:
            flags.append(word)
        elif word.endswith(".properties"):
            files["properties"] = Path(word).name
    environment = {k: v for k, v in variables.items() if _VARIABLE.fullmatch(k)}
    if flags and re.search(r"(^|/)java$", listed[0]):
        environment[JVM_FLAGS] = Value(" ".join(flags), command.place)
    jars = re.search(_JAR_VERSION[kind not in SIGNS], command.text)
    return FileFindings(
        kind,
        name,
        environment=environment,
        arguments=arguments,
        files=files,
        command=command,
        version=jars[1] if jars else "",
    )
