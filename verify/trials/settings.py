"""What a run of trials is asked for: ``trials.json`` in the run's folder, as the role trials writes it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kedge.evidence.levels import Levels
from kedge.plan.service import LoadTest
from kedge.services.registry import SERVICES

Condition = Literal["healthy", "restart", "away"]
CONDITIONS: tuple[Condition, ...] = ("healthy", "restart", "away")
#: What a load goes through, and can be asked what it carries.
TESTS: Final = {service.name: service.load_test for service in SERVICES if service.load_test}
#: Status of a run whose trials say too little. Python's own for an error that nobody foresaw is 1.
UNSURE: Final = 3
Seconds = Annotated[float, Field(gt=0, le=3600)]


class TrialsError(Exception):
    """Something that the person has to mend; its text is one line: what, where, how."""


class TrialSettings(BaseModel):
    """How trials are run; roles/trials/defaults has the defaults.

    Attributes:
        what: capacity or compare, the playbook that began the run.
        command: the words of ansible-playbook that reach these hosts, without a playbook.
        service: the one that is asked about; ``instances`` are its instances by host.
        conditions: of capacity: healthy, restart (one instance restarts meanwhile), away (one host stopped).
        short_s: steady seconds of a short trial; ``full_s`` of a full one.
        warm_up_s: seconds before the steady ones, which are left out.
        fresh_s: seconds of load for processes that have just begun, before their trial; more until they are
            steady.
        width: the interval to come to, as a share of the limit.
        most_short: short trials of a condition at most; ``most_full`` full ones.
        ceiling: the highest load that generators are asked for, records/s.
        arms: of compare: stock, documented, planned, or files of variables.
        blocks: how often each variant comes, there and back.
        restarts: whether an instance restarts in each trial of compare.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    what: Literal["", "capacity", "compare"] = ""
    command: list[str]
    service: str
    instances: dict[str, list[str]]
    conditions: list[Condition]
    short_s: Seconds
    full_s: Seconds
    warm_up_s: Annotated[float, Field(ge=0, le=600)]
    fresh_s: Annotated[float, Field(ge=0, le=600)]
    width: Annotated[float, Field(gt=0, le=1)]
    most_short: Annotated[int, Field(gt=0, le=100)]
    most_full: Annotated[int, Field(gt=0, le=100)]
    ceiling: Annotated[float, Field(gt=0)]
    arms: list[str] = []
    blocks: Annotated[int, Field(gt=0, le=100)]
    restarts: bool

    @property
    def hosts(self) -> list[str]:
        """Return the hosts of the service."""
        return sorted(self.instances)

    @property
    def test(self) -> LoadTest:
        """Return what a load test of the service is."""
        return TESTS[self.service]


def read_settings(text: str) -> TrialSettings:
    """Read settings; raises TrialsError naming the first that is wrong."""
    try:
        found = TrialSettings.model_validate(json.loads(text))
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        raise TrialsError(f"trials_{name}: {first['msg']}; roles/trials says what it may be") from None
    if not found.conditions:
        raise TrialsError("trials_conditions is empty: name `healthy`, `restart` or `away`")
    if found.service not in TESTS:
        *most, last = TESTS
        raise TrialsError(f"verify.service is {found.service}: load tests are of {', '.join(most)} or {last}")
    if not found.instances:
        raise TrialsError(f"no host of the inventory runs {found.service}: verify.service names another")
    return _with_a_host_left(found)


def _with_a_host_left(found: TrialSettings) -> TrialSettings:
    if found.what != "compare" and "away" in found.conditions and len(found.hosts) < 2:
        raise TrialsError(
            f"{found.service} runs on {found.hosts[0]} alone, so nothing is left with it down: "
            "leave `away` out of trials_conditions"
        )
    return found


def of_load(settings: TrialSettings, load: dict[str, Any]) -> TrialSettings:
    """Return settings with the instances alone that the load goes through: of its flows or applications.

    Raises:
        TrialsError: when there are none, or all are on the host that is to be away.
    """
    takes = settings.test.takes
    found = {host: [n for n in of if takes(load, host, n)] for host, of in settings.instances.items()}
    found = {host: of for host, of in found.items() if of}
    if not found:
        raise TrialsError(f"no instance of {settings.service} takes the load of verify: see its topic")
    return _with_a_host_left(settings.model_copy(update={"instances": found}))


def way_of(load: dict[str, object], service: str) -> Literal["kafka", "rest"]:
    """Return the part of a load that goes through a service; raises TrialsError where it has none."""
    ways = TESTS[service].ways
    for way in ways:
        if load.get(way):
            return way
    raise TrialsError(f"verify.{ways[0]} is missing: it says what goes through {service}")


def judging(levels: Levels, service: str) -> None:
    """Raise TrialsError where no level bounds how long a record may take: then any load is carried."""
    test = TESTS[service]
    if not test.bounded(levels):
        raise TrialsError(
            f"service_levels.{test.level} is missing: without it any load passes, and a capacity says nothing"
        )


def read_file(path: Path) -> TrialSettings:
    """Read trials.json of a run; raises TrialsError."""
    try:
        return read_settings(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise TrialsError(f"{path} cannot be read: {error}; capacity.yml and compare.yml write it") from None
