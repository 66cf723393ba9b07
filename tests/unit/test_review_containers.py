"""What a file of containers says of several services: merged keys, extension fields, what they share."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kedge.plan.findings import Finding
from kedge.review.command import review
from kedge.review.judging import Judgement
from kedge.review.showing import markdown, text

MERGED = """
services:
  a:
    image: confluentinc/cp-kafka-rest:7.9.2
    environment: &e
      KAFKA_REST_BOOTSTRAP_SERVERS: k1:9092,k2:9092
      KAFKA_REST_PRODUCER_ACKS: all
  b:
    image: confluentinc/cp-kafka-rest:7.9.2
    environment:
      <<: *e
      KAFKA_REST_PRODUCER_ACKS: 1
"""


@pytest.fixture(autouse=True)
def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask for nothing: each question costs a plan."""
    monkeypatch.setattr("kedge.review.judging._asks", lambda *_: ())


def reviewed(
    folder: Path, text: str, workload: tuple[str, ...] = (), **files: str
) -> tuple[list[Judgement], list[str]]:
    """Return the review of a compose file, and of files beside it; two underscores in a name are a dot."""
    paths = [folder / "c.yml", *(folder / name.replace("__", ".") for name in files)]
    for path, content in zip(paths, (text, *files.values()), strict=True):
        path.write_text(content)
    return review(paths, workload=workload)


def services(folder: Path, text: str, workload: tuple[str, ...] = (), **files: str) -> list[Judgement]:
    return reviewed(folder, text, workload, **files)[0]


def about(judgement: Judgement, word: str) -> Finding:
    found = [f for f in judgement.findings if word in f.message]
    assert len(found) == 1, [f.message for f in judgement.findings]
    return found[0]


def messages(judgement: Judgement) -> str:
    return "\n".join(f"{f.message} {f.fix}" for f in judgement.findings)


def test_a_key_that_is_overridden_is_found_at_the_line_of_the_value_that_holds(tmp_path: Path) -> None:
    _, b = services(tmp_path, MERGED)
    assert about(b, "acks=1").where == f"{tmp_path}/c.yml:12"
    twice = MERGED.partition("  b:")[0] + "      KAFKA_REST_PRODUCER_ACKS: 1\n"
    (one,) = services(tmp_path, twice)
    assert about(one, "acks=1").where == f"{tmp_path}/c.yml:8"


def test_of_several_files_of_variables_the_last_wins(tmp_path: Path) -> None:
    text = MERGED.partition("  b:")[0].replace(
        "    environment", "    env_file: [one.env, two.env]\n    environment"
    )
    (a,) = services(
        tmp_path,
        text.replace("KAFKA_REST_PRODUCER_ACKS", "KAFKA_REST_HOST_NAME"),
        one__env="KAFKA_REST_PRODUCER_ACKS=all\n",
        two__env="KAFKA_REST_PRODUCER_ACKS=1\n",
    )
    assert about(a, "acks=1").where == f"{tmp_path}/two.env:1"


EXTENDED = """
x-rest: &rest
  image: confluentinc/cp-kafka-rest:7.9.2
  env_file: rest.env
  environment:
    KAFKA_REST_BOOTSTRAP_SERVERS: k1:9092,k2:9092
services:
  rest:
    <<: *rest
  x-named:
    <<: *rest
"""


def test_an_extension_field_is_no_container_and_what_it_merges_is_read(tmp_path: Path) -> None:
    found, others = reviewed(tmp_path, EXTENDED, rest__env="KAFKA_REST_PRODUCER_ACKS=1\n")
    assert [one.where for one in found] == [f"{tmp_path}/c.yml, rest", f"{tmp_path}/c.yml, x-named"]
    assert about(found[0], "acks=1").where == f"{tmp_path}/rest.env:1"
    assert not others


SHARED = """
services:
  rest1:
    image: confluentinc/cp-kafka-rest:7.9.2
    environment: &e
      KAFKA_REST_BOOTSTRAP_SERVERS: k1:9092,k2:9092
      KAFKA_REST_PRODUCER_ACKS: 1
      KAFKA_REST_CONSUMER_THREAD: 60
  rest2:
    image: confluentinc/cp-kafka-rest:7.9.2
    environment:
      <<: *e
      KAFKA_REST_PRODUCER_LINGER: 5
  rest3:
    image: confluentinc/cp-kafka-rest:7.9.2
    environment: *e
"""


def test_what_an_earlier_service_has_as_well_is_counted(tmp_path: Path) -> None:
    found = services(tmp_path, SHARED)
    _, second, third = text(found, []).split("\n\n")
    assert "\n  2 more, as in rest1\n" in second
    assert "\n  2 as in rest1\n" in third
    assert "no fault" not in third
    assert "2 more, as in rest1\n" in text(found, [], full=True)
    assert "\n2 more, as in rest1\n" in markdown(found, [])
    assert found[1].repeated == {f"{tmp_path}/c.yml, rest1": {"error": 2}}


def test_nothing_is_said_of_a_deploy_or_of_advice_to_who_has_files(tmp_path: Path) -> None:
    keys = (
        "CLIENT_SSL_TRUSTSTORE_LOCATION: /trust.jks",
        "ADVERTISED_LISTENERS: http://a:8082",
        "BOOTSTRAP_SERVERS: k1:9092,k2:9092",
    )
    environment = "".join(f"\n      KAFKA_REST_{key}" for key in keys)
    (a,) = services(
        tmp_path,
        "services:\n  a:\n    image: confluentinc/cp-kafka-rest:7.9.2\n    environment:"
        f"{environment}\n      KAFKAREST_HEAP_OPTS: -Xmx2g",
    )
    assert about(a, "truststore").severity == "note"
    assert not re.search(r"deploy|advice|the plan", messages(a))


def named(folder: Path, *variables: str, more: str = "") -> Judgement:
    """Return the review of one service with these variables."""
    given = "".join(f"\n      {one}" for one in ("KAFKA_REST_BOOTSTRAP_SERVERS: k1:9092,k2:9092", *variables))
    image = "services:\n  a:\n    image: confluentinc/cp-kafka-rest:7.9.2\n"
    (judgement,) = services(folder, f"{image}{more}    environment:{given}\n")
    return judgement


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("KAFKA_REST_JMX_PORT", "KAFKAREST_JMX_PORT"),
        ("KAFKAREST_JMX_HOSTNAME", "KAFKA_REST_JMX_HOSTNAME"),
        ("KAFKAREST_LISTENERS", "KAFKA_REST_LISTENERS"),
        ("KAFKAREST_PRODUCER_ACKS", "KAFKA_REST_PRODUCER_ACKS"),
        ("KAFKA_REST_HEAP_OPTS", "KAFKAREST_HEAP_OPTS"),
        ("KAFKA_REST_SSL_KEYSTORE_FILENAME", "KAFKA_REST_SSL_KEYSTORE_LOCATION"),
        ("KAFKA_REST_CLIENT_SSL_KEY_CREDENTIALS", "KAFKA_REST_CLIENT_SSL_KEY_PASSWORD"),
    ],
)
def test_a_variable_that_an_image_does_not_read_is_named_by_the_one_that_it_reads(
    tmp_path: Path, written: str, meant: str
) -> None:
    found = [f.fix for f in named(tmp_path, f'{written}: "1"').findings if f.rule == "rest.keys"]
    assert found == [f"did you mean {meant}?"]


def test_a_unit_reads_no_variable_of_an_image(tmp_path: Path) -> None:
    unit = tmp_path / "rest.service"
    unit.write_text("[Service]\nExecStart=/usr/bin/kafka-rest-start k\nEnvironment=KAFKAREST_JMX_PORT=1\n")
    ((judgement,), _) = review([unit])
    assert about(judgement, "no start script").fix == "did you mean JMX_PORT?"


@pytest.mark.parametrize(
    ("more", "reach"),
    [
        ("", "every container of its networks (its port is not published)"),
        ('    ports: ["8082:8082"]\n', "every container of its networks (its port is not published)"),
        ('    ports: ["8082:8082", "9100-9101:9100-9101"]\n', "everybody who reaches the host"),
        ('    ports: ["127.0.0.1:9101:9101"]\n', "everybody on the host"),
        ("    network_mode: host\n", "everybody who reaches the host"),
    ],
)
def test_a_port_of_jmx_is_open_to_who_reaches_it(tmp_path: Path, more: str, reach: str) -> None:
    found = about(named(tmp_path, "KAFKAREST_JMX_PORT: 9101", more=more), "JMX")
    assert found.message == f"KAFKAREST_JMX_PORT opens JMX to {reach}, without authentication"
    assert found.fix.startswith("take KAFKAREST_JMX_PORT out")
    assert found.where.startswith(f"{tmp_path}/c.yml:")
