"""What all untrusted data has in common: lines and documents of a known size, and an error for the rest."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Final, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from kedge.evidence.printable import plain

#: Letters of untrusted text that a message shows.
_SHOWN: Final = 200
#: The number that a column of the evidence can hold.
_LONG: Final = 2**63 - 1

Long = Annotated[int, Field(ge=-_LONG, le=_LONG)]
Count = Annotated[int, Field(ge=0, le=_LONG)]
Int = Annotated[int, Field(ge=0, le=2**31 - 1)]

T = TypeVar("T")


class UntrustedError(ValueError):
    """Something untrusted that is not what was asked for; its text is one printable line."""


class Untrusted(BaseModel):
    """A document of somebody else; what its model does not name is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class UntrustedExcerpt(Untrusted):
    """What is asked for of a document that says more, such as one of a later version."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)


class Lines(Protocol):
    """What lines are read from: a file or a pipe."""

    def readline(self, size: int = -1, /) -> bytes:
        """Return the next line, so many bytes of it at most."""


def read_line(stream: Lines, most: int) -> bytes:
    """Return the next line, empty at the end; raises UntrustedError for one of more bytes."""
    line = stream.readline(most + 1)
    if len(line) > most:
        raise UntrustedError(f"a line of more than {most:,} bytes, which begins {shown(line[:40])!r}")
    return line


def parsed(kind: TypeAdapter[T], document: str | bytes, what: str) -> T:
    """Return a JSON document as what it has to be; raises UntrustedError."""
    try:
        return kind.validate_json(document)
    except ValidationError as error:
        raise UntrustedError(f"no {what}: {_first(error)}") from None


def checked(kind: TypeAdapter[T], value: Any, what: str) -> T:
    """Return a value that somebody else has read already as what it has to be; raises UntrustedError."""
    try:
        return kind.validate_python(value)
    except (ValidationError, RecursionError) as error:
        why = _first(error) if isinstance(error, ValidationError) else "it is nested too deeply"
        raise UntrustedError(f"no {what}: {why}") from None


def only(names: Iterable[str], known: Iterable[str], what: str) -> None:
    """Raise UntrustedError for a name that is not of our own list."""
    if strange := sorted(set(names) - set(known)):
        raise UntrustedError(f"{what} that nobody asked for: {shown(', '.join(strange))!r}")


def shown(text: object, letters: int = _SHOWN) -> str:
    """Return untrusted text as a message shows it: one printable line, cut off where it is long."""
    told = text.decode(errors="replace") if isinstance(text, bytes) else str(text)
    return plain(told.strip()[: letters + 1] if len(told) <= letters else f"{told.strip()[:letters]}...")


def _first(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    return shown(f"{where}: {first['msg']}" if where else first["msg"])


@contextmanager
def read_as(what: str) -> Iterator[None]:
    """Have a reader of untrusted text that stumbles over it raise UntrustedError."""
    try:
        yield
    except UntrustedError:
        raise
    except (ValueError, LookupError, TypeError, OverflowError, RecursionError) as error:
        raise UntrustedError(f"no {what}: {shown(error)}") from None


def count(word: str) -> int:
    """Return a number of at most 18 digits; raises UntrustedError."""
    if not re.fullmatch(r"[0-9]{1,18}", word):
        raise UntrustedError(f"no number: {shown(word)!r}")
    return int(word)
