"""The variables of a role, validated: the border between what a person writes and what the rules read.

A role's variables are flat and begin with the role's name (``kafka_rest_workload``); the model of a role
holds them without that prefix. Every finding names the variable in full, the host, what is wrong and how
to mend it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from kedge.plan.findings import Finding
from kedge.plan.hosts import Inventory
from kedge.plan.settings import Basis
from kedge.plan.variable_messages import (
    contradiction,
    entry_name,
    no_mapping,
    shown,
    validation_findings,
    wrong_variable,
)

Positive = Annotated[int, Field(gt=0)]

Count = Annotated[int, Field(ge=0)]

#: What a client takes for max.request.size, and a broker for message.max.bytes.
MessageBytes = Annotated[int, Field(gt=0, le=2**31 - 1)]

HeapMib = Annotated[int, Field(ge=64, le=1024 * 1024)]

Port = Annotated[int, Field(ge=1, le=65535)]

Version = Annotated[str, Field(pattern=r"^\d+\.\d+(\.\d+)?$")]

Scalar = str | int | float | bool


class DefaultRule(NamedTuple):
    """Marks a variable that the plan gives a value where the inventory does not: by which rule."""

    rule: str


class Asked(NamedTuple):
    """Marks a number of a workload that a review asks for where it decides something: with what it is tried.

    Without ``other`` it is tried with ten times its default, or 100; ``beside`` are numbers that it needs.
    """

    other: Scalar | None = None
    beside: Mapping[str, Scalar] = MappingProxyType({})


class Since(NamedTuple):
    """Marks a variable that came after the first release: with which."""

    release: str


class Replaces(NamedTuple):
    """Marks the successor of a variable: its former name, without the prefix, and since which release.

    ``kedge.plan.inventory.deprecated`` takes the former name for a minor version more, and warns of it.
    """

    name: str
    since: str


class Strict(BaseModel):
    """No unknown keys, no silent conversion between kinds, no change after reading.

    The line below a field is its description: docs/reference.md, the roles' argument_specs and error messages
    have it from there.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True)


class Predecessor(Strict):
    """A process that Kedge did not start and that is taken over from: how it stops and starts."""

    unit: Annotated[str, Field(pattern=r"^[A-Za-z0-9:_.\\@-]+\.service$")] | None = None
    """Unit of the predecessor; without it, `holder`, `stop` and `start` are required."""
    holder: str | None = None
    """One argument of its command line; of a proxy, of the process that holds the port."""
    stop: list[str] = Field(default_factory=list)
    """Command on the host that stops the predecessor, also for the next boot."""
    start: list[str] = Field(default_factory=list)
    """Command on the host that starts the predecessor again."""

    @model_validator(mode="after")
    def _is_named_one_way(self) -> Self:
        ways = {"holder": self.holder, "stop": self.stop, "start": self.start}
        given = [name for name, value in ways.items() if value]
        if self.unit and given:
            raise contradiction(
                given[0], "is set beside unit", "name the unit alone, or holder, stop and start"
            )
        missing = [name for name in ways if name not in given]
        if not self.unit and missing:
            raise contradiction(
                missing[0],
                "is missing, and no unit is named",
                "name the predecessor's unit, or give holder, stop and start",
            )
        return self


M = TypeVar("M", bound=BaseModel)


def role_variables(
    model: type[M], role: str, host: str, variables: Mapping[str, Any], ignore: frozenset[str] = frozenset()
) -> M | list[Finding]:
    """Read the variables of a role on a host; return the model, or what is wrong with them."""
    prefix = f"{role}_"
    own = {
        k.removeprefix(prefix): v for k, v in variables.items() if k.startswith(prefix) and k not in ignore
    }
    return read_model(model, own, prefix, host)


def read_model(model: type[M], value: Any, prefix: str, where: str) -> M | list[Finding]:
    """Read one mapping; ``prefix`` begins the full name of its variables, ``where`` is a host or ``all``."""
    if not isinstance(value, Mapping):
        return [wrong_variable(prefix.rstrip("._"), where, no_mapping(value), "write a mapping")]
    try:
        return model.model_validate(dict(value))
    except ValidationError as error:
        return validation_findings(model, prefix, where, error.errors(include_url=False))


def basis_of(model: type[BaseModel], field: str, value: object, of_default: Basis) -> Basis:
    """Return what a variable's value rests on: the inventory, or where it is the default, ``of_default``."""
    return of_default if value == model.model_fields[field].default else "derived"


def read_list(
    model: type[M], inventory: Inventory, variable: str
) -> tuple[list[tuple[str, M]], list[Finding]]:
    """Read a list of the whole inventory; return its entries, each by its full name, and what is wrong."""
    value = inventory.common(variable) or []
    if not isinstance(value, list):
        key = next(iter(model.model_fields))
        name = next(iter(value), "NAME") if isinstance(value, Mapping) else "NAME"
        fix = f"write a list, each entry with its {key}: - {key}: {name}"
        return [], [wrong_variable(variable, "all", f"is {shown(value)}", fix)]
    found: list[tuple[str, M]] = []
    wrong: list[Finding] = []
    for number, entry in enumerate(value):
        where = f"{variable}[{entry_name(value, number)}]"
        one = read_model(model, entry, f"{where}.", "all")
        if isinstance(one, list):
            wrong += one
        else:
            found.append((where, one))
    return found, wrong
