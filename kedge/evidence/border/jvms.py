"""What a host says of the JVMs that run on it: so much and no more, in texts that can be shown."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field, TypeAdapter

from kedge.evidence.border.untrusted import Count, Untrusted, checked
from kedge.evidence.printable import plain

#: Letters of a text of any kind, and lines of a file: as many as a file may have bytes.
_MOST: Final = 262_400


def _shown(text: str) -> str:
    return "\t".join(map(plain, text.split("\t")))


_Text = Annotated[str, Field(max_length=_MOST), AfterValidator(_shown)]
_Name = Annotated[str, Field(max_length=500), AfterValidator(_shown)]
_Path = Annotated[str, Field(max_length=4_096), AfterValidator(_shown)]


class NamedFile(Untrusted):
    """A configuration that a command line names; its secrets and comments were taken out on the host."""

    path: _Path
    lines: Annotated[list[_Text], Field(max_length=_MOST)]


class JvmProcess(Untrusted):
    """One process of Kafka's."""

    pid: Count
    main: _Name
    unit: _Name
    command: _Text
    java: _Path
    jars: Annotated[list[_Name], Field(max_length=40)]
    ports: Annotated[list[Annotated[int, Field(gt=0, le=65_535)]], Field(max_length=40)]
    environment: Annotated[
        dict[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,199}$"), AfterValidator(_shown)], _Text],
        Field(max_length=500),
    ]
    limits: Annotated[
        dict[
            Annotated[str, Field(pattern=r"^[A-Za-z]{1,40}$"), AfterValidator(_shown)],
            Annotated[str, Field(pattern=r"^[0-9]{1,30}[M%]?$"), AfterValidator(_shown)],
        ],
        Field(max_length=10),
    ]
    files: Annotated[list[NamedFile], Field(max_length=8)]
    missed: Annotated[list[_Name], Field(max_length=8)]


class Running(Untrusted):
    """What one host runs, and what it is."""

    cores: Annotated[int, Field(gt=0, le=100_000)]
    memory_kib: Count
    kernel: Annotated[
        dict[Annotated[str, Field(pattern=r"^[a-z][a-z0-9_.-]{0,99}$"), AfterValidator(_shown)], _Name],
        Field(max_length=200),
    ]
    processes: Annotated[list[JvmProcess], Field(max_length=64)]
    others: Annotated[list[_Name], Field(max_length=64)]


_RUNNING: Final = TypeAdapter(Running)


def running(said: Any) -> Running:
    """Return what a host's module answers, its texts fit to be shown; raises UntrustedError for others."""
    return checked(_RUNNING, said, "account of what runs")
