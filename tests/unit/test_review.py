"""What runs is judged from the files that people have; the files here are written by hand in their shapes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from kedge.plan.findings import Finding
from kedge.review.command import main, review
from kedge.review.judging import Judgement, ReviewedKey
from kedge.review.kinds import parts_of
from kedge.review.reading import ReviewError, assignments, properties
from kedge.review.showing import markdown
from kedge.review.showing import text as text_of
from kedge.services.planning import make_plan
from tests.rest_inventories import rest

ROOT = Path(__file__).resolve().parents[2]

COMPOSE = """
services:
  kafka:
    image: confluentinc/cp-kafka:7.9.1
    environment: {KAFKA_NODE_ID: 1}
  rest-proxy:
    image: confluentinc/cp-kafka-rest:7.9.1
    mem_limit: 512m
    environment:
      KAFKA_REST_HOST_NAME: rest-proxy
      KAFKA_REST_BOOTSTRAP_SERVERS: SASL_SSL://kafka:9092
      KAFKA_REST_LISTENERS: http://0.0.0.0:${PORT:-8082}
      KAFKA_REST_SECURITY_PROTOCOL: SASL_SSL
      KAFKA_REST_CLIENT_SASL_JAAS_CONFIG: org.x.PlainLoginModule required username="a" password="hunter2-hunter2";
      KAFKA_REST_SCHEMA_REGISTRY_SSL_TRUSTSTORE_LOCATION: /etc/trust.jks
      KAFKA_REST_CLIENT_BASIC_AUTH_CREDENTIALS_SOURCE: USER_INFO
      KAFKA_REST_PRODUCER_ACKS: 1
      KAFKA_REST_CONSUMER_REQUEST_MAX_BYTES: 67108864
      KAFKA_REST_THREAD_POOL_MAX: $POOL
      KAFKA_REST_HEAP_OPTS: -Xmx2g
      KAFKA_REST_LOG4J_ROOT_LOGLEVEL: WARN
"""
CONSUMER = """
bootstrap.servers=a:9092
group.id=mirror
enable.auto.commit=true
consumer.timeout.ms=-1
"""
PRODUCER = """
bootstrap.servers: b:9092
acks = 1
batch.size 2000000
linger.ms=100
compression.codec=gzip
"""
MIRROR = """#!/bin/sh
export KAFKA_HEAP_OPTS="-Xmx1G"
exec bin/kafka-mirror-maker.sh --consumer.config /etc/mm/consumer.properties \\
  --producer.config /etc/mm/producer.properties --num.streams 8 --whitelist '.*' --abort.on.send.failure false
"""
MM2 = """
clusters = east, west
east.bootstrap.servers = e:9092
west.bootstrap.servers = w:9092
east->west.enabled = true
east->west.emit.heartbeats.enabled = true
west->east.enabled = false
producer.max.request.size = 2000000
offset.flush.timeout.ms = 30000
config.providers = file
config.providers.file.class = org.apache.kafka.common.config.provider.FileConfigProvider
sync.topic.configs.interval.seconds = 60 # a minute
east->west.consumer.max.poll.records = 2000
"""


@pytest.fixture
def asking() -> None:
    """For tests of what a review asks for."""


@pytest.fixture(autouse=True)
def silent(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have other reviews ask for nothing: each question costs a plan."""
    if "asking" not in request.fixturenames:
        monkeypatch.setattr("kedge.review.judging._asks", lambda *_: ())


def written(folder: Path, **files: str) -> list[Path]:
    """Return files with these texts; two underscores in a name are a dot."""
    found = []
    for name, text in files.items():
        found.append(folder / name.replace("__", "."))
        found[-1].write_text(text)
    return found


def one(folder: Path, workload: Sequence[str] = (), **files: str) -> Judgement:
    (judgement,), _ = review(written(folder, **files), workload=workload)
    return judgement


def about(judgement: Judgement, word: str) -> Finding:
    found = [f for f in judgement.findings if word in f.message]
    assert len(found) == 1, [f.message for f in judgement.findings]
    return found[0]


def row(judgement: Judgement, key: str) -> ReviewedKey:
    (found,) = [row for row in judgement.rows if row.key == key]
    return found


def test_properties_are_read_as_java_reads_them() -> None:
    text = "# no\n a = 1\nb:2\nc 3\nlong = x, \\\n   y\nback = .*[\\\\-\\\\.]x\nkey\\ with = v\nempty\n a=4\n"
    found = {key: (value.text, value.place) for key, value in properties(text, "f").items()}
    assert found == {
        "a": ("4", "f:10"),
        "b": ("2", "f:3"),
        "c": ("3", "f:4"),
        "long": ("x, y", "f:5"),
        "back": (r".*[\-\.]x", "f:7"),
        "key with": ("v", "f:8"),
        "empty": ("", "f:9"),
    }


def test_variables_of_scripts_and_environment_files_are_read_without_their_quotes() -> None:
    found = assignments("export A='x y'\nB=\"z\" # why\n# C=1\nif [ $D = 1 ]; then\nE=5 # note\n", "f")
    assert {key: value.text for key, value in found.items()} == {"A": "x y", "B": "z", "E": "5"}


def test_a_compose_file_is_judged_with_what_its_image_makes_of_the_environment(tmp_path: Path) -> None:
    judgements, others = review(written(tmp_path, docker_compose__yml=COMPOSE), workload=["consumers=10"])
    (proxy,) = judgements
    assert proxy.version == "7.9.1"
    assert proxy.where.endswith("docker_compose.yml, rest-proxy")
    assert [other.rpartition(", ")[2] for other in others] == [
        "kafka: a container of confluentinc/cp-kafka:7.9.1"
    ]
    misplaced = about(proxy, "security.protocol")
    assert (misplaced.severity, misplaced.fix) == ("error", "write KAFKA_REST_CLIENT_SECURITY_PROTOCOL")
    assert "did you mean KAFKAREST_HEAP_OPTS?" in about(proxy, "KAFKA_REST_HEAP_OPTS").fix
    assert about(proxy, "acks=1").severity == "error"
    assert len([f for f in proxy.findings if f.severity != "note"]) == 3
    reads = row(proxy, "consumer.request.max.bytes")
    assert (reads.today, reads.documented, reads.planned, reads.basis) == (
        "67108864",
        "67108864",
        "2097152",
        "measured",
    )
    assert row(proxy, "thread.pool.max").today == "$POOL"
    assert row(proxy, "mem_limit").today == "512m"


@pytest.mark.parametrize("shown", [text_of, markdown])
def test_a_review_is_short_unless_all_of_it_is_asked_for(tmp_path: Path, shown: Callable[..., str]) -> None:
    reviewed = [one(tmp_path, kafka_rest__properties="id=a\n")]
    assert len(shown(reviewed, [])) < len(shown(reviewed, [], full=True))


def test_what_is_put_in_later_is_checked_by_its_key_alone(tmp_path: Path) -> None:
    text = f"{PROXY}producer.acks=${{ACKS}}\nproducer.ack={{{{ acks }}}}\nthread.pool.max=##POOL##\n"
    judgement = one(tmp_path, kafka_rest__properties=text)
    assert [f.fix for f in judgement.findings if f.severity != "note"] == ["did you mean producer.acks?"]


def test_a_finding_about_a_container_is_at_the_line_of_its_variable(tmp_path: Path) -> None:
    listed = "services:\n  a:\n    image: confluentinc/cp-kafka-rest:7.9.1\n    environment:\n    - KAFKA_REST_ID=a\n"
    files = (
        COMPOSE.replace("HOST_NAME: rest-proxy", "HOST_NAME: rest-proxy\n      KAFKA_REST_PRODUCER_ACKZ: 1"),
        f"{listed}    - KAFKA_REST_PRODUCER_ACKZ=1\n",
    )
    for text, line in zip(files, (11, 6), strict=True):
        (judgement, *_), _ = review(written(tmp_path, docker_compose__yml=text), workload=["consumers=10"])
        (found,) = [f for f in judgement.findings if "ackz" in f.message.lower()]
        assert found.where.endswith(f"docker_compose.yml:{line}")


@pytest.mark.usefixtures("asking")
def test_a_review_of_a_small_mistake_fits_a_screen(tmp_path: Path) -> None:
    files = written(tmp_path, docker_compose__yml=COMPOSE)
    judgements, others = review(files)
    short = text_of(judgements, others).splitlines()
    assert len(short) <= 60
    assert sum(line.startswith("    - ") for line in short) <= 10
    # What rests on a number that nobody gave is asked for, and no value to write down.
    assert not any("KAFKA_HEAP_OPTS ->" in line or "thread.pool.min:" in line for line in short)
    assert any(line.startswith("  not judged: ") for line in short)
    acks = COMPOSE.splitlines().index("      KAFKA_REST_PRODUCER_ACKS: 1") + 1
    assert any(line.startswith(f"  error    :{acks}  ") for line in short)
    whole = text_of(judgements, others, full=True)
    assert "rest.clients.acks" in whole
    assert "assumed, since it was not given" in whole


@pytest.mark.process
def test_a_secret_is_shown_nowhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = "KAFKAREST_OPTS=-Djavax.net.ssl.trustStorePassword=hunter3-hunter3\n"
    words = "ssl.key.password=hunter2-hunter2\nproducer.client.id=hunter2-hunter2\n"
    files = written(tmp_path, docker_compose__yml=COMPOSE)
    more = written(tmp_path, kafka_rest__properties=f"id=a\n{words}", rest__env=flags)
    for form in ("text", "markdown", "json"):
        assert main([str(files[0]), "--format", form, "--full"]) == 1
        assert main([*map(str, more), "--format", form, "--full"]) == 1
    said = capsys.readouterr().out
    assert "hunter" not in said
    assert "a secret stands in KAFKAREST_OPTS" in said


@pytest.mark.parametrize(
    ("image", "flags", "wrong"),
    [
        ("7.9.1", "-Xms2g -Xmx1g", True),
        ("7.9.1", "-Xms1g -Xmx1g", False),
        ("7.9.1", "-Xmx1g -XX:+UseConcMarkSweepGC", False),
        ("8.1.0", "-Xmx1g -XX:+UseConcMarkSweepGC", True),
    ],
)
def test_flags_that_java_refuses_are_found_where_it_is_known_which_runs(
    tmp_path: Path, image: str, flags: str, wrong: bool
) -> None:
    compose = COMPOSE.replace("cp-kafka-rest:7.9.1", f"cp-kafka-rest:{image}").replace(
        "KAFKA_REST_HEAP_OPTS: -Xmx2g", f"KAFKAREST_HEAP_OPTS: {flags}"
    )
    (judgement, *_), _ = review(written(tmp_path, docker_compose__yml=compose))
    assert bool([f for f in judgement.findings if f.rule == "java.flags"]) is wrong


def test_a_unit_and_an_environment_belong_to_the_proxy_that_they_start(tmp_path: Path) -> None:
    unit = (
        "[Service]\nEnvironmentFile=/etc/rest.env\nLimitNOFILE=1024\nTimeoutStopSec=5\n"
        "ExecStart=/usr/bin/kafka-rest-start /etc/kafka-rest/kafka-rest.properties\n"
    )
    environment = "KAFKAREST_HEAP_OPTS=-Xmx256M\nKAFKAREST_JVM_PERFORMANCE_OPTS=-XX:+UseZGC\nJMX_PORT=9999\n"
    judgement = one(tmp_path, kafka_rest__properties="id=a\n", rest__service=unit, rest__env=environment)
    assert row(judgement, "LimitNOFILE").today == "1024"
    assert row(judgement, "KAFKAREST_HEAP_OPTS").place.endswith("rest.env:1")
    assert {f.rule for f in judgement.findings if f.severity != "note"} >= {
        "rest.gc",
        "rest.jmx",
        "rest.heap.consumers",
    }
    assert about(judgement, "LimitNOFILE").rule == "review.files"


@pytest.mark.parametrize(
    ("jar", "main", "title"),
    [
        ("sandbox-rest-1.0.0.jar", "io.kedge.sandbox.SandboxRestMain", "Kedge's sandbox, a stub of kafka-rest"),
        ("/opt/mapr/kafka-rest/kafka-rest-5.1.2.jar", "io.confluent.kafkarest.KafkaRestMain",
         "kafka-rest, MapR's build of it"),
    ],
)  # fmt: skip
def test_a_command_says_whose_build_reads_the_file_that_it_names(
    tmp_path: Path, jar: str, main: str, title: str
) -> None:
    line = f"/usr/bin/java -cp {jar} {main} /etc/kafka-rest.properties\n"
    text = "id=a\nlisteners=http://0.0.0.0:8082\nthread.pool.maxx=5\n"
    files = written(tmp_path, ps__txt=line)
    (tmp_path / "kafka-rest.properties").write_text(text)
    (judgement,), _ = review([tmp_path / "kafka-rest.properties", *files])
    assert judgement.title == title
    assert "thread.pool.maxx" in about(judgement, "thread.pool.maxx").message


def test_flags_of_a_running_jvm_are_those_of_its_variables(tmp_path: Path) -> None:
    line = (
        "/usr/lib/jvm/java-17/bin/java -Xmx1G -XX:+UseZGC -cp /usr/share/java/kafka-rest-lib/* "
        "io.confluent.kafkarest.KafkaRestMain /etc/kafka-rest/kafka-rest.properties\n"
    )
    judgement = one(tmp_path, ps__txt=line)
    assert judgement.title.startswith("kafka-rest")
    assert row(judgement, "KAFKAREST_HEAP_OPTS").today == "-Xmx1G"
    assert about(judgement, "-XX:+UseZGC").rule == "rest.gc"


@pytest.mark.usefixtures("asking")
def test_a_pair_of_mirror_files_is_judged_as_a_classic_mirror(tmp_path: Path) -> None:
    files = {"consumer__properties": CONSUMER, "producer__properties": PRODUCER, "run__sh": MIRROR}
    judgement = one(tmp_path, **files)
    assert judgement.title == "a classic MirrorMaker"
    places = {f.rule: f.where.rpartition("/")[2] for f in judgement.findings if f.severity == "error"}
    assert places == {
        "mirror.consumer.commit": "consumer.properties:4",
        "mirror.producer.batch": "producer.properties:4",
        "mirror.producer.acks": "producer.properties:3",
        "mirror.abort": "run.sh:3",
    }
    assert about(judgement, "compression.codec").fix == "did you mean compression.type?"
    assert (row(judgement, "batch.size").today, row(judgement, "batch.size").planned) == ("2000000", "52429")
    assert row(judgement, "KAFKA_HEAP_OPTS").today == "-Xmx1G"
    asked = {ask.option: ask.decides for ask in judgement.asks}
    assert "linger.ms" in asked["--workload latency_budget_ms="]
    told = one(tmp_path, workload=["latency_budget_ms=5000"], **files)
    assert "--workload latency_budget_ms=" not in {ask.option for ask in told.asks}
    assert int(row(told, "linger.ms").planned or 0) < 5000


@pytest.mark.parametrize(
    ("consumer", "producer"),
    [
        ("bootstrap.servers=a:9092\n", "bootstrap.servers=a:9092\n"),
        ("bootstrap.servers=a:9092\nkey.deserializer=x.Y\n", "bootstrap.servers=b:9092\n"),
    ],
)
def test_the_clients_of_an_application_are_no_mirror(tmp_path: Path, consumer: str, producer: str) -> None:
    files = {"consumer__properties": f"{consumer}group.id=billing\n", "producer__properties": producer}
    judgements, _ = review(written(tmp_path, **files))
    assert len(judgements) == 2
    assert not [f for one in judgements for f in one.findings if f.rule.startswith("mirror.")]


def test_the_old_consumer_says_which_version_it_must_be(tmp_path: Path) -> None:
    old = "zookeeper.connect=zk:2181\ngroup.id=m\n"
    judgement = one(tmp_path, consumer__properties=old, producer__properties="bootstrap.servers=b:9092\n")
    assert "1.1 or older" in judgement.version_why


def test_mirror_maker_2_is_judged_by_flow_and_by_where_its_keys_are_read(tmp_path: Path) -> None:
    judgement = one(tmp_path, mm2__properties=MM2)
    assert judgement.title == "MirrorMaker 2 in dedicated mode, east to west"
    fixes = {f.fix for f in judgement.findings if f.severity != "note"}
    assert fixes == {
        "set tasks.max to the partitions of the largest topic, or fewer",
        "write west.producer.max.request.size",
        "write west.offset.flush.timeout.ms",
        "write the comment on a line of its own: behind a value it is a part of it",
    }
    older = one(tmp_path, mm2__properties=f"{MM2}topics.blacklist = x\n")
    assert (older.version, older.version_why) == ("3.9.2", "topics.blacklist is read up to 3.9 alone")


def test_keys_that_an_application_has_for_itself_are_no_more_than_notes(tmp_path: Path) -> None:
    text = (
        "application.id=joins\nbootstrap.servers=b:9092\nschema.registry.url=http://r:8081\ninput.topic.name=in\n"
        "num.stream.thread=4\ncommit.interval.ms=60000\n"
    )
    judgement = one(tmp_path, streams__properties=text)
    assert about(judgement, "num.stream.thread").severity == "warning"
    assert about(judgement, "input.topic.name").severity == "note"
    assert not [f for f in judgement.findings if "schema.registry.url" in f.message]


def test_keys_of_a_plugin_are_no_more_than_notes(tmp_path: Path) -> None:
    plugin = (
        "kafka.rest.resource.extension.class=io.confluent.Security\npublic.key.path=/k\nthread.pool.maxx=5\n"
    )
    judgement = one(tmp_path, kafka_rest__properties=plugin)
    assert about(judgement, "public.key.path").severity == "note"
    assert about(judgement, "thread.pool.maxx").severity == "error"


def test_a_misspelt_key_beside_a_plugin_is_more_than_a_note(tmp_path: Path) -> None:
    keys = {"lsiteners": "error", "debgu": "error", "public.key.path": "note"}
    text = "".join(f"{key}=x\n" for key in ("kafka.rest.resource.extension.class", *keys))
    judgement = one(tmp_path, kafka_rest__properties=text)
    assert {key: about(judgement, f"not know {key}").severity for key in keys} == keys


BOUNDED = """
services:
  rest:
    image: confluentinc/cp-kafka-rest:7.9.1
    mem_limit: 1g
    pids_limit: 100
    ulimits: {nofile: {soft: 512, hard: 1024}}
    environment:
      KAFKA_REST_BOOTSTRAP_SERVERS: a:9092,b:9092
      KAFKAREST_HEAP_OPTS: -Xms1g -Xmx1g
"""
POD = """
kind: Deployment
spec:
  containers:
    - name: rest
      image: confluentinc/cp-kafka-rest:7.9.1
      resources: {limits: {memory: 1Gi}}
      env: [{name: KAFKA_REST_BOOTSTRAP_SERVERS, value: "a:9092,b:9092"}, {name: KAFKAREST_HEAP_OPTS, value: -Xms1g -Xmx1g}]
"""
DEPLOYED = BOUNDED.replace("mem_limit: 1g", "deploy: {resources: {limits: {memory: 1g, pids: 100}}}").replace(
    "    pids_limit: 100\n", ""
)
MIXED = BOUNDED.replace("mem_limit: 1g", "mem_limit: 1g\n    deploy: {resources: {limits: {cpus: 2}}}")
VALUES = """
rest:
  image: confluentinc/cp-kafka-rest:7.9.1
  env: {KAFKA_REST_BOOTSTRAP_SERVERS: "a:9092,b:9092", KAFKAREST_HEAP_OPTS: -Xms1g -Xmx1g}
  resources: {limits: {memory: 1Gi}}
"""


@pytest.mark.usefixtures("asking")
@pytest.mark.parametrize(
    ("text", "fixes"),
    [
        (BOUNDED, [(5, "set mem_limit to 1337m"), (6, "set pids_limit to 600"), (7, "set ulimits.nofile to 100000")]),
        (DEPLOYED, [(5, "set deploy.resources.limits.memory to 1337m"), (5, "set deploy.resources.limits.pids to 600"),
                    (6, "set ulimits.nofile to 100000")]),
        (MIXED, [(5, "set mem_limit to 1337m"), (7, "set pids_limit to 600"), (8, "set ulimits.nofile to 100000")]),
        (POD, [(7, "set resources.limits.memory to 1337Mi")]),
        (VALUES, [(5, "set resources.limits.memory to 1337Mi")]),
    ],
)  # fmt: skip
def test_limits_of_a_container_are_told_at_their_lines_in_the_words_of_the_file(
    tmp_path: Path, text: str, fixes: list[tuple[int, str]]
) -> None:
    files = written(tmp_path, c__yml=text)
    (judgement,), _ = review(files)
    found = [
        (int(f.where.rpartition(":")[2]), f.fix) for f in judgement.findings if f.rule.startswith("review.")
    ]
    assert [
        (line, fix[: len(begin)]) for (line, fix), (_, begin) in zip(sorted(found), fixes, strict=True)
    ] == fixes
    for full in (False, True):
        printed = text_of([judgement], [], full=full)
        assert not re.search(
            r"MemoryMax|LimitNOFILE|TasksMax|TimeoutStopSec", printed.replace("LimitNOFILE=", "")
        ), printed


@pytest.mark.usefixtures("asking")
def test_an_option_beside_one_that_is_wrong_is_told_by_its_own_name(tmp_path: Path) -> None:
    both = MIRROR.replace("--num.streams", "--offset.commit.interval.ms 5000 --num.streams")
    files = written(tmp_path, consumer__properties=CONSUMER, producer__properties=PRODUCER, mirror__sh=both)
    (judgement,), others = review(files)
    printed = text_of([judgement], others)
    assert ":3 --offset.commit.interval.ms: 5000 -> 60000" in printed
    # What a finding says of its line is not said again.
    assert printed.count("--num.streams") == 2, printed


@pytest.mark.usefixtures("asking")
def test_a_workload_gets_one_answer_for_the_memory_of_one_container(tmp_path: Path) -> None:
    workload = ["consumers=500", "readers=100"]
    (judgement,), _ = review(written(tmp_path, c__yml=BOUNDED), workload=workload)
    heap = about(judgement, "that the workload asks for").fix
    wanted = re.search(r"-Xmx(\d+)m", heap)
    assert wanted
    memory = about(judgement, "mem_limit is 1024 MiB").fix
    assert memory.endswith(f", and the heap to {wanted[1]}m")
    assert memory == f"set mem_limit to {row(judgement, 'mem_limit').planned}, and the heap to {wanted[1]}m"
    assert row(judgement, "KAFKAREST_HEAP_OPTS").planned == f"-Xms{wanted[1]}m -Xmx{wanted[1]}m"
    printed = " ".join(text_of([judgement], []).split())
    assert "for one process; the plan would have 2 on this machine" in printed


@pytest.mark.process
def test_loss_is_allowed_by_what_the_finding_says_to_type(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = BOUNDED.replace("KAFKA_REST_BOOTSTRAP", "KAFKA_REST_PRODUCER_ACKS: 1\n      KAFKA_REST_BOOTSTRAP")
    (file,) = written(tmp_path, c__yml=text)
    assert main([str(file)]) == 1
    printed = " ".join(capsys.readouterr().out.split())
    assert "write KAFKA_REST_PRODUCER_ACKS: all, or give --allow lost if records may be lost" in printed
    main([str(file), "--allow", "lost"])
    assert "acks=1" not in capsys.readouterr().out


@pytest.mark.usefixtures("asking")
def test_a_key_that_rests_on_a_time_is_shown_with_that_time(tmp_path: Path) -> None:
    text = f"{PROXY}fetch.min.bytes=100\n"
    printed = text_of([one(tmp_path, kafka_rest__properties=text)], [])
    assert "fetch.min.bytes: 100 ->" not in printed, "without the wanted latency nothing is said of it"
    printed = text_of([one(tmp_path, ["delivery_latency_ms=400"], kafka_rest__properties=text)], [])
    assert "fetch.min.bytes: 100 -> -1" in printed
    assert "consumer.request.timeout.ms: not set -> 369" in printed


def test_a_mirrors_producer_is_held_against_its_own_defaults(tmp_path: Path) -> None:
    judgement = one(tmp_path, consumer__properties=CONSUMER, producer__properties=PRODUCER, mirror__sh=MIRROR)
    assert row(judgement, "buffer.memory").default == "33554432"
    printed = text_of([judgement], [])
    assert "buffer.memory: not set" not in printed
    assert "send.buffer.bytes: not set -> -1" in printed


def test_a_difference_worth_having_is_shown_with_its_whole_reason(tmp_path: Path) -> None:
    judgement = one(tmp_path, kafka_rest__properties=PROXY)
    printed = " ".join(text_of([judgement], []).split())
    shown = [r for r in judgement.rows if f"-> {r.planned}: {r.because[:60]}" in printed]
    assert shown
    for r in shown:
        assert " ".join(r.because.split()) in printed


def test_a_bridge_is_told_by_its_keys(tmp_path: Path) -> None:
    text = "bridge.id=b\nkafka.bootstrap.servers=k:9092\nkafka.producer.acks=1\nhttp.port=8080\nsecurity.protocol=SSL\n"
    judgement = one(tmp_path, application__properties=text)
    assert judgement.title == "Strimzi's HTTP bridge"
    assert about(judgement, "security.protocol").fix == "write kafka.security.protocol"
    assert about(judgement, "acks=1").severity == "error"


def test_a_balancer_that_forgets_where_consumers_live_is_found(tmp_path: Path) -> None:
    text = (
        "defaults\n  mode http\n  timeout server 30s\n  retries 3\nfrontend f\n  bind *:80\n  default_backend rest\n"
        "backend rest\n  balance roundrobin\n  option httpchk GET /\n"
        "  server r1 r1:8082 check inter 5s\n  server r2 r2:8082 check\n"
    )
    assert [f.rule for f in one(tmp_path, haproxy__cfg=text).findings] == ["rest.stickiness"]
    assert not one(tmp_path, workload=["consumers=0"], haproxy__cfg=text).findings
    three = f"{text}  server r3 r3:8082 check\n"
    assert "one of 3 processes" in one(tmp_path, haproxy__cfg=three).findings[0].message
    for other in ("balance uri", "hash-type consistent", "balance leastconn"):
        unlike = text.replace("balance roundrobin", other).replace("mode http", "mode tcp")
        assert one(tmp_path, haproxy__cfg=unlike).findings, other
    assert not one(tmp_path, haproxy__cfg=text.replace("roundrobin", "source")).findings
    judgement = one(tmp_path, workload=["consumers=10"], haproxy__cfg=text)
    assert [f.rule for f in judgement.findings] == ["rest.stickiness"]
    server = row(judgement, "timeout server")
    assert (server.today, server.place.rpartition("/")[2]) == ("30s", "haproxy.cfg:3")
    sticky = text.replace("balance roundrobin", "balance roundrobin\n  cookie S insert")
    assert not one(tmp_path, workload=["consumers=10"], haproxy__cfg=sticky).findings
    for line in ("stick on path", "balance url_param id"):
        other = text.replace(
            "balance roundrobin", f"balance roundrobin\n  stick-table type string size 1k\n  {line}"
        )
        found = one(tmp_path, workload=["consumers=10"], haproxy__cfg=other).findings
        assert "rest.stickiness" in {finding.rule for finding in found}, line


def test_kernel_settings_are_never_planned_below_what_a_host_has(tmp_path: Path) -> None:
    text = (
        "net.core.somaxconn = 65535\nnet.ipv4.tcp_rmem = 4096\t131072\t6291456\nnet.ipv4.tcp_tw_recycle = 1\n"
        "net.ipv4.tcp_mem = 1 2 3\n"
    )
    judgement = one(tmp_path, sysctl__txt=text)
    assert row(judgement, "net.core.somaxconn").planned == "65535"
    assert row(judgement, "net.ipv4.tcp_rmem").planned == "4096 131072 16777216"
    assert [f.where.rpartition("/")[2] for f in judgement.findings] == ["sysctl.txt:3"]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("vm.max_map_count = banana", "write vm.max_map_count = 65530"),
        ("net/core/wmem_max=lots", "write net.core.wmem_max = 16777216"),
        ("net.core.somaxconn=", "write net.core.somaxconn = 4096"),
        ("net.core.wmem_max = 99999999999", "write net.core.wmem_max = 16777216"),
        ("net.ipv4.tcp_wmem = 4096 16384 x", "write net.ipv4.tcp_wmem = 4096 16384 16777216"),
        ("net.ipv4.tcp_rmem = -1 131072 262144", "write net.ipv4.tcp_rmem = 4096 87380 16777216"),
        ("net.ipv4.ip_local_port_range = 65000 1024", "write net.ipv4.ip_local_port_range = 1024 65535"),
        ("net.ipv4.ip_local_port_range = 1024 70000", "write net.ipv4.ip_local_port_range = 1024 65535"),
        ("net.ipv4.ip_local_port_range = 0 1024", "write net.ipv4.ip_local_port_range = 1024 65535"),
        ("net.ipv4.ip_local_port_range = 1024 1024", None),
        ("net.core.somaxconn = -1", "write net.core.somaxconn = 4096"),
        ("net.core.somaxconn = 0", None),
        ("net.ipv4.tcp_syncookies = 300", "write net.ipv4.tcp_syncookies = 1"),
        ("net.ipv4.tcp_max_syn_backlog = -1", None),
        ("vm.swappiness 1", "write vm.swappiness = 1"),
        ("vm.swappiness", "write vm.swappiness = VALUE"),
        ("vm.swappiness = 0x1", None),
        ("vm.swappiness = 1 # few", None),
        ("net.ipv4.tcp_wmem = 4096 16384", None),
        ("vm.swappiness = {{ few }}", None),
        ("-vm.swappiness", None),
        ("kernel.core_pattern = core", None),
    ],
)
def test_kernel_settings_that_are_no_numbers_are_found(tmp_path: Path, line: str, found: str | None) -> None:
    judgement = one(tmp_path, sysctl__txt=f"net.core.rmem_max = 16777216\n{line}\n")
    told = [(f.severity, f.where.rpartition(":")[2], f.fix) for f in judgement.findings]
    assert told == ([("error", "2", found)] if found else [])


def test_sizes_that_do_not_ascend_come_with_the_line_to_write(tmp_path: Path) -> None:
    (found,) = one(tmp_path, sysctl__txt="net.ipv4.tcp_rmem = 4096 131072 1024\nvm.swappiness = 1\n").findings
    assert (found.severity, found.fix) == ("warning", "write net.ipv4.tcp_rmem = 4096 87380 16777216")


@pytest.mark.process
def test_linux_refuses_what_a_review_says_that_it_refuses(tmp_path: Path) -> None:
    if subprocess.run(["unshare", "-n", "true"], capture_output=True, check=False).returncode:
        pytest.skip("no network namespace of its own can be had")
    for line in (
        "net.ipv4.ip_local_port_range = 65000 1024",
        "net.ipv4.ip_local_port_range = 1024 1024",
        "net.ipv4.ip_local_port_range = 1024 70000",
        "net.ipv4.tcp_rmem = -1 131072 262144",
        "net.ipv4.tcp_rmem = 4096 131072 1024",
        "net.core.somaxconn = -1",
        "net.ipv4.tcp_syncookies = 3",
        "net.ipv4.tcp_max_syn_backlog = -1",
    ):
        errors = [f for f in one(tmp_path, sysctl__txt=f"{line}\n").findings if f.severity == "error"]
        done = subprocess.run(
            ["unshare", "-n", "sysctl", "-w", line.replace(" = ", "=")], capture_output=True, check=False
        )
        assert bool(errors) == (done.returncode != 0), line


def test_documents_are_said_to_have_what_a_document_has_and_no_estimate(tmp_path: Path) -> None:
    judgement = one(tmp_path, kafka_rest__properties="id=r\nbootstrap.servers=k:9092,l:9092\n")
    estimate = row(judgement, "request.queue.capacity")
    assert (estimate.documented, estimate.default, estimate.planned) == (None, "2147483647", "1000")
    shown = text_of([judgement], [], full=True)
    assert "request.queue.capacity: today not set, default 2147483647, planned 1000\n" in shown
    assert "thread.pool.max: today not set, default 200, documented 200, planned 200\n" in shown
    table = markdown([judgement], [], full=True)
    assert "| key | today | default | documented | planned | because | rests on |" in table
    assert "| request.queue.capacity | not set | 2147483647 |  | 1000 |" in table


def test_lines_of_a_script_set_no_kernel_settings(tmp_path: Path) -> None:
    (found,) = one(
        tmp_path, sysctl__txt="sysctl -w vm.swappiness=1\nsysctl -w net.core.somaxconn=9\n"
    ).findings
    assert (found.severity, found.fix) == ("error", "write its KEY = VALUE")
    assert found.message.startswith("a line that begins with sysctl sets nothing")
    (other,) = one(tmp_path, sysctl__txt="-vm.swapiness=1\n-net/core/somaxconn=9\n").findings
    assert other.fix == "did you mean vm.swappiness?"


@pytest.mark.process
@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("empty.properties", "", "is empty"),
        ("notes.properties", "hello = world\n", "is of no kind that is known"),
        ("compose.yml", "services:\n  a: [b\n", "is no YAML"),
        ("api.yml", "openapi: 3.0.1\n", "names no container"),
        ("lone.env", "TZ=UTC\n", "sets variables of no process of Kafka's"),
    ],
)
def test_input_of_no_use_is_one_clear_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, text: str, said: str
) -> None:
    (tmp_path / name).write_text(text)
    assert main([str(tmp_path / name)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert name in error
    assert said in error


@pytest.mark.process
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--workload", "consumer=5"], "did you mean consumers?"),
        (["--workload", "consumers"], "write NAME=VALUE"),
        (["--workload", "consumers=many"], "write a whole number"),
        (["--cores", "0"], "--cores 0: write 1 or more"),
    ],
)
def test_an_option_of_no_use_is_one_clear_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    (file,) = written(tmp_path, kafka_rest__properties="id=a\n")
    assert main([str(file), *arguments]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert said in error


def test_what_is_no_number_is_not_offered_as_one(tmp_path: Path) -> None:
    (file,) = written(tmp_path, mm2__properties="clusters=a,b\na->b.enabled=true\n")
    with pytest.raises(
        ReviewError, match=r"give one of latency_budget_ms, .*fill_ms_p99; docs/reference\.md"
    ):
        review([file], workload=["zzz=5"])


def test_files_that_are_none_are_said_to_be_so(tmp_path: Path) -> None:
    (tmp_path / "jar.properties").write_bytes(b"PK\x03\x04\x00\xff")
    for path, said in (
        (tmp_path / "none.properties", "No such file"),
        (tmp_path, "is a folder"),
        (tmp_path / "jar.properties", "is no text"),
    ):
        with pytest.raises(ReviewError, match=said):
            parts_of(path)


@pytest.mark.usefixtures("asking")
def test_the_machine_decides_what_the_plan_says(tmp_path: Path) -> None:
    files = written(tmp_path, kafka_rest__properties="id=a\n")
    (small,), _ = review(files, cores=2, memory_mib=4096)
    (large,), _ = review(files, cores=64, memory_mib=262_144)
    assert row(small, "thread.pool.min").planned != row(large, "thread.pool.min").planned
    assert not {ask.option for ask in large.asks} & {"--cores", "--memory-mib"}


@pytest.mark.process
def test_the_command_prints_a_review_and_ends_with_1_for_an_error(tmp_path: Path) -> None:
    (file,) = written(tmp_path, docker_compose__yml=COMPOSE)
    argv = [
        sys.executable,
        "-m",
        "kedge",
        "review",
        str(file),
        "--cores",
        "8",
        "--memory-mib",
        "16384",
        "--format",
        "json",
    ]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "")
    reviewed = json.loads(done.stdout)["reviewed"]
    assert reviewed[0]["title"].startswith("kafka-rest")
    assert {"today", "documented", "planned", "because", "basis", "source"} <= reviewed[0]["rows"][0].keys()


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (MM2 + "west.producer.acks = 1\n", "west.producer.acks is 1"),
        (MM2 + "east->west.producer.override.acks = 0\n", "east->west.producer.override.acks is 0"),
        ("application.id=a\nbootstrap.servers=k:9092\nacks=1\n", "acks=1"),
        ("application.id=a\nbootstrap.servers=k:9092\nproducer.acks=0\n", "acks=0"),
    ],
)
def test_acks_that_lose_records_are_found_wherever_they_stand(tmp_path: Path, text: str, word: str) -> None:
    assert about(one(tmp_path, today__properties=text), word).severity == "error"


@pytest.mark.process
@pytest.mark.parametrize(
    "command",
    [
        "/usr/bin/java -Xmx1g -Djavax.net.ssl.keyStorePassword=hunter2-hunter2 -cp /a/* kafka.tools.MirrorMaker --whitelist .*",
        "/usr/bin/kafka-mirror-maker.sh --whitelist .* --token hunter2-hunter2",
    ],
)
def test_a_secret_on_a_command_line_is_an_error_and_is_not_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    unit = f"[Service]\nExecStart={command}\n"
    for files in ({"mm__service": unit}, {"mm__sh": f"#!/bin/sh\nexec {command}\n"}):
        judgement = one(tmp_path, **files)
        (found,) = [f for f in judgement.findings if f.rule == "secret.shown"]
        assert (found.severity, found.where[-2:]) == ("error", ":2")
        assert main([*map(str, written(tmp_path, **files)), "--full"]) == 1
    assert "hunter" not in capsys.readouterr().out


def test_a_secret_that_is_put_in_later_is_none_of_a_command_line(tmp_path: Path) -> None:
    command = "/usr/bin/java -Djavax.net.ssl.keyStorePassword=${PW} kafka.tools.MirrorMaker --whitelist .*"
    judgement = one(tmp_path, mm__service=f"[Service]\nExecStart={command}\n")
    assert not [f for f in judgement.findings if f.rule == "secret.shown"]


@pytest.mark.parametrize(
    ("limit", "severity"),
    [("512M", "error"), ("1G", "error"), ("1100M", "warning"), ("4G", None), ("50%", None)],
)
def test_a_units_memory_is_held_against_the_heap(tmp_path: Path, limit: str, severity: str | None) -> None:
    unit = f"[Service]\nMemoryMax={limit}\nExecStart=/usr/bin/java -Xmx1g kafka.tools.MirrorMaker --whitelist .*\n"
    found = [f for f in one(tmp_path, mm__service=unit).findings if f.rule == "review.memory"]
    assert [f.severity for f in found] == ([severity] if severity else [])
    assert all("set MemoryMax to " in f.fix and ":" in f.where for f in found)


def test_too_few_files_and_threads_of_a_unit_are_warnings(tmp_path: Path) -> None:
    unit = "[Service]\nLimitNOFILE=1024\nTasksMax=50\nExecStart=/usr/bin/kafka-rest-start kafka-rest.properties\n"
    judgement = one(tmp_path, kafka_rest__properties=PROXY, rest__service=unit)
    found = {f.rule: f for f in judgement.findings if f.rule in ("review.files", "review.tasks")}
    assert {f.severity for f in found.values()} == {"warning"}
    assert found["review.files"].where.endswith("rest.service:2")
    enough = unit.replace("1024", "1024:524288").replace("50", "infinity")
    judgement = one(tmp_path, kafka_rest__properties=PROXY, rest__service=enough)
    assert not [f for f in judgement.findings if f.rule.startswith("review.")]


def test_a_containers_memory_is_held_against_its_heap(tmp_path: Path) -> None:
    judgements, _ = review(
        written(tmp_path, c__yml=COMPOSE.replace("KAFKA_REST_HEAP_OPTS", "KAFKAREST_HEAP_OPTS"))
    )
    assert about(judgements[0], "mem_limit is 512 MiB").severity == "error"


@pytest.mark.parametrize(
    "limits",
    ["cpus: 2", "deploy: {resources: {limits: {cpus: '1.5'}}}", "resources: {limits: {cpu: 1500m}}"],
)
@pytest.mark.usefixtures("asking")
def test_the_cpu_limit_of_a_container_is_its_cores(tmp_path: Path, limits: str) -> None:
    text = COMPOSE.replace("mem_limit: 512m", limits)
    (judgement,), _ = review(written(tmp_path, c__yml=text))
    (told,), _ = review(written(tmp_path, c__yml=COMPOSE), cores=2)
    of_two = {r.key: r.planned for r in told.rows}
    # Kubernetes bounds neither files nor threads, and calls memory by another name.
    assert {r.key: r.planned for r in judgement.rows if r.key in of_two}.items() <= of_two.items()
    assert "thread.pool.max" in str([r.key for r in judgement.rows])
    assert "--cores" not in {ask.option for ask in judgement.asks}


ENV_FILE = """
services:
  rest-proxy:
    image: confluentinc/cp-kafka-rest:7.9.1
    mem_limit: 4g
    env_file: [./conf/rest.env]
"""


def test_a_container_with_an_env_file_alone_says_which_file_to_add(tmp_path: Path) -> None:
    judgements, others = review(written(tmp_path, c__yml=ENV_FILE))
    assert judgements == []
    assert len(others) == 1
    assert others[0].endswith("c.yml, rest-proxy: variables of rest.env; add that file")
    variables = "KAFKA_REST_HOST_NAME=a\nKAFKA_REST_PRODUCER_ACKS=1\n"
    (judgement,), others = review(written(tmp_path, c__yml=ENV_FILE, rest__env=variables))
    assert others == []
    assert about(judgement, "acks=1").severity == "error"
    assert (row(judgement, "mem_limit").today, judgement.version) == ("4096m", "7.9.1")


def test_an_env_file_beside_an_environment_is_not_passed_over(tmp_path: Path) -> None:
    text = f"{ENV_FILE}    environment: {{KAFKA_REST_PRODUCER_ACKS: all, KAFKA_REST_ID: a}}\n"
    (judgement,), others = review(written(tmp_path, c__yml=text))
    assert others[0].endswith("variables of rest.env; add that file")
    assert not [f for f in judgement.findings if "acks" in f.message]
    variables = "KAFKA_REST_PRODUCER_ACKS=1\nKAFKA_REST_THREAD_POOL_MAX=7\n"
    (judgement,), others = review(written(tmp_path, c__yml=text, rest__env=variables))
    assert (others, row(judgement, "thread.pool.max").today) == ([], "7")
    assert not [f for f in judgement.findings if "acks" in f.message]


def test_variables_of_a_config_map_are_read_or_asked_for(tmp_path: Path) -> None:
    pod = (
        "kind: Deployment\nspec:\n  containers:\n  - name: rest\n    image: cp-kafka-rest:7.9.1\n"
        "    envFrom: [{configMapRef: {name: rest}}, {secretRef: {name: login}}]\n"
        "    env: [{name: KAFKA_REST_ID, value: a}]\n"
    )
    _, others = review(written(tmp_path, pod__yml=pod))
    assert [o.partition(": ")[2] for o in others] == [
        "variables of ConfigMap rest; add its manifest to the same file, after a line of ---",
        "variables of Secret login; nothing can be said of them",
    ]
    pod += "---\nkind: ConfigMap\nmetadata: {name: rest}\ndata: {KAFKA_REST_PRODUCER_ACKS: '1'}\n"
    (judgement,), others = review(written(tmp_path, pod__yml=pod))
    assert about(judgement, "acks=1").severity == "error"
    assert len(others) == 1


def test_a_login_that_only_gates_of_a_deploy_lack_is_no_finding_of_a_review(tmp_path: Path) -> None:
    text = "id=a\nclient.security.protocol=SASL_SSL\nclient.sasl.mechanism=OAUTHBEARER\n"
    judgement = one(tmp_path, kafka_rest__properties=text)
    assert not [f for f in judgement.findings if "OAUTHBEARER" in f.message]


@pytest.mark.process
def test_a_plan_and_a_review_start_without_numpy() -> None:
    """It takes a tenth of a second, and only what counts records needs it."""
    asked = "import sys, kedge.plan_command; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", asked], cwd=ROOT, check=False).returncode == 0


@pytest.mark.parametrize(
    ("name", "text", "rule", "line"),
    [
        (
            "producer.properties",
            "bootstrap.servers=k:9092\nacks=1\nenable.idempotence=true\n",
            "clients.idempotence",
            2,
        ),
        (
            "kafka-rest.properties",
            "id=a\nsecurity.protocol=SSL\nlisteners=http://0.0.0.0:8082\nclient.security.protocol=SSL\n",
            "rest.keys",
            2,
        ),
        ("rest.env", "KAFKAREST_OPTS=-Da=b\nKAFKAREST_HEAP_OPTS=-Xmx64m\n", "rest.heap.consumers", 2),
    ],
)
def test_a_finding_stands_at_the_line_of_the_key_to_change(
    tmp_path: Path, name: str, text: str, rule: str, line: int
) -> None:
    (tmp_path / name).write_text(text)
    (judgement,), _ = review([tmp_path / name])
    assert {f.where.rpartition("/")[2] for f in judgement.findings if f.rule == rule} == {f"{name}:{line}"}


@pytest.mark.parametrize(
    ("name", "text", "fix"),
    [
        (
            "kafka-rest.properties",
            "id=a\nproducer.acks=1\nclient.timeout.ms=1\nconsumer.group.protocol=consumer\n"
            "consumer.session.timeout.ms=9000\nthread.pool.maxx=3\nthread.pool.max=many\n",
            "write producer.acks: all, or give --allow lost if records may be lost",
        ),
        (
            "rest.env",
            "KAFKAREST_HEAP_OPTS=-Xmx64m\nKAFKAREST_OPT=-Da=b\n",
            "write -Xms512m -Xmx512m in KAFKAREST_HEAP_OPTS",
        ),
        (
            "mm2.properties",
            f"{MM2}west.producer.linger.ms = 90000\nwest.producer.max.request.size = 10\n",
            "set west.producer.linger.ms to 29750 or less, or set --workload latency_budget_ms to 90500 or more",
        ),
        (
            "streams.properties",
            "application.id=a\nacks=1\ncommit.interval.ms=60000\nproducer.max.request.size=10\nlinger.mss=1\n",
            "take acks out: Kafka Streams sets all, or give --allow lost if records may be lost",
        ),
        (
            "producer.properties",
            "acks=1\nlinger.ms=x\nbatch.size=9000000\nmax.request.size=99\nack=1\n",
            "write acks: all and enable.idempotence: true, or give --allow lost if records may be lost",
        ),
    ],
)
def test_a_review_names_no_variable_that_its_reader_does_not_have(
    tmp_path: Path, name: str, text: str, fix: str
) -> None:
    (tmp_path / name).write_text(text)
    (judgement,), _ = review([tmp_path / name])
    said = [f"{f.message}; {f.fix}" for f in judgement.findings]
    assert fix in {f.fix for f in judgement.findings}, said
    own = (
        r"(kafka_rest|streams_app|mirror_maker|host)_\w+|kafka_cl\w+s|service_levels|\w+_(settings|environment)"
        r"|(flow|client) today"
    )
    assert [line for line in said if re.search(rf"\b(?:{own})\b", line)] == []


def test_a_finding_of_a_plan_says_which_variable_holds_the_key() -> None:
    settings = {"producer.acks": "1", "thread.pool.maxx": 3}
    subjects = {
        f.subject for f in make_plan(rest(settings=settings)).findings if f.subject and f.subject.keys
    }
    held = {of.keys[0]: of for of in subjects if of.variable == "kafka_rest_settings"}
    assert held["thread.pool.maxx"].meant == "thread.pool.max"
    assert "producer.acks" in held


PRODUCES = "bootstrap.servers=k:9092\nkey.serializer=o.S\nvalue.serializer=o.S\n"
READS = "bootstrap.servers=k:9092\ngroup.id=g\nkey.deserializer=o.D\nvalue.deserializer=o.D\n"
PROXY = "id=r\nlisteners=http://0.0.0.0:8082\nbootstrap.servers=k:9092,l:9092\n"
APPLICATION = "application.id=a\nbootstrap.servers=k:9092\nstate.dir=/data\n"
FLOWS = "clusters=a,b\na.bootstrap.servers=a:9092\nb.bootstrap.servers=b:9092\n"
FLOW = f"{FLOWS}a->b.enabled=true\ntasks.max=4\n"


@pytest.mark.parametrize(
    ("file", "text", "found"),
    [
        ("kafka-rest.properties", f"{PROXY}producer.request.timeout.ms=90000\n", []),
        ("kafka-rest.properties", f"{PROXY}producer.delivery.timeout.ms=25000\n", ["error clients.delivery 4"]),
        ("kafka-rest.properties", f"{PROXY}client.request.timeout.ms=50000\nproducer.delivery.timeout.ms=40000\n",
         ["error clients.delivery 5"]),
        ("kafka-rest.properties", f"{PROXY}producer.max.in.flight.requests.per.connection=9\n", []),
        ("producer.properties", f"{PRODUCES}max.in.flight.requests.per.connection=6\n",
         ["error clients.idempotence 4"]),
        ("producer.properties",
         f"{PRODUCES}auto.include.jmx.reporter=true\nmax.in.flight.requests.per.connection=6\n",
         ["warning clients.idempotence 5"]),
        ("producer.properties", f"{PRODUCES}enable.idempotence=true\nretries=0\n",
         ["error clients.idempotence 5"]),
        ("producer.properties", f"{PRODUCES}enable.idempotence=true\nacks=0\n",
         ["error clients.idempotence 5"]),
        ("producer.properties", f"{PRODUCES}transactional.id=t\nretries=0\n", ["error clients.idempotence 5"]),
        ("producer.properties", f"{PRODUCES}transactional.id=t\ntransaction.timeout.ms=900001\n",
         ["warning clients.transactions 5"]),
        ("producer.properties", f"{PRODUCES}batch.size=40000000\n", ["error clients.buffer 4"]),
        ("producer.properties", f"{PRODUCES}linger.ms=100000\n", []),
        ("consumer.properties", f"{READS}session.timeout.ms=5999\nheartbeat.interval.ms=1000\n", ["warning clients.session 5"]),
        ("consumer.properties", f"{READS}session.timeout.ms=6000\n", []),
        ("consumer.properties", f"{READS}heartbeat.interval.ms=30000\n", ["warning clients.heartbeat 5"]),
        ("consumer.properties", f"{READS}max.poll.records=50000\n", ["warning clients.poll 5"]),
        ("consumer.properties", f"{READS}max.poll.records=20000\n", []),
        ("streams.properties", f"{APPLICATION}processing.guarantee=exactly_once_v2\ncommit.interval.ms=10001\n",
         ["error streams.transactions 5"]),
        ("streams.properties", f"{APPLICATION}processing.guarantee=exactly_once_v2\n"
         "producer.transaction.timeout.ms=3600000\n", ["warning clients.transactions 5"]),
        ("streams.properties", f"{APPLICATION}producer.transaction.timeout.ms=3600000\n", []),
        ("streams.properties", f"{APPLICATION}commit.interval.ms=60000\n", []),
        ("streams.properties", f"{APPLICATION}processing.guarantee=exactly_once_v2\nproducer.retries=0\n"
         "producer.enable.idempotence=false\n",
         ["error clients.idempotence 5", "warning streams.transactions 6"]),
        ("streams.properties", f"{APPLICATION}main.consumer.auto.offset.reset=latest\n",
         ["warning streams.offsets 4"]),
        ("streams.properties", f"{APPLICATION}max.poll.records=900\nmax.poll.interval.ms=8000\n",
         ["warning clients.poll 5"]),
        ("kafka-rest.properties", "id=r\nlisteners=http://0.0.0.0:8082\n", ["error review.missing kafka-rest"]),
        ("kafka-rest.properties", f"{PROXY}listeners=0.0.0.0:8082\n", ["error rest.listeners 4"]),
        ("kafka-rest.properties", f"{PROXY}listeners=https://0.0.0.0\n", ["error rest.listeners 4"]),
        ("kafka-rest.properties", f"{PROXY}listeners=IN://0.0.0.0:8082\nlistener.protocol.map=IN:http\n", []),
        ("kafka-rest.properties", f"{PROXY}thread.pool.max=7\n", ["error jetty.threads 4"]),
        ("kafka-rest.properties", f"{PROXY}thread.pool.max=90\n", []),
        ("kafka-rest.properties",
         "id=r\nlisteners=http://0.0.0.0:8082\nbootstrap.servers=b-1.c.kafka.eu-west-1.amazonaws.com:9096,l:9096\n",
         ["error review.tls 3"]),
        ("kafka-rest.properties", f"{PROXY}config.providers=env\nconfig.providers.env.class=o.E\n"
         "client.config.providers.env.param.a=b\n", []),
        ("application.properties", "bridge.id=b\nkafka.bootstrap.servers=k:9092\nhttp.enabled=true\n"
         "kafka.prometheus.metrics.reporter.listener=http://:8080\n", ["error rest.keys 3"]),
        ("mm2.properties", f"{FLOWS}a->b.topics=x\n", ["error mirror.flows 4"]),
        ("mm2.properties", f"{FLOW}a->bb.topics=x\n", ["error mirror.flows 6"]),
        ("mm2.properties", f"{FLOW}a->b.topics=\".*\"\n", ["error mirror.flows 6"]),
        ("mm2.properties", f"{FLOW}topics.exclude=.*\n", ["error mirror.flows 6"]),
        ("mm2.properties", f"{FLOW}b.bootstrap.servers=c:9092, a:9092\n", ["error mirror.flows 6"]),
        ("mm2.properties", f"{FLOW}b->a.enabled=true\nreplication.policy.class=o.IdentityReplicationPolicy\n",
         ["error mirror.flows 7"]),
        ("mm2.properties", f"{FLOW}b->a.enabled=true\na->b.topics=x\nb->a.topics=y\n"
         "replication.policy.class=o.IdentityReplicationPolicy\n", []),
        ("mm2.properties", f"{FLOW}groups=g\n", ["warning mirror.flows 6"]),
        ("mm2.properties", f"{FLOW}sync.group.offsets.enabled=true\nemit.offset-syncs.enabled=false\n",
         ["error mirror.flows 7"]),
        ("mm2.properties", f"{FLOW}a->b.tasks.max=1\ntask.max=3\ntopic.blacklist=x\ngroups.blacklist=y\n",
         ["warning keys.unknown 7", "warning keys.unknown 8", "warning keys.unknown 9", "warning mirror.flows 6"]),
        ("streams.properties", f"{APPLICATION}state.dir=/tmp/mine\n", ["warning streams.state 4"]),
        ("streams.properties", "application.id=a\nbootstrap.servers=k:9092\n", ["warning streams.state streams"]),
        ("mm2.properties", f"{FLOW}b.producer.max.in.flight.requests.per.connection=1\n", []),
        ("mm2.properties", f"{FLOW}a->b.producer.batch.size=100000\n", ["warning keys.unknown 6"]),
        ("mm2.properties", f"{FLOW}b.producer.buffer.memory=1000000\nb.producer.batch.size=1000001\n",
         ["error clients.buffer 7"]),
    ],
)  # fmt: skip
def test_what_a_component_refuses_is_found_at_its_line_with_its_own_defaults_beside_it(
    tmp_path: Path, file: str, text: str, found: list[str]
) -> None:
    judgements, _ = review(written(tmp_path, **{file.replace(".", "__"): text}))
    found_in = [f for judgement in judgements for f in judgement.findings if f.severity != "note"]
    # Keys that a case has beside those of its file stand there twice.
    told = [f for f in found_in if f.rule != "review.twice"]
    assert sorted(
        f"{f.severity} {f.rule} {re.split(r'[:/]', f.where)[-1].split('.')[0]}" for f in told
    ) == sorted(found), told


def test_a_key_that_nothing_reads_goes_where_the_one_that_is_read_is_there(tmp_path: Path) -> None:
    there = one(tmp_path, mm2__properties=f"{FLOW}task.max=3\n")
    assert about(there, "know task.max").fix == "take task.max out: tasks.max is there"
    alone = one(tmp_path, mm2__properties=f"{FLOW.replace('tasks.max', 'task.max')}")
    assert about(alone, "know task.max").fix == "write tasks.max"


def test_a_heap_that_is_a_share_is_one_of_the_memory_that_the_jvm_sees(tmp_path: Path) -> None:
    unit = (
        "[Service]\nExecStart=/usr/bin/kafka-rest-start kafka-rest.properties\n{}"
        "Environment=KAFKAREST_HEAP_OPTS=-XX:MaxRAMPercentage=90\n"
    )
    files = {"kafka_rest__properties": PROXY}
    assert not [
        f for f in one(tmp_path, rest__service=unit.format(""), **files).findings if f.severity != "note"
    ]
    limited = one(tmp_path, rest__service=unit.format("MemoryMax=2G\n"), **files)
    assert "MemoryMax is 2048 MiB, and the heap is 1843 MiB" in about(limited, "MemoryMax").message


def test_flags_that_java_17_has_no_more_are_refused(tmp_path: Path) -> None:
    unit = (
        "[Service]\nExecStart=/usr/bin/kafka-rest-start kafka-rest.properties\n"
        "Environment='KAFKAREST_OPTS=-XX:+UseParNewGC -d64 -XX:+PrintGCDetails -Xloggc:/gc.log'\n"
    )
    found = about(one(tmp_path, rest__service=unit, kafka_rest__properties=PROXY), "refuses to start")
    assert "-XX:+UseParNewGC, -d64," in found.message
    assert (found.severity, found.where.rpartition(":")[2]) == ("error", "3")


@pytest.mark.usefixtures("asking")
def test_an_application_whose_memory_is_short_is_never_told_to_take_less(tmp_path: Path) -> None:
    pod = """
kind: Deployment
spec:
  containers:
    - name: app
      image: registry.example.net/app:2.0.0
      args: [java, -Xmx900m, -cp, /app/kafka-streams-4.3.1.jar, net.example.App, streams.properties]
      env: [{name: A, value: b}]
      resources: {limits: {memory: 1000Mi}}
"""
    text = f"{APPLICATION}cache.max.bytes.buffering=2000000000\n"
    judgement = one(tmp_path, pod__yaml=pod, streams__properties=text)
    assert judgement.version == "4.3.1"
    assert "RocksDB lies outside the heap" in about(judgement, "resources.limits.memory is 1000 MiB").message
    assert "the heap on which the cache lies has 900 MiB" in about(judgement, "cache.max.bytes").message
    printed = " ".join(text_of([judgement], [], full=True).split())
    assert not re.search(r"\bof 0 (MiB|databases|partitions)", printed)
    assert re.search(
        r"resources.limits.memory .*: today 1000Mi; to judge it, say [^;]*streams_app_stores", printed
    )


def test_what_was_not_given_is_named_beside_what_was_looked_at(tmp_path: Path) -> None:
    unit = "[Service]\nEnvironmentFile=-/etc/default/rest\nExecStart=/usr/bin/kafka-rest-start k.properties\n"
    (judgement,), others = review(written(tmp_path, rest__service=unit, kafka_rest__properties=PROXY))
    assert [other.rpartition("/")[2] for other in others] == [
        "rest.service: variables of rest; add that file"
    ]
    printed = " ".join(text_of([judgement], others).split())
    assert "no fault was found in what was looked at looked at: its keys, their values and pairs" in printed
    assert "not at: flags of its JVM, limits of its unit or container" in printed


def test_variables_of_an_image_are_read_by_its_own_scripts(tmp_path: Path) -> None:
    compose = """
services:
  rest:
    image: confluentinc/cp-kafka-rest:8.1.0
    environment:
      KAFKA_REST_BOOTSTRAP_SERVERS: k:9092
      KAFKA_REST_LISTENERS: http://0.0.0.0:8082
      KAFKA_REST_CUB_KAFKA_TIMEOUT: 90
      KAFKAREST_JMX_PORT: 9991
      KAFKA_REST_PORT: 8082
"""
    found = {f.where.rpartition(":")[2]: f.rule for f in one(tmp_path, c__yml=compose).findings}
    assert {line: rule for line, rule in found.items() if line.isdigit()} == {
        "9": "rest.jmx",
        "10": "rest.listeners",
    }
    service = """
kind: Service
metadata: {name: kafka-rest}
---
kind: Pod
spec:
  containers:
    - image: confluentinc/cp-kafka-rest:8.1.0
      name: rest
      env: [{name: KAFKA_REST_BOOTSTRAP_SERVERS, value: "k:9092"}]
"""
    linked = about(one(tmp_path, k__yml=service), "KAFKA_REST_PORT")
    assert (linked.severity, "enableServiceLinks: false" in linked.fix) == ("error", True)
    other = one(tmp_path, k__yml=service.replace("name: kafka-rest}", "name: kafkarest}"))
    assert not [f for f in other.findings if "PORT" in f.message]
    more = one(tmp_path, k__yml=service.replace("name: kafka-rest}", "name: kafka-rest-svc}"))
    assert not [f for f in more.findings if "port" in f.message]
    apart = service.replace("spec:", "spec:\n  enableServiceLinks: false")
    assert not [f for f in one(tmp_path, k__yml=apart).findings if f.rule == "rest.listeners"]


@pytest.mark.parametrize(
    ("tag", "warned"), [("", True), (":latest", True), (":7.9.2", False), ("@sha256:a", False)]
)
def test_zookeeper_alone_starts_no_image_of_today(tmp_path: Path, tag: str, *, warned: bool) -> None:
    compose = (
        f"services:\n  rest:\n    image: confluentinc/cp-kafka-rest{tag}\n    environment:\n"
        "      KAFKA_REST_ZOOKEEPER_CONNECT: z:2181\n      KAFKA_REST_LISTENERS: http://0.0.0.0:8082\n"
    )
    found = [f for f in one(tmp_path, c__yml=compose).findings if f.rule == "review.missing"]
    assert [(f.severity, f.where.rpartition(":")[2], f.fix) for f in found] == (
        [("warning", "5", "write KAFKA_REST_BOOTSTRAP_SERVERS, with two or more brokers")] if warned else []
    )


def test_a_small_heap_is_not_explained_by_consumers_that_nobody_said(tmp_path: Path) -> None:
    unit = "[Service]\nExecStart=/usr/bin/kafka-rest-start k.properties\nEnvironment=KAFKAREST_HEAP_OPTS=-Xmx200m\n"
    files = {"kafka_rest__properties": PROXY, "rest__service": unit}
    unsaid = about(one(tmp_path, **files), "heap of 200 MiB is below").message
    assert "which were not given" in unsaid
    assert "0 consumer instances" not in unsaid
    said = about(one(tmp_path, workload=["consumers=7"], **files), "heap of 200 MiB is below").message
    assert "7 consumer instances" in said


def test_nginx_is_named_as_what_it_is(tmp_path: Path) -> None:
    text = "http {\n  upstream r {\n    server a:8082;\n  }\n  server {\n    listen 80;\n    location / { proxy_pass http://r; }\n  }\n}\n"
    _, others = review(written(tmp_path, nginx__conf=text))
    assert [other.rpartition("/")[2] for other in others] == [
        "nginx.conf: nginx, whose configuration is not read"
    ]


def test_a_file_of_streams_is_told_by_its_name(tmp_path: Path) -> None:
    text = "bootstrap.servers=k:1\nschema.registry.url=http://r:8081\nreplication.factor=1\nbank.topic=a\n"
    judgement = one(tmp_path, streams__properties=text)
    assert judgement.title == "a Kafka Streams application"
    # Who sets application.id in its code may set more there.
    (found,) = [f for f in judgement.findings if f.severity != "note"]
    assert found.message.startswith("replication.factor is 1")
    named = one(tmp_path, streams__properties=f"application.id=a\n{text}")
    assert any("/tmp/kafka-streams by default" in f.message for f in named.findings)
    with pytest.raises(ReviewError, match="is of no kind that is known"):
        one(tmp_path, a__properties="bootstrap.servers=k:1\nschema.registry.url=http://r:8081\n")


def test_an_old_consumer_and_a_login_of_a_listener_are_no_consumers(tmp_path: Path) -> None:
    (old,) = one(tmp_path, consumer__properties="zookeeper.connect=z:2181\ngroup.id=g\n").findings
    assert old.fix == "write bootstrap.servers in place of zookeeper.connect: it is the old consumer's"
    text = "bootstrap.servers=k:1\ngroup.id=g\nsecurity.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n"
    listener = "listener.name.sasl_ssl.plain.sasl.jaas.config=o.P required;\n"
    (login,) = one(tmp_path, consumer__properties=text + listener).findings
    assert login.fix == "write sasl.jaas.config, with the login"
