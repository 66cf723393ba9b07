"""The forms of the plan as JSON and of verdicts.json; docs/schemas has them for other tools, as JSON schemas.

Documents are written as plain mappings. A test holds what is written against these forms.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class _Form(BaseModel):
    """A document or a part of one; fields are added within a version, so others than these may be there."""

    model_config = ConfigDict(extra="allow", strict=True, use_attribute_docstrings=True)


class Setting(_Form):
    """A setting with its reason."""

    file: str
    """The file on the host; empty where there is none."""
    key: str
    value: str
    """`***` where `secret` is true."""
    rule: str
    because: str
    source: str
    sources: list[str]
    """Keys of the document's own `sources`."""
    basis: str
    by: Literal["plan", "person"]
    secret: bool = False
    copied: bool = False


class Settings(_Form):
    """What is planned for a topic, a client or a rollout."""

    settings: list[Setting]


class Instance(Settings):
    """One process of a service on one host."""

    name: str
    port: int | None
    software: dict[str, Any] = {}


class OfService(_Form):
    """A service on a host."""

    instances: list[Instance]
    software: dict[str, str] = {}
    """Version, distribution, archive and checksum, as the inventory has them."""


class Host(_Form):
    """A host."""

    services: dict[str, OfService]


class Waves(Settings):
    """Which hosts of a service a rollout takes together."""

    ahead: dict[str, int]
    batches: list[list[str]]
    racks: dict[str, str]


class Source(_Form):
    """A document or a measurement that settings rest on."""

    title: str
    by: str
    address: str
    version: str


class Subject(_Form):
    """What a finding is about."""

    variable: str
    """A variable of the inventory, with its full name; with keys, the one that holds them, or would."""
    keys: list[str]
    """Of the component's file, the one to change first."""
    file: str
    host: str
    """The host, or group, whose variable it is."""
    known: bool
    """Whether any version of the component has the key."""
    meant: str
    """Of a key that is not known, the one that is probably meant."""
    named: list[str] = []
    """Other keys that its texts name."""
    value: str = ""
    """Of the first of the keys, one with which there were no finding; empty where none is known."""


class Finding(_Form):
    """What a person should know before a host is touched."""

    severity: Literal["error", "warning", "note"]
    rule: str
    where: str
    message: str
    fix: str
    subject: Subject | None = None
    """None where it is about several things, or about none that anybody writes."""


class Change(_Form):
    """What differs from the plan that `--against` named."""

    where: str
    file: str
    key: str
    """Empty where all of a place comes or goes."""
    before: str | None
    after: str | None
    whose: list[Literal["kit", "inventory", "advice"]]
    """Who can have changed it; of several, nothing tells which it was."""
    rule: str
    because: str
    since: str
    """The release that last changed the rule; empty where the rule changed nothing."""


class Kit(_Form):
    """The release of Kedge, and a hash of its rules."""

    version: str
    rules: str


class Plan(_Form):
    """What `kedge plan --format json` prints, and `plan.json` of a run has beside more."""

    form: int = Field(alias="schema")
    kit: Kit
    inventory: str
    """A hash of what rules read of the inventory, without secrets and the advice."""
    advice: str = "measured"
    hosts: dict[str, Host]
    topics: dict[str, dict[str, Settings]]
    clients: dict[str, Settings]
    rollouts: dict[str, dict[str, Settings]]
    sources: dict[str, Source]
    waves: dict[str, Waves]
    findings: list[Finding]
    changes: list[Change] = []
    """Only with `--against`."""


Verdict = Literal["pass", "fail", "unknown", "measured"]


class Earlier(_Form):
    """What a figure was in the last runs of the same subject before this one."""

    runs: int
    median: float
    lowest: float
    highest: float


class Figure(_Form):
    """A figure of a check beside its level."""

    what: str
    value: float | None
    unit: str
    level: float | None
    verdict: Verdict
    service_level: str | None
    earlier: Earlier | None = None
    """Only with a history."""


class Anomaly(_Form):
    """How often one kind of anomaly was found, and the first few of them."""

    count: int
    examples: list[dict[str, Any]]


class Recommendation(_Form):
    """One thing to change: a variable of the inventory where there is one, else only advice."""

    advice: str
    because: str
    variable: str | None
    value: Any
    effect: str


class Check(_Form):
    """The answer of one check."""

    name: str
    verdict: Verdict
    slo: dict[str, Any]
    figures: list[Figure]
    measured: dict[str, Any]
    anomalies: dict[str, Anomaly]
    because: str
    recommendations: list[Recommendation]


class Verdicts(_Form):
    """verdicts.json."""

    form: int = Field(alias="schema")
    kit: str
    run_id: str
    verdict: Verdict
    checks: list[Check]
    timings_s: dict[str, float]
