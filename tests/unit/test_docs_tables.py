"""The tables of docs/verification.md name every variable of ``verify`` and every level, with its default."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel

from evidence.levels import Levels
from evidence.load import Load
from sizing.verification import ADDED

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "verification.md").read_text()
#: Verify.yml fills these in where they are left out.
FILLED = {"rest.url": "the planned balancer", "rest.dialect": "that of the planned proxies"}


def rows(head: str) -> dict[str, str]:
    """Return the names of a table's first column with the defaults of its second one, one for each name."""
    table = TEXT.partition(f"| {head} | default |")[2].partition("\n\n")[0]
    found: dict[str, str] = {}
    for line in table.splitlines()[2:]:
        _, first, second, *_ = (cell.strip() for cell in line.split("|"))
        names = [name for written in re.findall(r"`([^`]+)`", first) for name in spelled_out(written)]
        defaults = second.replace("`", "").split(", ") if second else [""]
        for name, default in zip(names, defaults * (len(names) // len(defaults)), strict=True):
            assert name not in found, f"{name} stands twice"
            found[name] = default
    return found


def spelled_out(name: str) -> Iterator[str]:
    """Yield the names that a name with alternatives in braces stands for."""
    parts = [part.split(",") for part in re.split(r"[{}]", name)]
    yield from ("".join(chosen) for chosen in itertools.product(*parts))


def fields(model: type[BaseModel], prefix: str = "", *, parts: bool) -> dict[str, str]:
    """Return the fields of a model and its parts with their defaults; ``parts`` says whether these stand too."""
    found: dict[str, str] = {}
    for name, field in model.model_fields.items():
        inner = next((a for a in (field.annotation, *get_args(field.annotation)) if is_model(a)), None)
        if inner is None or parts:
            found[prefix + name] = "" if field.is_required() else shown(field.get_default())
        if inner is not None:
            found |= fields(inner, f"{prefix}{name}.", parts=parts)
    return found


def is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def shown(default: Any) -> str:
    if isinstance(default, BaseModel):
        default = default.model_dump()
    return "none" if default is None else default if isinstance(default, str) else json.dumps(default)


def test_the_table_of_the_load_has_all_that_a_person_can_say_and_no_more() -> None:
    everything = {k: v for k, v in fields(Load, parts=True).items() if k.partition(".")[0] not in ADDED}
    assert rows("key") == everything | FILLED


def test_the_table_of_the_levels_has_each_once_with_its_default() -> None:
    assert rows("level") == fields(Levels, parts=False)
