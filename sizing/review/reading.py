"""Reads what people have into keys, values and places: properties, environments, units, command lines.

What a file is, is told by what it holds (:mod:`sizing.review.kinds`); its name decides only where that says
nothing.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from evidence.printable import plain

#: More than any of these files has; a log or an archive that was named by mistake.
_FILE_BYTES: Final = 4 << 20
_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class ReviewError(Exception):
    """A file or an option that cannot be used; the message is one line: what, where, how to fix it."""


@dataclass(frozen=True, slots=True)
class Value:
    """What a file says of one key, and where: ``FILE:LINE``, or a service of a compose file."""

    text: str
    place: str


Values = Mapping[str, Value]

#: What a template or a shell puts in later: {{ x }}, ${X}, $X, ##X##, __{X}__, %X%, @X@, <x>.
_LATER: Final = re.compile(
    r"\{\{[^{}]*\}\}|\$\{[^}:]*\}|\$\(.*?\)|\$[A-Za-z_]\w*|##\w+##|__\{?\w+\}?__|%\w+%|@@?[A-Z]\w*@@?"
    r"|<[A-Za-z][\w .-]*>"
)
_DEFAULT: Final = re.compile(r"\$\{\w+:?-([^}]*)\}")
#: What stands elsewhere, as Kafka's config.providers and containers name it.
_REFERENCE: Final = re.compile(r"\$\{[^}:]+:[^}]*\}")


def settled(value: Value) -> Value:
    """Return a value with the defaults of shell variables in their place: ``${PORT:-8082}`` is 8082."""
    return Value(_DEFAULT.sub(lambda match: match[1], value.text), value.place)


def comes_later(text: str) -> bool:
    """Return whether a value is put in by somebody else: then nothing can be said of it, of its key alone."""
    return bool(_LATER.search(text) or _REFERENCE.search(text))


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


def properties(text: str, name: str) -> dict[str, Value]:
    """Return the keys of a properties file, as java.util.Properties reads it; the last of a key wins."""
    found: dict[str, Value] = {}
    for number, line in _logical(text):
        key, value = _key_and_value(line)
        found[key] = Value(value, f"{name}:{number}")
    return found


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
    end = next(
        (m.start() for m in re.finditer(r"[=: \t\f]", line) if not _escaped(line, m.start())), len(line)
    )
    rest = line[end:].lstrip(" \t\f")
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(" \t\f")
    return _unescaped(line[:end]), _unescaped(rest).rstrip()


def _escaped(line: str, at: int) -> bool:
    before = line[:at]
    return (len(before) - len(before.rstrip("\\"))) % 2 == 1


def _unescaped(text: str) -> str:
    def one(match: re.Match[str]) -> str:
        code = match[1]
        return chr(int(code[1:], 16)) if len(code) > 1 else _ESCAPES.get(code, code)

    return re.sub(r"\\(u[0-9a-fA-F]{4}|.)", one, text)


def assignments(text: str, name: str) -> dict[str, Value]:
    """Return the variables of an environment file or of a shell script, without what is put together."""
    found: dict[str, Value] = {}
    pattern = re.compile(r"\s*(?:export\s+|set\s+)?([A-Za-z_]\w*)=(.*)")
    for number, line in joined(text):
        if match := pattern.fullmatch(line):
            found[match[1]] = Value(_word(match[2]), f"{name}:{number}")
    return found


def joined(text: str) -> Iterator[tuple[int, str]]:
    """Yield each line of a script with its number, those that a backslash continues put together."""
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
    return re.split(r"\s+#|\s*;", text, maxsplit=1)[0].strip()


def words(line: str) -> list[str]:
    """Return the words of a command line, as a shell takes them apart, or as they stand."""
    try:
        return shlex.split(line, comments=False)
    except ValueError:
        return line.split()


def unit(text: str, name: str) -> tuple[dict[str, Value], dict[str, Value], list[Value]]:
    """Return the directives of a unit or drop-in, the variables that it sets, and its commands."""
    directives: dict[str, Value] = {}
    variables: dict[str, Value] = {}
    commands: list[Value] = []
    for number, line in joined(text):
        key, equals, value = line.partition("=")
        if not equals or line.startswith((";", "[")):
            continue
        place = f"{name}:{number}"
        if key.strip() == "Environment":
            for one in words(value):
                variable, _, given = one.partition("=")
                variables[variable] = Value(given, place)
        elif key.strip() in ("ExecStart", "ExecStop", "ExecReload"):
            commands.append(Value(value.strip().lstrip("-@:+!"), place))
        directives[key.strip()] = Value(value.strip(), place)
    return directives, variables, commands


def document(text: str, name: str) -> list[Any]:
    """Return the documents of a YAML file.

    Raises:
        ReviewError: when it is none.
    """
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return [one for one in yaml.load_all(text, loader) if one is not None]
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{name}:{mark.line + 1}" if mark else name
        problem = plain(str(getattr(error, "problem", None) or "it cannot be parsed"))
        raise ReviewError(
            f"{place}: is no YAML: {problem}; correct the line, or name another file"
        ) from error
