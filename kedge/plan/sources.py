"""Where a plan's sources lead: titles and addresses of ``sources.yml``, by the words that a setting cites."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

import yaml

_FILE: Final = Path(__file__).with_name("sources.yml")


@dataclass(frozen=True, slots=True)
class Source:
    """One document, component or measurement; ``sources.yml`` says what its fields hold."""

    kind: Literal["document", "code", "measured", "yours"]
    title: str
    publisher: str
    address: str
    version: str
    aliases: tuple[str, ...] = ()
    author: str = ""
    sections: tuple[str, ...] = ()
    outdated: tuple[str, ...] = ()
    pattern: str = ""

    @property
    def by(self) -> str:
        """Its author and publisher."""
        return ", ".join(filter(None, (self.author, self.publisher)))


@cache
def sources() -> Mapping[str, Source]:
    """Return all sources by their keys."""
    # The C loader takes a tenth of the time, and libyaml is not everywhere.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    read = yaml.load(_FILE.read_text(encoding="utf-8"), loader)  # noqa: S506 - both are safe loaders
    return {key: _source(row) for key, row in read.items()}


def _source(row: Mapping[str, Any]) -> Source:
    lists = {name: tuple(value) for name, value in row.items() if isinstance(value, list)}
    return Source(**{**row, **lists})


def parts(source: str) -> list[str]:
    """Return the parts of a setting's source."""
    return source.split("; ")


@cache
def leads_to(part: str) -> tuple[str, str] | None:
    """Return the key and the section to which a part of a source leads; None where it leads nowhere."""
    for key, source in sources().items():
        for alias in source.aliases:
            if part == alias:
                return key, ""
            section = part.removeprefix(f"{alias}, ")
            if section != part and section in source.sections:
                return key, section
    for key, source in sources().items():
        if source.pattern and re.fullmatch(source.pattern, part):
            return key, ""
    return None


@cache
def keys(source: str) -> tuple[str, ...]:
    """Return the keys to which a setting's source leads, each once, in its order."""
    return tuple(dict.fromkeys(found[0] for part in parts(source) if (found := leads_to(part))))


def cited(of_settings: Iterable[str]) -> dict[str, Source]:
    """Return the sources to which those of settings lead, by key, in the order of ``sources.yml``."""
    wanted = {key for source in of_settings for key in keys(source)}
    return {key: source for key, source in sources().items() if key in wanted}
