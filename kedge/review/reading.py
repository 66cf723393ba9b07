"""Reads what people have into keys, values and places: properties, environments, units, command lines.

What a file is, is told by what it holds (:mod:`kedge.review.kinds`); its name decides only where that says
nothing.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from kedge.evidence.bounds import TooMuchError, check_yaml
from kedge.evidence.printable import plain

#: More than any of these files has; a log or an archive that was named by mistake.
_FILE_BYTES: Final = 4 << 20
#: Of one key or command, continued lines together: as many as Linux takes of one argument.
_LINE: Final = 131_072
#: A component reads a few hundred keys.
KEYS: Final = 2_000
_NODES: Final = 200_000
#: shlex copies a word for each of its letters.
_SPLIT: Final = 65_536
#: The key of a line: up to a separator without a backslash before it.
_KEY: Final = re.compile(r"(?:[^\\=: \t\f]|\\.?)*", re.DOTALL)
_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class ReviewError(Exception):
    """A file or an option that cannot be used; the message is one line: what, where, how to fix it."""


class YamlText(str):
    """A text of a YAML file, and the line in which it begins."""

    __slots__ = ("line",)
    line: int


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc] # either is one
    """Reads texts with their lines."""

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Leave of each key the one whose value holds: a dictionary has the last value at the first key."""
        super().flatten_mapping(node)
        last = {(k.tag, k.value) if isinstance(k, yaml.ScalarNode) else id(k): (k, v) for k, v in node.value}
        node.value = list(last.values())


def _with_line(loader: Any, node: yaml.ScalarNode) -> YamlText:
    text = YamlText(loader.construct_scalar(node))
    text.line = node.start_mark.line + 1
    return text


_Loader.add_constructor("tag:yaml.org,2002:str", _with_line)


@dataclass(frozen=True, slots=True)
class Value:
    """What a file says of one key, and where: ``FILE:LINE``, or the container that has it.

    ``former`` is what a line before it says of the same key, which does not hold.
    """

    text: str
    place: str
    former: Value | None = None


Values = Mapping[str, Value]

#: What a template or a shell puts in later: {{ x }}, ${X}, $X, ##X##, __{X}__, %X%, @X@, <x>.
# None of these looks further than to where the next one begins: else each beginning would cost a whole text.
_LATER: Final = re.compile(
    r"\{\{[^{}]*\}\}|\$\{[^{}:]*\}|\$[A-Za-z_]\w*|##\w+##|__\{?\w+\}?__|%\w+%|@@?[A-Z]\w*@@?"
    r"|<[A-Za-z][\w .-]*>"
)
#: What stands elsewhere, as Kafka's config.providers and containers name it.
_REFERENCE: Final = re.compile(r"\$\{[^{}:]+:[^{}]*\}")
#: Where a variable begins, with a default or without one, and where one ends.
_VARIABLE: Final = re.compile(r"(\$\{(?:\w+:?-)?|\})")


def settled(value: Value) -> Value:
    """Return a value with the defaults of shell variables in their place: ``${PORT:-8082}`` is 8082."""
    parts: list[str] = []
    begun: list[int] = []
    for part in _VARIABLE.split(value.text):
        said = part
        if part.startswith("${"):
            begun.append(len(parts))
        elif part == "}" and begun and parts[at := begun.pop()] != "${":
            parts[at] = said = ""
        parts.append(said)
    return Value("".join(parts), value.place)


def comes_later(text: str) -> bool:
    """Return whether a value is put in by somebody else: then nothing can be said of it, of its key alone."""
    _, command, rest = text.partition("$(")
    return bool(_LATER.search(text) or _REFERENCE.search(text) or (command and ")" in rest))


def text_of(path: Path) -> str:
    """Return what a file holds.

    Raises:
        ReviewError: when it is not there, is no text, or is too large.
    """
    name = shown(path)
    try:
        if path.is_dir():
            raise ReviewError(f"{name}: is a folder; name the files in it")
        data = path.read_bytes()
    except OSError as error:
        raise ReviewError(f"{name}: cannot be read: {error.strerror}; name a file that is there") from error
    if len(data) > _FILE_BYTES:
        raise ReviewError(
            f"{name}: has {len(data):,} bytes, more than a configuration has; name another file"
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ReviewError(f"{name}: is no text (UTF-8); name a configuration file") from error
    if "\0" in text:
        raise ReviewError(f"{name}: is no text; name a configuration file")
    return text.replace("\r\n", "\n")


def shown(path: object) -> str:
    """Return a path as a message shows it."""
    return plain(str(path))


def properties(text: str, name: str, most: int = KEYS) -> dict[str, Value]:
    """Return the keys of a properties file, as java.util.Properties reads it; the last of a key wins."""
    return _few(
        ((number, *_key_and_value(line)) for number, line in _short(_logical(text), name)), name, most
    )


def _few(pairs: Iterable[tuple[int, str, str]], name: str, most: int) -> dict[str, Value]:
    """Return keys with their values; raises ReviewError for more than anybody configures."""
    found: dict[str, Value] = {}
    for number, key, value in pairs:
        found[key] = Value(value, f"{name}:{number}", found.get(key))
        if len(found) > most:
            raise ReviewError(
                f"{name}: has more than {most:,} keys, more than a configuration has; name another file"
            )
    return found


def _short(lines: Iterable[tuple[int, str]], name: str) -> Iterator[tuple[int, str]]:
    """Yield numbered lines; raises ReviewError for one that is longer than any key or command."""
    for number, line in lines:
        if len(line) > _LINE:
            raise ReviewError(
                f"{name}:{number}: has {len(line):,} letters, and more than {_LINE:,} are taken of none; "
                "shorten the line, or name another file"
            )
        yield number, line


def _logical(text: str) -> Iterator[tuple[int, str]]:
    """Yield each line of a properties file with its number: continued ones joined, comments left out."""
    held, begun = "", 0
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.lstrip(" \t\f")
        if not held and (not line or line[0] in "#!"):
            continue
        begun = begun or number
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            held += line[:-1]
            continue
        yield begun, held + line
        held, begun = "", 0
    if held:
        yield begun, held


def _key_and_value(line: str) -> tuple[str, str]:
    key = _KEY.match(line)
    end = key.end() if key else 0
    rest = line[end:].lstrip(" \t\f")
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(" \t\f")
    return _unescaped(line[:end]), _unescaped(rest).rstrip()


def _unescaped(text: str) -> str:
    def one(match: re.Match[str]) -> str:
        code = match[1]
        return chr(int(code[1:], 16)) if len(code) > 1 else _ESCAPES.get(code, code)

    return re.sub(r"\\(u[0-9a-fA-F]{4}|.)", one, text)


def assignments(text: str, name: str) -> dict[str, Value]:
    """Return the variables of an environment file or of a shell script, without what is put together."""
    pattern = re.compile(r"(?:export\s+|set\s+)?([A-Za-z_]\w*)=(.*)")
    matches = ((number, pattern.fullmatch(line)) for number, line in joined(text, name))
    return _few(((number, match[1], _word(match[2])) for number, match in matches if match), name, KEYS)


def joined(text: str, name: str) -> Iterator[tuple[int, str]]:
    """Yield each line of a script with its number, those that a backslash continues put together."""
    return _short(_joined(text), name)


def _joined(text: str) -> Iterator[tuple[int, str]]:
    held, begun = "", 0
    for number, line in enumerate(text.split("\n"), 1):
        begun = begun or number
        if line.rstrip().endswith("\\"):
            held += line.rstrip()[:-1] + " "
            continue
        if not (held + line).lstrip().startswith("#"):
            yield begun, (held + line).strip()
        held, begun = "", 0


def _word(text: str) -> str:
    text = text.strip()
    if text[:1] in ("'", '"'):
        end = text.find(text[0], 1)
        return text[1:end] if end > 0 else text[1:]
    return re.split(r"\s#|;", text, maxsplit=1)[0].strip()


def words(line: str) -> list[str]:
    """Return the words of a command line, as a shell takes them apart, or as they stand."""
    if len(line) > _SPLIT:
        return line.split()
    try:
        return shlex.split(line, comments=False)
    except ValueError:
        return line.split()


def unit(text: str, name: str) -> tuple[dict[str, Value], dict[str, Value], list[Value], tuple[str, ...]]:
    """Return a unit's or drop-in's directives, variables, commands, and files of variables by name."""
    files: list[str] = []
    directives: dict[str, Value] = {}
    variables: dict[str, Value] = {}
    commands: list[Value] = []
    for number, line in joined(text, name):
        key, equals, value = line.partition("=")
        if not equals or line.startswith((";", "[")):
            continue
        place = f"{name}:{number}"
        if key.strip() == "Environment":
            for one in words(value):
                variable, _, given = one.partition("=")
                variables[variable] = Value(given, place)
        elif key.strip() == "EnvironmentFile":
            files.append(value.strip().lstrip("-").rpartition("/")[2])
        elif key.strip() in ("ExecStart", "ExecStop", "ExecReload"):
            commands.append(Value(value.strip().lstrip("-@:+!"), place))
        directives[key.strip()] = Value(value.strip(), place)
        if len(variables) + len(directives) + len(commands) > KEYS:
            raise ReviewError(
                f"{name}: says more than {KEYS:,} things, more than a unit does; name another file"
            )
    return directives, variables, commands, tuple(dict.fromkeys(files))


def document(text: str, name: str) -> list[Any]:
    """Return the documents of a YAML file.

    Raises:
        ReviewError: when it is none, or would take more than its reading may.
    """
    try:
        check_yaml(text, _NODES)
        return [one for one in yaml.load_all(text, _Loader) if one is not None]
    except TooMuchError as error:
        raise ReviewError(f"{name}: {error}; name a configuration file") from error
    except ValueError as error:  # a date or a number that is none
        raise ReviewError(
            f"{name}: is no YAML that can be read: {plain(error)}; put the value in quotes"
        ) from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{name}:{mark.line + 1}" if mark else name
        problem = plain(str(getattr(error, "problem", None) or "it cannot be parsed"))
        raise ReviewError(
            f"{place}: is no YAML: {problem}; correct the line, or name another file"
        ) from error
