"""Finds containers in compose files and in manifests of Kubernetes: image, command, environment, limits."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any, Final

from kedge.review.reading import Value, YamlText, settled

#: What stands for a value that the file takes from elsewhere, as Kafka's clients write such a reference.
ELSEWHERE: Final = "${elsewhere:%s}"
_SCALE: Final = {
    "": 1,
    "b": 1,
    "k": 1024,
    "ki": 1024,
    "m": 1024**2,
    "mi": 1024**2,
    "g": 1024**3,
    "gi": 1024**3,
}


#: More than a host has is no limit.
_NUMBER: Final = r"\d{1,18}(?:\.\d{1,18})?"
#: What compose calls the directives of a unit: alone, and under the limits of deploy.
_COMPOSE: Final = {
    "MemoryMax": ("mem_limit", "memory"),
    "TasksMax": ("pids_limit", "pids"),
    "LimitNOFILE": ("ulimits.nofile", ""),
}
#: An address that its own host, or container, alone reaches.
LOOPBACK: Final = re.compile(r"localhost|127\.[\d.]+|\[::1\]")
_Maps = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class LimitNames:
    """What a file of containers calls the directives of a unit that bound a process.

    ``compose`` is false of Kubernetes, whose pods bound neither open files nor threads; ``deployed`` has the
    directives that a compose file bounds under its deploy, or would if it did.
    """

    compose: bool = True
    deployed: frozenset[str] = frozenset()

    def of(self, directive: str) -> str | None:
        """Return the name; None where the file can say nothing of it."""
        if not self.compose:
            return {"MemoryMax": "resources.limits.memory"}.get(directive)
        short, under = _COMPOSE.get(directive, (None, ""))
        return f"deploy.resources.limits.{under}" if directive in self.deployed else short

    def size(self, of_unit: str) -> str:
        """Return a size as the file writes it, such as 512m or 512Mi."""
        return re.sub(r"(?<=\d)M$", "m" if self.compose else "Mi", of_unit)


@dataclass(frozen=True, slots=True)
class ComposeContainer:
    """One container of a file.

    ``limits`` are as a unit has them (``MemoryMax``, ``CPUQuota``), and ``names`` is what the file calls
    them; ``elsewhere`` names what gives it more variables: files, by their base names, and what of Kubernetes
    is not in the file. ``mounted`` has the base names of mounted files, in the container and outside;
    ``ports`` its published ports by those inside, each at its line; None where its network is not its own,
    or nobody knows. ``properties``: a chart has keys as they are.
    """

    where: str
    image: str
    command: str
    environment: Mapping[str, Value]
    limits: Mapping[str, Value]
    elsewhere: tuple[str, ...] = ()
    mounted: Mapping[str, str] = field(default_factory=dict)
    ports: Mapping[str, Value] | None = None
    names: LimitNames = LimitNames()
    properties: bool = False


#: What Kubernetes writes into a variable that is named after a Service.
LINKED: Final = "tcp://"


def containers(documents: list[Any], name: str) -> list[ComposeContainer]:
    """Return the containers of a file's documents, in their order."""
    maps = config_maps(documents)
    found = [one for document in documents for one in _in(_without_extensions(document), name, "", maps)]
    shared = set(_shared(documents))
    found = [replace(one, ports=None) if one.where.rpartition(", ")[2] in shared else one for one in found]
    if any(map(_unlinked, documents)):
        return found
    # A pod that starts after a Service has its address in a variable.
    links = {f"{one.upper().replace('-', '_')}_PORT": Value(LINKED, f"{name}, Service {one}")
             for one in _services(documents)}  # fmt: skip
    return [replace(one, environment={**links, **one.environment}) for one in found]


def _shared(node: Any) -> Iterator[str]:
    """Yield the services of compose in whose network another one listens as well."""
    if isinstance(node, Mapping):
        begin, _, name = str(node.get("network_mode", "")).partition(":")
        if begin == "service":
            yield name
    for one in node.values() if isinstance(node, Mapping) else node if isinstance(node, list) else ():
        yield from _shared(one)


def _without_extensions(document: Any) -> Any:
    """Return a document without the fields of compose that stand for nothing but what merges them."""
    if not isinstance(document, Mapping):
        return document
    return {key: value for key, value in document.items() if not str(key).startswith("x-")}


def config_maps(documents: list[Any]) -> dict[str, Mapping[str, Any]]:
    """Return the data of each ConfigMap by its name."""
    return {
        str(one["metadata"].get("name")): one["data"]
        for one in documents
        if isinstance(one, Mapping)
        and one.get("kind") == "ConfigMap"
        and isinstance(one.get("metadata"), Mapping)
        and isinstance(one.get("data"), Mapping)
    }


def _services(documents: list[Any]) -> Iterator[str]:
    for one in documents:
        if (
            isinstance(one, Mapping)
            and one.get("kind") == "Service"
            and isinstance(one.get("metadata"), Mapping)
        ):
            yield str(one["metadata"].get("name"))


def _unlinked(node: Any) -> bool:
    """Return whether a pod of a document asks for no variables of Services."""
    if isinstance(node, Mapping):
        return node.get("enableServiceLinks") is False or any(map(_unlinked, node.values()))
    return isinstance(node, list) and any(map(_unlinked, node))


def _in(node: Any, name: str, called: str, maps: _Maps) -> Iterator[ComposeContainer]:
    if isinstance(node, list):
        for one in node:
            yield from _in(one, name, called, maps)
    elif isinstance(node, Mapping):
        if _is_container(node):
            yield _container(node, name, called, maps)
            return
        if (values := _of_chart(node)) is not None:
            yield _container(values, name, called or "values", maps)
            return
        for key, one in node.items():
            yield from _in(one, name, str(key), maps)


def _is_container(node: Mapping[Any, Any]) -> bool:
    image = isinstance(node.get("image"), str)
    of_one = {"environment", "env", "env_file", "envFrom", "command", "args", "ports"}
    return (image and bool(of_one & node.keys())) or (
        "environment" in node and isinstance(node["environment"], dict | list) and "build" in node
    )


#: Where charts have the variables of their container.
_CHART: Final = ("env", "envs", "extraEnv", "extraEnvVars", "customEnv", "environment")
#: Where a chart has properties that its template makes variables of, as the image of a REST proxy reads them.
_OVERRIDES: Final = "configurationOverrides"


def _of_chart(node: Mapping[Any, Any]) -> dict[str, Any] | None:
    """Return the values of a Helm chart as the container that becomes of them; None where they are none."""
    named = node.get("image")
    of_image = named if isinstance(named, Mapping) else {"repository": named, "tag": node.get("imageTag")}
    image, tag = of_image.get("repository"), of_image.get("tag")
    there = [of for key in _CHART if isinstance(of := node.get(key), Mapping | list)]
    overrides = node.get(_OVERRIDES)
    if not isinstance(image, str) or not (there or _OVERRIDES in node):
        return None
    given = [
        {"name": key, "value": value} for of in there if isinstance(of, Mapping) for key, value in of.items()
    ]
    given += [one for of in there if isinstance(of, list) for one in of]
    of_rest = _OVERRIDES in node and "rest" in image
    rest = overrides if isinstance(overrides, Mapping) and of_rest else {}
    # Its brokers, and a login, which is a secret, are the chart's to fill in, unless a person does.
    filled = ["bootstrap.servers"] * of_rest
    filled += [f"{begin}sasl.jaas.config" for key, value in rest.items() if str(value).startswith("SASL_")
               for begin, protocol, _ in [str(key).rpartition("security.protocol")] if protocol]  # fmt: skip
    given = [{"name": _renamed(key), "value": ELSEWHERE % "the chart"} for key in filled] + given
    given += [{"name": _renamed(key), "value": value} for key, value in rest.items()]
    if of_rest and "heapOptions" in node:
        given.append({"name": "KAFKAREST_HEAP_OPTS", "value": node["heapOptions"]})
    whole = f"{image}:{tag}" if tag else image
    return {**node, "name": None, "image": whole, "env": given, "environment": given}


def _renamed(key: str) -> YamlText:
    """Return the variable that a chart makes of a property, at its line."""
    name = YamlText(f"KAFKA_REST_{str(key).upper().replace('.', '_')}")
    name.line = getattr(key, "line", 0)
    return name


def _container(node: Mapping[Any, Any], name: str, called: str, maps: _Maps) -> ComposeContainer:
    where = f"{name}, {node.get('name') or node.get('container_name') or called}"
    words = [node.get(key) for key in ("entrypoint", "command", "args")]
    command = " ".join(" ".join(map(str, w)) if isinstance(w, list) else str(w) for w in words if w)
    named = list(_elsewhere(node))
    given = [each for kind, one in named if kind == "ConfigMap" for each in _variables(maps.get(one))]
    given += _variables(node.get("environment", node.get("env")))
    environment = {
        key: Value(value, f"{name}:{line}" if line else where)
        for key, value, line in given
        if re.fullmatch(r"[A-Za-z_][\w.-]*", key)
    }
    elsewhere = tuple(f"{kind} {one}".strip() for kind, one in named if one not in maps)
    image = str(node.get("image", ""))
    command, mounted = command.replace("\n", " "), dict(_mounted(node))
    # A container of a pod has its name in it, a service of compose above it. Only Kubernetes has resources.
    compose = not {"name", "resources"} & node.keys()
    names = LimitNames(compose, frozenset(_deployed(node)) if compose else frozenset())
    limits, ports = limits_of(node, where), _ports(node, name) if compose else None
    return ComposeContainer(
        where, image, command, environment, limits, elsewhere, mounted, ports, names, _OVERRIDES in node
    )


def _deployed(node: Mapping[Any, Any]) -> Iterator[str]:
    """Yield the directives that compose has under deploy, or gets there beside others."""
    if _at(node, "deploy", "resources", "limits")[0]:
        yield from (one for one, (short, under) in _COMPOSE.items() if under and short not in node)


def _mounted(node: Mapping[Any, Any]) -> Iterator[tuple[str, str]]:
    """Yield the base names of what compose mounts: in the container, and outside."""
    volumes = node.get("volumes")
    for one in volumes if isinstance(volumes, list) else ():
        pair = (one.get("source"), one.get("target")) if isinstance(one, Mapping) else str(one).split(":")[:2]
        if len(pair) > 1 and all(pair):
            outside, inside = (PurePosixPath(str(path)).name for path in pair)
            yield inside, outside


def _ports(node: Mapping[Any, Any], name: str) -> dict[str, Value] | None:
    """Return the ports that compose publishes by those inside; None where the network is not its own."""
    if str(node.get("network_mode", "bridge")) not in ("bridge", "default", "none"):
        return None
    ports, line = _at(node, "ports")
    found = {}
    for one in ports if isinstance(ports, list) else ():
        if isinstance(one, Mapping):
            outside = ":".join(str(one[key]) for key in ("host_ip", "published") if one.get(key))
            inside = f"{one.get('target')}/{one.get('protocol', 'tcp')}"
        else:
            outside, _, inside = settled(Value(str(one), "")).text.rpartition(":")
        port, _, protocol = inside.partition("/")
        # Of two publications of a port the one counts that reaches further.
        if protocol in ("", "tcp") and not (port in found and LOOPBACK.match(outside)):
            found[port] = Value(outside, f"{name}:{getattr(one, 'line', line)}")
    return found


def _elsewhere(node: Mapping[Any, Any]) -> Iterator[tuple[str, str]]:
    """Yield what gives a container more variables: a kind, empty of a file, and a name."""
    extended = node.get("extends")
    if named := extended.get("service") if isinstance(extended, Mapping) else extended:
        yield "service", str(named)
    files = node.get("env_file")
    for one in files if isinstance(files, list) else [files]:
        path = one.get("path") if isinstance(one, Mapping) else one
        if path:
            yield "", PurePosixPath(str(path)).name
    sources = node.get("envFrom")
    for one in sources if isinstance(sources, list) else ():
        for key, kind in (("configMapRef", "ConfigMap"), ("secretRef", "Secret")):
            reference = one.get(key) if isinstance(one, Mapping) else None
            if isinstance(reference, Mapping):
                yield kind, str(reference.get("name"))


def _variables(given: Any) -> Iterator[tuple[str, str, int]]:
    """Yield name, value and line of each variable; line 0 where the name is no text of a file."""
    if isinstance(given, Mapping):
        for key, value in given.items():
            # Compose takes a variable without a value from its own environment.
            text = ELSEWHERE % "the shell" if value is None else text_of_value(value)
            yield str(key), text, getattr(key, "line", 0)
    for one in given if isinstance(given, list) else ():
        if isinstance(one, Mapping) and "name" in one:
            value = text_of_value(one["value"]) if "value" in one else ELSEWHERE % "a reference"
            yield str(one["name"]), value, getattr(one["name"], "line", 0)
        elif isinstance(one, str):
            key, equals, value = one.partition("=")
            yield (
                key.strip(),
                text_of_value(value) if equals else ELSEWHERE % "the shell",
                getattr(one, "line", 0),
            )


def text_of_value(value: Any) -> str:
    """Return a value of YAML as a configuration has it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value).replace("$$", "$").strip()


def limits_of(node: Mapping[Any, Any], where: str) -> dict[str, Value]:
    """Return the limits of a container as a unit has them, each at its line."""
    found = {}
    file = where.partition(",")[0]

    def note(directive: str, text: str, line: int) -> None:
        found[directive] = Value(text, f"{file}:{line}" if line else where)

    memory, line = _limit(node, "mem_limit", "memory")
    match = re.fullmatch(rf"({_NUMBER})\s*([a-z]*)", memory.lower())
    if match and match[2] in _SCALE:
        note("MemoryMax", f"{int(float(match[1]) * _SCALE[match[2]]) >> 20}M", line)
    cores = next((one for one in (_limit(node, "cpus", "cpus"), _limit(node, "", "cpu")) if one[0]), ("", 0))
    match = re.fullmatch(rf"({_NUMBER})(m?)", cores[0])
    if match:
        note("CPUQuota", f"{float(match[1]) * (0.1 if match[2] else 100):.0f}%", cores[1])
    threads, line = _limit(node, "pids_limit", "pids")
    if re.fullmatch(r"[1-9]\d{0,8}", threads):
        note("TasksMax", threads, line)
    files, line = _at(node, "ulimits", "nofile")
    hard = files.get("hard") if isinstance(files, Mapping) else files
    if re.fullmatch(r"\d{1,9}", str(hard)):
        note("LimitNOFILE", str(hard), line)
    return found


def _limit(node: Mapping[Any, Any], short: str, name: str) -> tuple[str, int]:
    """Return a limit of a container as compose has it, short or under deploy, or as Kubernetes has it."""
    paths = ((short,), ("deploy", "resources", "limits", name), ("resources", "limits", name))
    given = next((one for path in paths if (one := _at(node, *path))[0]), ("", 0))
    return str(given[0]).strip(), given[1]


def _at(node: Any, *path: str) -> tuple[Any, int]:
    """Return what is under a path of keys, and the line of the last one; None and 0 where nothing is."""
    line = 0
    for step in path:
        key = next((one for one in node if one == step), None) if isinstance(node, Mapping) else None
        if key is None:
            return None, 0
        node, line = node[key], getattr(key, "line", 0)
    return node, line
