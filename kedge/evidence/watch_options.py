"""watch.json: which topics and groups of others a run watches, as the playbooks write it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kedge.evidence.secrets import SecretsError, from_environment

Text = Annotated[str, Field(min_length=1)]
#: As Kafka takes it; a pattern is none.
TopicName = Annotated[str, Field(min_length=1, max_length=249, pattern=r"^[a-zA-Z0-9._-]+$")]
Seconds = Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False)]
Client = dict[str, str | int | float | bool]
#: Files of the run's folder: what is to be watched, and what was.
WATCH: Final = "watch.json"
OUTCOME: Final = "watched.json"
#: A shorter time before the first change does not tell what is usual, seconds.
LEAST_BEFORE_S: Final = 60


class WatchError(Exception):
    """Something that the person has to mend; its text is one line: what, where, how."""


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class WatchOptions(_Model):
    """What a watch of others' topics and groups looks at; nothing is written to any cluster."""

    topics: list[TopicName] = []
    """Topics that are watched beside those of the inventory, on whatever cluster they are."""
    groups: list[Text] = []
    """Groups that are watched beside those that the inventory's services serve."""
    interval_s: Annotated[float, Field(ge=0.1, le=60, allow_inf_nan=False)] = 1
    """Time between two samples, which is the error of each measured time."""
    before_s: Seconds = 180
    """Time before the first change, in which what is usual is learned; under 60 s nothing is."""
    after_s: Seconds = 120
    """Longest time after the last change in which groups may become stable and catch up."""
    for_s: Seconds = 300
    """Length of a watch in which nothing is changed."""
    most_groups: Annotated[int, Field(ge=1)] = 50
    """Most groups that are watched."""
    most_partitions: Annotated[int, Field(ge=1)] = 500
    """Most partitions whose ends are watched."""


class WatchedCluster(_Model):
    """A cluster, what of the inventory is on it, and what of it is kedge's own.

    ``topics`` and ``groups`` are those of the inventory's services. ``applications`` are of Streams: their
    changelogs and repartition topics begin with their names.
    """

    bootstrap_servers: Text
    client: Client = {}
    topics: list[Text] = []
    groups: list[Text] = []
    applications: list[Text] = []
    own_topics: list[Text] = []
    own_groups: list[Text] = []


class WatchSpec(_Model):
    """The whole of watch.json.

    ``members`` are addresses of hosts by service. ``alone`` is without a load, ``changing`` beside a playbook
    that changes something.
    """

    run_id: Text
    alone: bool = True
    changing: bool = False
    options: WatchOptions = WatchOptions()
    clusters: dict[Text, WatchedCluster]
    members: dict[Text, list[Text]] = {}
    balancers: list[Text] = []


def read_watch(run_dir: Path) -> WatchSpec:
    """Read watch.json with the logins of the environment; raises WatchError."""
    path = run_dir / WATCH
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        logins = from_environment().get("clusters", {})
        for name, cluster in document["clusters"].items():
            cluster["client"] = {**cluster.get("client", {}), **logins.get(name, {})}
        return WatchSpec.model_validate(document)
    except OSError as error:
        raise WatchError(f"{path} cannot be read: {error.strerror}; verify.yml writes it") from error
    except SecretsError as error:
        raise WatchError(str(error)) from error
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        why = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
        raise WatchError(f"{path} is no watch.json: {why}") from error
