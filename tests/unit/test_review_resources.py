"""Resources of operators, connectors, charts and ConfigMaps are read as what becomes of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kedge.review.command import review

TWICE = """
kind: KafkaBridge
metadata: {name: edge}
spec:
  replicas: 2
  bootstrapServers: k:9092
  producer: {config: {max.request.size: 10000000}}
  consumer: {config: {max.request.size: 10000000}}
"""
BRIDGE = """
kind: KafkaBridge
metadata: {name: edge}
spec:
  image: quay.io/strimzi/kafka-bridge:0.33.1
  bootstrapServers: k:9093
  tls: {trustedCertificates: []}
  authentication: {type: scram-sha-512, username: u}
  http: {port: 8080}
  jvmOptions: {"-Xmx": 900m}
  resources: {limits: {memory: 800Mi}}
  producer:
    config:
      acks: 1
  consumer:
    config: {fetch.minimum.bytes: 5}
"""
PROXY = """
kind: KafkaRestProxy
metadata: {name: rest}
spec:
  image: {application: "confluentinc/cp-kafka-rest:7.9.1"}
  configOverrides:
    server:
      - producer.compress.type=lz4
    jvm: [-Xmx512m]
"""
MIRROR = """
kind: KafkaMirrorMaker2
metadata: {name: copy}
spec:
  version: 4.3.1
  clusters:
    - {alias: a, bootstrapServers: "a:9092"}
    - alias: b
      bootstrapServers: b:9092
      config:
        producer.acks: 1
  mirrors:
    - sourceCluster: a
      targetCluster: b
      sourceConnector: {config: {replication.factor: 3}}
      topicsPattern: "*"
"""
NEWER = """
kind: KafkaMirrorMaker2
metadata: {name: copy}
spec:
  target: {alias: b, bootstrapServers: "b:9092", config: {}}
  mirrors:
    - source: {alias: a, bootstrapServers: "a:9092"}
      sourceConnector:
        tasksMax: 1
"""
CONNECTOR = """
kind: KafkaConnector
metadata: {name: source}
spec:
  class: org.apache.kafka.connect.mirror.MirrorSourceConnector
  tasksMax: 1
  config:
    source.cluster.alias: a
    target.cluster.alias: b
    source.cluster.bootstrap.servers: a:9092
    target.cluster.bootstrap.servers: b:9092
    topics: .*
    key.converter: org.apache.kafka.connect.json.JsonConverter
    producer.max.request.size: 2000000
    sync.group.offsets.enabled: true
"""
JSON = """{"name": "m", "config": {
  "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector", "tasks.max": "4",
  "source.cluster.alias": "a", "target.cluster.alias": "b", "source.cluster.bootstrap.servers": "a:9092",
  "target.cluster.bootstrap.servers": "b:9092", "topics": "*"}}
"""
CHECKPOINT = JSON.replace("MirrorSource", "MirrorCheckpoint").replace(
    '"topics": "*"', '"refresh.topics.enabled": "true"'
)
WORKER = "group.id=c\noffset.storage.topic=o\nvalue.converter=o.JsonConverter\nproducer.acks=1\n"
CHART = """
image: {repository: confluentinc/cp-kafka-rest, tag: 7.9.1}
configurationOverrides:
  producer.compress.type: lz4
extraEnv:
  - {name: KAFKA_REST_ACKS, value: "1"}
resources: {limits: {memory: 300Mi}}
heapOptions: -Xmx512M
"""
MAPPED = """
kind: ConfigMap
metadata: {name: conf}
data:
  log4j.properties: |
    log4j.rootLogger=INFO
  flow.properties: |
    clusters=a,b
    a.bootstrap.servers=a:9092
    b.bootstrap.servers=b:9092
    a->b.topics=x
---
kind: Pod
spec:
  containers:
    - {name: mm, image: "x/kafka:4.3.1", command: [connect-mirror-maker.sh, /conf/flow.properties]}
"""


def written(folder: Path, files: dict[str, str]) -> list[Path]:
    for name, text in files.items():
        (folder / name).write_text(text)
    return [folder / name for name in files]


@pytest.fixture(autouse=True)
def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask for nothing: each question costs a plan."""
    monkeypatch.setattr("kedge.review.judging._asks", lambda *_: ())


@pytest.mark.parametrize(
    ("files", "version", "found"),
    [
        ({"b.yaml": BRIDGE}, "0.33.1", [
            "14 write producer.config: acks: all, or give --allow lost if records may be lost",
            "16 did you mean consumer.config: fetch.min.bytes?",
            "11 set resources.limits.memory to"]),
        ({"r.yaml": PROXY}, "7.9.1", ["8 did you mean producer.compression.type?"]),
        ({"m.yaml": MIRROR}, "4.3.1", [
            "11 take b.producer.acks out: MirrorMaker sets all",
            "16 write topicsPattern = .*",
            "copy set tasksMax to the partitions of the largest topic, or fewer"]),
        ({"m.yaml": NEWER}, "4.3.1", ["9 set tasksMax to the partitions of the largest topic, or fewer"]),
        ({"c.yaml": CONNECTOR}, "4.3.1", [
            "6 set tasks.max to the partitions of the largest topic, or fewer",
            "13 write key.converter = org.apache.kafka.connect.converters.ByteArrayConverter for the connector",
            "14 write producer.override.max.request.size",
            "15 write sync.group.offsets.enabled for MirrorCheckpointConnector"]),
        ({"s.json": JSON}, "4.3.1", ["4 write topics = .*"]),
        ({"s.json": JSON, "c.json": CHECKPOINT, "connect.properties": WORKER}, "4.3.1", [
            "3 write value.converter = org.apache.kafka.connect.converters.ByteArrayConverter for the connector",
            "4 take producer.acks of its worker out: MirrorMaker sets all",
            "4 write refresh.topics.enabled for MirrorSourceConnector",
            "4 write topics = .*"]),
        ({"values.yaml": CHART}, "7.9.1", [
            "4 did you mean producer.compression.type?",
            "6 write producer.acks",
            "7 set resources.limits.memory to"]),
        ({"k.yaml": MAPPED}, "4.3.1", ["4 write a->b.enabled = true"]),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, dict) else "",
)  # fmt: skip
def test_a_resource_is_read_and_its_findings_stand_at_its_lines_in_its_words(
    tmp_path: Path, files: dict[str, str], version: str, found: list[str]
) -> None:
    (judgement,), others = review(written(tmp_path, files))
    assert (judgement.version, [other for other in others if "container" not in other]) == (version, [])
    told = sorted(
        f"{f.where.rpartition(':')[2].rpartition(' ')[2]} {f.fix}"
        for f in judgement.findings
        if f.severity != "note"
    )
    assert len(told) == len(found), told
    assert all(one.startswith(begin) for one, begin in zip(told, sorted(found), strict=True)), told


def test_the_heap_of_a_worker_is_that_of_the_connectors_that_it_runs(tmp_path: Path) -> None:
    unit = (
        "[Service]\nMemoryMax=1G\nExecStart=/opt/kafka/bin/connect-distributed.sh /etc/connect.properties\n"
    )
    files = {"s.json": JSON, "connect.properties": WORKER, "connect.service": unit}
    (judgement,), _ = review(written(tmp_path, files))
    (found,) = (f for f in judgement.findings if "MemoryMax" in f.message)
    assert (found.severity, found.where.rpartition("/")[2]) == ("error", "connect.service:2")
    assert (
        "the heap is 2048 MiB (KAFKA_HEAP_OPTS is not set, which comes to -Xms256M -Xmx2G)" in found.message
    )
    heap = unit.replace("MemoryMax", "Environment=KAFKA_HEAP_OPTS=-Xmx256M\nMemoryMax")
    (judgement,), _ = review(written(tmp_path, files | {"connect.service": heap}))
    assert not [f for f in judgement.findings if "MemoryMax" in f.message]


def test_a_container_of_a_worker_is_judged_with_its_connectors_and_not_alone(tmp_path: Path) -> None:
    compose = (
        "services:\n  connect:\n    image: confluentinc/cp-kafka-connect:7.9.1\n    mem_limit: 1g\n    environment:\n"
        "      KAFKA_HEAP_OPTS: -Xmx2G\n      CONNECT_OFFSET_STORAGE_TOPIC: o\n"
        "      CONNECT_VALUE_CONVERTER: o.JsonConverter\n"
    )
    paths = written(tmp_path, {"s.json": JSON, "c.yml": compose})
    (judgement,), others = review(paths)
    found = [
        f"{f.where.rpartition('/')[2]} {f.fix}"
        for f in judgement.findings
        if f.where.startswith(str(paths[1]))
    ]
    write = "write value.converter = org.apache.kafka.connect.converters.ByteArrayConverter for the connector"
    assert f"c.yml:8 {write}" in found
    (limit,) = (one for one in found if one.startswith("c.yml:4 set mem_limit to "))
    assert others == [] and limit.endswith("m")
    judgements, others = review(paths[1:])
    assert (judgements, [one.rpartition(", ")[2] for one in others]) == (
        [],
        ["connect: a container of confluentinc/cp-kafka-connect:7.9.1"],
    )


def test_a_connector_that_copies_nothing_alone_asks_for_the_one_that_does(tmp_path: Path) -> None:
    (file := tmp_path / "c.json").write_text(CHECKPOINT)
    judgements, others = review([file])
    assert (judgements, [other.partition(": ")[2] for other in others]) == (
        [],
        ["one connector of a, b; add its MirrorSourceConnector"],
    )


def test_a_login_that_an_operator_fills_in_is_not_missed(tmp_path: Path) -> None:
    (file := tmp_path / "b.yaml").write_text(BRIDGE)
    (judgement,), _ = review([file])
    assert not [f for f in judgement.findings if f.rule in ("review.login", "review.missing")]


OVERRIDES = """
kind: KafkaMirrorMaker2
metadata: {name: copy}
spec:
  version: 4.3.1
  clusters:
    - {alias: source, bootstrapServers: "a:9092"}
    - {alias: target, bootstrapServers: "b:9092"}
  mirrors:
    - sourceCluster: source
      targetCluster: target
      topicsPattern: ".*"
      sourceConnector:
        tasksMax: 4
        config:
          replication.factor: 2
          producer.override.linger.ms: 100
          producer.override.batch.sise: 1
          source.consumer.max.poll.recods: 5
"""


def test_what_a_connector_has_for_its_producer_and_topics_is_read_under_its_own_names(tmp_path: Path) -> None:
    (file := tmp_path / "m.yaml").write_text(OVERRIDES)
    (judgement,), _ = review([file])
    wrong = {f.where: f.message for f in judgement.findings if f.severity != "note"}
    assert {place.rpartition(":")[2] for place in wrong} == {"18", "19"}
    # With Kafka's own aliases, the beginning of one name is another one.
    assert not [said for said in wrong.values() if "source.cluster" in said]
    today = {row.key: (row.today, row.place) for row in judgement.rows}
    assert today["replication.factor"] == ("2", f"{file}:16")
    assert today["producer.override.linger.ms"][0] == "100"


@pytest.mark.parametrize("odd", ["clusters: 2", "mirrors: true", "clusters: {a: b}"])
def test_a_resource_of_another_form_ends_no_review(tmp_path: Path, odd: str) -> None:
    (file := tmp_path / "m.yaml").write_text(f"kind: KafkaMirrorMaker2\nspec: {{{odd}}}\n")
    (judgement,), _ = review([file])
    assert judgement.where.endswith("KafkaMirrorMaker2")


def test_keys_that_connect_reads_of_any_connector_are_known(tmp_path: Path) -> None:
    of_connect = "topic.creation.default.partitions: -1\n          exactly.once.support: required\n"
    text = OVERRIDES.replace("replication.factor: 1\n", f"replication.factor: 1\n          {of_connect}")
    (file := tmp_path / "m.yaml").write_text(text)
    (judgement,), _ = review([file])
    assert not [f for f in judgement.findings if "topic.creation" in f.message or "exactly" in f.message]


SECRET = """
image: {repository: confluentinc/cp-kafka-rest, tag: 8.3.1}
heapOptions: -Xmx512M
customEnv: {}
configurationOverrides: %s
"""


def test_a_chart_fills_in_the_login_that_its_values_lack(tmp_path: Path) -> None:
    (file := tmp_path / "values.yaml").write_text(
        SECRET % "{client.security.protocol: SASL_SSL, client.sasl.mechanism: PLAIN}"
    )
    (judgement,), _ = review([file])
    assert not [f for f in judgement.findings if f.rule == "review.login"]


def test_a_chart_that_overrides_nothing_is_read(tmp_path: Path) -> None:
    (file := tmp_path / "values.yaml").write_text(SECRET % "")
    (judgement,), others = review([file])
    assert (judgement.version, others) == ("8.3.1", [])
    assert not [f for f in judgement.findings if f.rule == "review.missing"]


def test_what_one_client_has_is_not_meant_by_the_same_key_of_another(tmp_path: Path) -> None:
    (file := tmp_path / "b.yaml").write_text(TWICE)
    ((judgement,), _) = review([file])
    (found,) = [f for f in judgement.findings if f.rule == "rest.keys"]
    assert found.fix.startswith("take consumer.config: max.request.size out")


@pytest.mark.parametrize(
    ("text", "warned"),
    [
        (TWICE, True),
        (TWICE.replace("replicas: 2", "replicas: 1"), False),
        (TWICE.replace("consumer: {", "consumer: {enabled: false, "), False),
    ],
)
def test_consumers_of_several_bridges_are_warned_of(tmp_path: Path, text: str, warned: bool) -> None:
    (file := tmp_path / "b.yaml").write_text(text)
    ((judgement,), _) = review([file])
    found = [f for f in judgement.findings if f.rule == "rest.balancing"]
    assert [(f.severity, f.where.rpartition(":")[2]) for f in found] == [("warning", "5")] * warned
