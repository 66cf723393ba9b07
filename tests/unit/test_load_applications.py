"""What a run says of the Streams applications that it feeds, and when they count as caught up."""

from __future__ import annotations

from typing import Any

import pytest

from kedge.deploy.load_spec import load_spec
from kedge.evidence.load_options import ClusterTopic, LoadSpec
from kedge.plan.hosts import Inventory
from kedge.services.streams.load import applications_json
from verify.load import mirrored
from verify.load.mirrored import Mirrored
from verify.load.progress import RunFacts, TopicFacts, run_document

VERIFY = {"cluster": "leaf", "kafka": {"topic": "in", "records_per_s": 10.0}}
IN, OUT = ClusterTopic(cluster="leaf", topic="in"), ClusterTopic(cluster="leaf", topic="out")


def spec(**changes: Any) -> dict[str, Any]:
    variables = {
        "streams_app_name": "joins",
        "streams_app_main_class": "a.B",
        "streams_app_jars": [{"path": "/a.jar"}],
        "streams_app_version": "4.3.1",
        "streams_app_cluster": "leaf",
        "streams_app_delivery": {"input": "in", "output": "out", "per_record": 8},
    } | changes
    inventory = Inventory(hosts={"s1": variables}, groups={"streams_app": ("s1",)})
    settings = [{"key": "application.id", "value": "joins"}]
    services = {"streams_app": {"instances": [{"name": "joins-0", "settings": settings}]}}
    plan = {
        "hosts": {"s1": {"services": services}},
        "clusters": {"leaf": {"bootstrap_servers": "l:9092"}, "other": {"bootstrap_servers": "o:9092"}},
        "applications": applications_json(inventory),
    }
    return load_spec(VERIFY, plan, "run")


def test_run_json_names_the_application_and_the_topic_that_it_writes() -> None:
    load = LoadSpec.model_validate(spec())
    assert load.places() == [IN, OUT]
    topics = {place: TopicFacts(1, "delete", 1000, {0: 5}, {0: 7}, {0: 0}) for place in load.places()}
    (app,) = run_document(load, RunFacts(topics=topics), None)["applications"]
    assert app == {
        "name": "joins",
        "instances": [{"host": "s1", "instance": "joins-0"}],
        "input": {"cluster": "leaf", "topic": "in"},
        "output": {"cluster": "leaf", "topic": "out"},
        "per_record": 8,
        "exactly_once": False,
    }


@pytest.mark.parametrize(
    "changes",
    [
        {"streams_app_delivery": {"input": "else", "output": "out"}},
        {"streams_app_cluster": "other"},
        {"streams_app_delivery": None},
    ],
)
def test_an_application_that_is_not_fed_has_memory_and_no_outputs(changes: dict[str, Any]) -> None:
    load = LoadSpec.model_validate(spec(**changes))
    (app,) = load.applications
    assert (app.input, app.output, len(app.instances), load.places()) == (None, None, 1, [IN])


def test_a_load_waits_until_the_application_has_committed_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    committed = {0: 6}

    def answer(_: LoadSpec, group: str, topic: str, count: int) -> dict[int, int]:
        asked.append((group, topic, count))
        return committed

    monkeypatch.setattr(mirrored.cluster, "committed", answer)
    topics = {IN: TopicFacts(1, "delete", 1000, {0: 5}, {0: 7}), OUT: TopicFacts(1, "delete", 1000, {0: 0})}
    watched = Mirrored(LoadSpec.model_validate(spec()))
    assert not watched.caught_up(topics)
    committed[0] = 7
    assert watched.caught_up(topics)
    assert set(asked) == {("joins", "in", 1)}
