"""What a run says of the flows that copy its load, and when they count as caught up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kedge.deploy.load_spec import load_spec
from kedge.evidence.load_options import ClusterTopic, LoadError, LoadSpec, read_load
from kedge.plan.hosts import Inventory
from kedge.services.mirror.topics_and_groups import flow_facts, flows_json
from verify.load import mirrored
from verify.load.mirrored import Mirrored
from verify.load.progress import RunFacts, TopicFacts, run_document

VERIFY = {"cluster": "leaf", "kafka": {"topic": "metrics.cpu", "records_per_s": 10.0}}
CLUSTERS = {"leaf": {"bootstrap_servers": "l:9092"}, "agg": {"bootstrap_servers": "a:9092"}}


def inventory(kind: str = "classic", **flow: Any) -> Inventory:
    spec = {"source": "leaf", "target": "agg", "topics": ["metrics[.].*"], "latency_budget_ms": 5000, **flow}
    version = "3.9.2" if kind == "classic" else "4.3.1"
    variables = {
        "mirror_maker_kind": kind,
        "mirror_maker_version": version,
        "mirror_maker_flows": {"metrics": spec},
    }
    return Inventory(hosts={"mm1": variables}, groups={"mirror_maker": ("mm1",)})


def spec(kind: str = "classic", **flow: Any) -> dict[str, Any]:
    plan = {"hosts": {}, "clusters": CLUSTERS, "flows": flows_json(inventory(kind, **flow))}
    return load_spec(VERIFY, plan, "run")


def test_a_load_names_the_classic_flow_that_copies_it_and_its_group() -> None:
    found = spec()
    assert found["mirrors"] == [
        {
            "flow": "metrics",
            "source": {"cluster": "leaf", "topic": "metrics.cpu"},
            "target": {"cluster": "agg", "topic": "metrics.cpu"},
            "group": "mirror-maker-metrics",
        }
    ]
    assert found["clusters"] == {"agg": {"bootstrap_servers": "a:9092"}}


def test_mirror_maker_2_renames_the_copy_unless_its_policy_is_identity() -> None:
    (renamed,) = spec("mirror_maker_2")["mirrors"]
    assert renamed["target"]["topic"] == "leaf.metrics.cpu"
    assert renamed["group"] is None
    (same,) = spec("mirror_maker_2", replication_policy="identity")["mirrors"]
    assert same["target"]["topic"] == "metrics.cpu"


def test_a_flow_of_other_topics_or_from_another_cluster_copies_nothing_of_a_load() -> None:
    assert spec(topics=["logs[.].*"])["mirrors"] == []
    assert spec(source="agg", target="leaf")["mirrors"] == []


def test_a_pattern_must_match_the_whole_name() -> None:
    facts = flow_facts(inventory(topics=["metrics"]))["metrics"]
    assert facts.copy_of("metrics") == "metrics"
    assert facts.copy_of("metrics.cpu") is None


def test_run_json_has_both_clusters_both_topics_and_the_mirror() -> None:
    load = LoadSpec.model_validate(spec())
    topics = {place: TopicFacts(1, "delete", 1000, {0: 5}, {0: 7}, {0: 0}) for place in load.places()}
    document = run_document(load, RunFacts(topics=topics), None)
    assert document["clusters"] == CLUSTERS
    assert [(t["cluster"], t["topic"]) for t in document["topics"]] == [
        ("agg", "metrics.cpu"),
        ("leaf", "metrics.cpu"),
    ]
    (mirror,) = document["mirrors"]
    assert mirror == spec()["mirrors"][0] | {"batch_bytes": 50_000, "exactly_once": False, "codec": ""}


@pytest.mark.parametrize(("kind", "prefix"), [("classic", ""), ("mirror_maker_2", "agg.producer.")])
def test_run_json_has_what_the_plan_makes_of_a_batch_and_what_the_flow_promises(
    kind: str, prefix: str
) -> None:
    settings = [{"key": f"{prefix}batch.size", "value": "52429"}]
    settings += [{"key": f"{prefix}compression.type", "value": "zstd"}]
    settings += [{"key": "agg.exactly.once.source.support", "value": "enabled"}] if prefix else []
    instances = [{"name": "metrics-0", "settings": settings}]
    hosts = {"mm1": {"services": {"mirror_maker": {"instances": instances}}}}
    plan = {"hosts": hosts, "clusters": CLUSTERS, "flows": flows_json(inventory(kind))}
    (mirror,) = load_spec(VERIFY, plan, "run")["mirrors"]
    assert (mirror["batch_bytes"], mirror["codec"]) == (52429, "zstd")
    assert mirror["exactly_once"] == bool(prefix)


def test_a_mirror_of_a_topic_that_is_not_loaded_is_refused(tmp_path: Path) -> None:
    wrong = spec()
    wrong["mirrors"][0]["source"]["topic"] = "other"
    (tmp_path / "load.json").write_text(json.dumps(wrong))
    with pytest.raises(LoadError, match="copies other, which is not loaded"):
        read_load(tmp_path)


def facts(source_end: int, target_end: int) -> dict[ClusterTopic, TopicFacts]:
    places = LoadSpec.model_validate(spec("mirror_maker_2")).places()
    ends = (source_end, target_end)
    return {
        place: TopicFacts(1, "delete", 1000, {0: 0}, {0: end})
        for place, end in zip(places, ends, strict=True)
    }


def test_a_counted_flow_is_there_only_when_its_target_has_stopped_growing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 100.0
    monkeypatch.setattr(mirrored.time, "monotonic", lambda: now)
    watched = Mirrored(LoadSpec.model_validate(spec("mirror_maker_2")))
    assert not watched.caught_up(facts(10, 4))
    assert not watched.caught_up(facts(10, 10))
    now += mirrored.QUIET_S - 1
    assert not watched.caught_up(facts(10, 10))
    # A record that came twice may stand for one that has not come yet.
    assert not watched.caught_up(facts(10, 11))
    now += mirrored.QUIET_S
    assert watched.caught_up(facts(10, 11))
    assert not watched.caught_up(facts(12, 11))
