"""The clients' files: read by the libraries they are for, reasons beside the values, none of it when wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
import yaml

from kedge.keys.catalogue import known_keys
from kedge.services.clients.__main__ import main, rendered
from kedge.services.clients.profiles import PROFILES
from kedge.services.planning import make_plan
from tests.planned import of_topics

TOPIC = {"partitions": 12, "replication": 3, "settings": {"min.insync.replicas": 2}}
LOSS_ALLOWED = {"delivery": {"lost": 10, "duplicated": 10, "reordered": 10}}


def files(library: str, version: str, profile: str, **own: Any) -> dict[str, str]:
    client = {"name": "app", "cluster": "leaf", "library": library, "version": version, "profile": profile}
    inventory = of_topics(
        TOPIC, kafka_clients=[client | {"topics": ["t0"]} | own], service_levels=LOSS_ALLOWED
    )
    return rendered(make_plan(inventory).clients["app"], library)


def properties(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines() if line and not line.startswith("#"))


@pytest.mark.parametrize("profile", sorted(PROFILES))
def test_librdkafka_takes_the_json_as_it_is(profile: str) -> None:
    found = files("librdkafka", "2.6.0", profile)
    servers = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}
    producer = json.loads(found["clients/app/producer.json"])
    consumer = json.loads(found["clients/app/consumer.json"])
    confluent_kafka.Producer({**producer, **servers})
    confluent_kafka.Consumer({**consumer, **servers, "group.id": "g"}).close()
    assert properties(found["clients/app/producer.properties"]) == producer


@pytest.mark.parametrize("version", ["3.9.1", "4.3.1"])
@pytest.mark.parametrize("profile", sorted(PROFILES))
def test_java_knows_every_key_and_each_has_its_reason_above_it(profile: str, version: str) -> None:
    found = files("java", version, profile)
    assert set(found) == {"clients/app/producer.properties", "clients/app/consumer.properties"}
    for role in ("producer", "consumer"):
        text = found[f"clients/app/{role}.properties"]
        assert set(properties(text)) <= known_keys(role, version)  # type: ignore[arg-type]
        blocks = text.strip().split("\n\n")
        assert len(blocks) == len(properties(text))
        assert all(block.startswith("# ") and "the price: " in block.replace("\n# ", " ") for block in blocks)


def test_spark_gets_options_with_its_prefix() -> None:
    found = files("spark", "4.0.0", "throughput")
    options = json.loads(found["clients/app/consumer.json"])
    assert options["kafka.max.poll.records"] == "10000"
    assert properties(found["clients/app/consumer.options"]) == options


def test_a_secret_is_left_to_the_person() -> None:
    own = {"sasl.password": "hunter2", "client.id": " a\\b"}
    for library, version in (("java", "4.3.1"), ("librdkafka", "2.6.0")):
        found = files(library, version, "balanced", producer_settings=own)
        assert "hunter2" not in "".join(found.values())
        assert "# sasl.password=\n" in found["clients/app/producer.properties"]
        assert "client.id=\\ a\\\\b\n" in found["clients/app/producer.properties"]


@pytest.fixture
def inventory(tmp_path: Path) -> Any:
    def write(**client: Any) -> str:
        variables = {
            "kafka_clusters": {
                "leaf": {"version": "4.3.1", "bootstrap_servers": "leaf:9092", "broker_count": 3}
            },
            "kafka_topics": [{"name": "t0", "cluster": "leaf", **TOPIC}],
            "kafka_clients": [
                {"name": "app", "cluster": "leaf", "library": "java", "version": "4.3.1", "topics": ["t0"]}
                | client
            ],
        }
        path = tmp_path / "hosts.yml"
        path.write_text(yaml.safe_dump({"all": {"hosts": {"h": {}}, "vars": variables}}))
        return str(path)

    return write


def test_files_are_written(inventory: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-i", inventory(profile="durability"), "--out", str(tmp_path / "out")]) == 0
    assert "acks=all\n" in (tmp_path / "out/clients/app/producer.properties").read_text()
    assert str(tmp_path / "out/clients/app/consumer.properties") in capsys.readouterr().out


def test_profile_against_the_service_levels_writes_nothing(
    inventory: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["-i", inventory(profile="throughput"), "--out", str(tmp_path / "out")]) == 1
    assert "client app (profile throughput) has acks=1" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_unknown_client_is_named(inventory: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-i", inventory(profile="balanced"), "--client", "nobody"]) == 2
    assert "has no client nobody; there is app" in capsys.readouterr().err


def test_entry_that_cannot_be_read_is_one_line(inventory: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-i", inventory(profile="fast")]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "kafka_clients[app].profile" in line
