"""What REST proxies answer: documents within bounds, numbers that evidence can hold, places that are ours."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable
from typing import Annotated, Final, NamedTuple
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, TypeAdapter

from kedge.evidence.border.untrusted import Count, Int, Long, UntrustedError, UntrustedExcerpt, parsed, shown

#: Of one answer beside the records that it was asked for, as text in JSON.
ANSWER_BYTES: Final = 16 << 20
#: What a record takes in JSON for a byte of it, with what stands around it.
_JSON: Final = 4
_HOST: Final = r"(?:[A-Za-z0-9_.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])"
_PLACE: Final = re.compile(rf"(https?)://{_HOST}(?::[0-9]{{1,5}})?(?:/[A-Za-z0-9._~:@!$&'()*+,;=%-]*)*")
_INSTANCE: Final = re.compile(rf"{_HOST}(?::[0-9]{{1,5}})?", re.ASCII)
_PORTS: Final = {"http": 80, "https": 443}


class Made(UntrustedExcerpt):
    """What a proxy says of the consumer instance that it made."""

    base_uri: Annotated[str, Field(max_length=2_000)]


class ConsumedRecord(UntrustedExcerpt):
    """A record that a proxy read."""

    partition: Int
    offset: Count
    value: str | None = None


class ProduceResult(UntrustedExcerpt):
    """What became of a record that a proxy was given."""

    partition: Int | None = None
    offset: Annotated[int, Field(ge=-1, le=2**63 - 1)] | None = None
    error_code: Long | None = None
    error: Annotated[str, AfterValidator(shown)] | None = None


class Offsets(UntrustedExcerpt):
    """The answer to a produce request."""

    offsets: list[ProduceResult]


class Refusal(UntrustedExcerpt):
    """Why a proxy did not do as asked."""

    error_code: Long
    message: str


class StrangePlaceError(UntrustedError):
    """A place of a consumer that is none of those that are known."""


class Origin(NamedTuple):
    """A scheme, a host and a port."""

    scheme: str
    host: str
    port: int


_MADE: Final = TypeAdapter(Made)
_READ: Final = TypeAdapter(list[ConsumedRecord])
_OFFSETS: Final = TypeAdapter(Offsets)
_REFUSAL: Final = TypeAdapter(Refusal)


def most_bytes(asked: int) -> int:
    """Return what an answer may have that was asked for so many bytes of records."""
    return ANSWER_BYTES + _JSON * asked


def origin(url: str) -> Origin:
    """Return the origin of a URL; raises UntrustedError for one that is none of http and https, or odd."""
    match = _PLACE.fullmatch(url)
    try:
        parts = urlsplit(url if match else "")
        port = parts.port
    except ValueError:
        match = None
    if match is None or not parts.hostname or port == 0:
        raise UntrustedError(f"no URL of a proxy: {shown(url)!r}")
    return Origin(parts.scheme, parts.hostname.lower(), port or _PORTS[parts.scheme])


def place(body: bytes, url: str, proxies: Iterable[str]) -> str:
    """Return where a proxy says that a new consumer instance is: at ``url``, or at one of the known proxies.

    Where none is known it may be at any host that is spoken to by the same scheme.

    Raises:
        UntrustedError: for what is no place.
        StrangePlaceError: for another place.
    """
    where = parsed(_MADE, body, "new consumer instance").base_uri
    asked, told = origin(url), origin(where)
    known = {origin(one) for one in proxies}
    if told == asked or told in known or (not known and told.scheme == asked.scheme):
        return where
    raise StrangePlaceError(
        f"a proxy names {shown(where)!r} as the place of a consumer, which is none of verify.rest.proxies; "
        "name its proxy there if it is your own"
    )


def may_log_in(where: str, url: str, proxies: Iterable[str]) -> bool:
    """Return whether the login for ``url`` may be sent to a place: one that is known, and as safe."""
    told, asked = origin(where), origin(url)
    if told.scheme == "http" and asked.scheme == "https":
        return False
    return told == asked or told in {origin(one) for one in proxies}


def records(body: bytes) -> tuple[list[int], list[int], list[bytes | None]]:
    """Return partitions, offsets and values of the records that a proxy read; raises UntrustedError."""
    found = parsed(_READ, body, "list of records")
    try:
        values = [None if one.value is None else base64.b64decode(one.value) for one in found]
    except ValueError as error:
        raise UntrustedError(f"a record whose value is no base64: {shown(error)}") from None
    return [one.partition for one in found], [one.offset for one in found], values


def offsets(body: bytes, count: int) -> list[ProduceResult]:
    """Return what became of so many records; raises UntrustedError, also for more or fewer."""
    found = parsed(_OFFSETS, body, "produce answer").offsets
    if len(found) != count:
        raise UntrustedError(f"{len(found)} offsets for {count} records")
    return found


def refusal(body: bytes, letters: int) -> str:
    """Return in one line what a proxy says of why it did not do as asked, in whatever form."""
    try:
        told = parsed(_REFUSAL, body, "refusal")
    except UntrustedError:
        text = body[: 4 * letters].decode(errors="replace")
    else:
        text = f"error_code {told.error_code}: {told.message}"
    return shown(" ".join(text.split()), letters)


def instance(told: str | None) -> str | None:
    """Return which instance says that it answered, as HOST:PORT; None where it says something else."""
    return told if told and _INSTANCE.fullmatch(told) else None
