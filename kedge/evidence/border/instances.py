"""What modules on hosts say of instances and releases: names of one form, and texts that can be shown."""

from __future__ import annotations

import base64
from collections.abc import Collection, Mapping
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator, Field, TypeAdapter

from kedge.evidence.border.untrusted import (
    Untrusted,
    UntrustedError,
    UntrustedExcerpt,
    checked,
    only,
    shown,
)
from kedge.evidence.printable import plain

#: Instances of one service on one host, and releases of one instance.
_MOST: Final = 1_000
_TEXT: Final = 1_000
#: Rows of one release, and letters of all of them.
_ROWS: Final = 10_000
_ROWS_TEXT: Final = 4_000_000

#: The form of what stands for a secret until its file is written on its host.
MARK: Final = r"^<secret [0-9a-f]{16}>$"

#: What an instance or a release is called: one word for a shell, no option, and no way out of a folder.
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$")]
Names = Annotated[list[Name], Field(max_length=_MOST)]
_Text = Annotated[str, AfterValidator(lambda text: shown(text, _TEXT))]
_Texts = Annotated[list[_Text], Field(max_length=_MOST)]
_Shown = Annotated[str, AfterValidator(plain)]
_Digest = Annotated[str, Field(pattern=r"^([0-9a-f]{12})?$")]
_Mark = Annotated[str, Field(pattern=MARK)]


class ReleaseRow(UntrustedExcerpt):
    """A setting as a release on a host keeps it; ``file`` is relative to the release."""

    file: _Shown
    key: _Shown
    value: _Shown
    rule: _Shown
    because: _Shown
    source: _Shown
    basis: _Shown
    secret: bool = False
    #: Of a secret: another one has another digest on that host.
    digest: _Digest = ""


_RELEASE_ROWS: Final = TypeAdapter(Annotated[list[ReleaseRow], Field(max_length=_ROWS)])


def _release_rows(text: Any) -> list[ReleaseRow] | None:
    """Return the rows of a release, in Base64; None where it has none, or somebody edited them."""
    if not isinstance(text, str) or len(text) > _ROWS_TEXT:
        raise ValueError("no text of rows")
    try:
        return _RELEASE_ROWS.validate_json(base64.b64decode(text, validate=True))
    except ValueError:
        return None


class StagedInstance(Untrusted):
    """An instance whose release ``kedge_release`` has staged.

    ``touched`` says that somebody changed the active release, ``same_rows`` that its rows are the planned
    ones; otherwise ``rows`` has them, or None. ``digests`` are those of the planned secrets, by mark.
    """

    name: Name
    release: Name
    current: Name | None
    pending: bool
    edited: bool
    #: Files of others that systemd reads for the instance as well.
    dropins: _Texts
    touched: bool
    comments: bool
    same_rows: bool
    rows: Annotated[list[ReleaseRow] | None, BeforeValidator(_release_rows)]
    digests: Annotated[dict[_Mark, _Digest], Field(max_length=_ROWS)]
    in_force: _Texts
    active: bool
    predecessor: _Text


class _Staged(Untrusted):
    instances: Annotated[list[StagedInstance], Field(max_length=_MOST)]
    pending: Names
    restart: Names
    stale: Names
    #: What lies among the instances and is none, by its name.
    strange: _Texts


class FormerInstance(Untrusted):
    """An instance with the release that it could go back to; both names are empty where there is none."""

    name: Name
    current: Name | Annotated[str, Field(max_length=0)]
    release: Name | Annotated[str, Field(max_length=0)]
    kept: Names
    wrong: _Text


class _Former(Untrusted):
    instances: Annotated[list[FormerInstance], Field(max_length=_MOST)]
    restart: Names
    stale: Annotated[list[str], Field(max_length=0)]
    asked_otherwise: bool


_STAGED: Final = TypeAdapter(_Staged)
_FORMER: Final = TypeAdapter(_Former)


def staged(said: Any, planned: Collection[str]) -> dict[str, Any]:
    """Return what ``kedge_release`` says of a host's instances, of which these are planned.

    Raises:
        UntrustedError: for anything else, such as a name that is none.
    """
    found = checked(_STAGED, _part(said, _Staged), "account of staged releases")
    only((one.name for one in found.instances), planned, "instances")
    only([*found.pending, *found.restart], planned, "instances")
    if both := sorted(set(found.stale) & set(planned)):
        raise UntrustedError(f"planned instances among those that are no longer planned: {shown(both)}")
    return found.model_dump()


def former(said: Any, planned: Collection[str]) -> dict[str, Any]:
    """Return what ``kedge_previous_release`` says of a host's instances; raises UntrustedError."""
    found = checked(_FORMER, _part(said, _Former), "account of former releases")
    only([*(one.name for one in found.instances), *found.restart], planned, "instances")
    return found.model_dump()


def _part(said: Any, model: type[Untrusted]) -> Any:
    """Return what a model names of an answer, beside which Ansible keeps things of its own."""
    return (
        {name: said[name] for name in model.model_fields if name in said}
        if isinstance(said, Mapping)
        else said
    )
