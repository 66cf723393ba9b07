"""What brokers say of other clients, and what others write into topics that are read here."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import Field, TypeAdapter

from kedge.evidence.border.untrusted import Int, UntrustedExcerpt, parsed, shown

#: Letters of a member's name: a client gives itself whatever name it likes.
_NAME: Final = 300


class _Partition(UntrustedExcerpt):
    #: Its alias; not given for other sources than clusters.
    cluster: str | None = None
    topic: Annotated[str, Field(min_length=1, max_length=249, pattern=r"^[a-zA-Z0-9._-]+$")]
    partition: Int


class _Offset(UntrustedExcerpt):
    #: The last one that was copied.
    offset: Annotated[int, Field(ge=-1, lt=2**63 - 1)] | None = None


_OF: Final = TypeAdapter(tuple[str, Any])
_KEY: Final = TypeAdapter(tuple[str, _Partition])
_VALUE: Final = TypeAdapter(_Offset | None)


def position(key: bytes, value: bytes, connector: str, source: str = "") -> tuple[str, int, int] | None:
    """Return topic, partition and last copied offset of a record of Connect's offsets topic.

    None for records of other connectors, and for those without an offset; with ``source``, the alias of a
    cluster, for those of other clusters too.

    Raises:
        UntrustedError: for what is no record of that topic.
    """
    if parsed(_OF, key, "key of an offset")[0] != connector:
        return None
    told = parsed(_VALUE, value, "offset")
    if told is None or told.offset is None:
        return None
    partition = parsed(_KEY, key, "key of an offset")[1]
    if source and partition.cluster != source:
        return None
    return partition.topic, partition.partition, told.offset


def member(member_id: str, host: str) -> str:
    """Return the name of a group's member with its host: behind a REST proxy that is where the proxy runs."""
    return shown(f"{member_id} on {host.removeprefix('/')}", _NAME)
