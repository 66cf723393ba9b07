"""What a file of containers says of several services: merged keys, extension fields, what they share."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kedge.plan.findings import Finding
from kedge.plan.jvm_flags import REST_G1
from kedge.review.as_inventory import started_with
from kedge.review.command import review
from kedge.review.judging import Judgement
from kedge.review.kinds import parts_of
from kedge.review.processes import processes_of
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


@pytest.mark.parametrize(
    ("ids", "brokers", "found"),
    [
        (("r", "r"), "k1:9092", True),
        (("r", "q"), "k1:9092", False),
        (("r", "r"), "another:9092", False),
        (("r", "r"), "${K}", True),
        (("${HOST}", "${HOST}"), "k1:9092", False),
    ],
)
def test_an_id_that_two_proxies_of_a_cluster_share_is_found(
    tmp_path: Path, ids: tuple[str, str], brokers: str, *, found: bool
) -> None:
    one = MERGED.replace("    environment: &e\n", f"    environment: &e\n      KAFKA_REST_ID: {ids[0]}\n", 1)
    own = f"<<: *e\n      KAFKA_REST_ID: {ids[1]}\n      KAFKA_REST_BOOTSTRAP_SERVERS: {brokers}"
    first, second = services(tmp_path, one.replace("<<: *e", own))
    assert not [f for f in first.findings if f.rule == "rest.identity"]
    assert [(f.severity, f.where.rpartition(":")[2], f.message, f.fix)
            for f in second.findings if f.rule == "rest.identity"] == [
        ("warning", "13", "KAFKA_REST_ID is r in a too: names of consumers do not tell the two apart",
         "write a KAFKA_REST_ID of its own for each")] * found  # fmt: skip


def test_an_id_that_two_files_share_is_found(tmp_path: Path) -> None:
    text = "id=r\nbootstrap.servers=k:9092\nlisteners=http://0.0.0.0:8082\n"
    paths = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        paths.append(tmp_path / name / "kafka-rest.properties")
        paths[-1].write_text(text)
    _, second = review(paths)[0]
    assert [f.where for f in second.findings if f.rule == "rest.identity"] == [f"{paths[1]}:1"]


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
      KAFKAREST_HEAP_OPTS: -Xmx1g
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
    assert found[1].repeated == ((f"{tmp_path}/c.yml, rest1", "error", 2),)


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


def named(folder: Path, *variables: str, more: str = "", workload: tuple[str, ...] = ()) -> Judgement:
    """Return the review of one service with these variables."""
    given = "".join(f"\n      {one}" for one in ("KAFKA_REST_BOOTSTRAP_SERVERS: k1:9092,k2:9092", *variables))
    image = "services:\n  a:\n    image: confluentinc/cp-kafka-rest:7.9.2\n"
    (judgement,) = services(folder, f"{image}{more}    environment:{given}\n", workload)
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


def test_keys_of_a_file_keep_their_names_beside_a_container(tmp_path: Path) -> None:
    (tmp_path / "c.yml").write_text(
        "services:\n  a:\n    image: confluentinc/cp-kafka-rest:7.9.2\n    environment: {KAFKA_REST_JMX_PORT: 1, KAFKA_REST_JMX_OPTS: -Xmx1g}\n"
    )
    (tmp_path / "kafka-rest.properties").write_text("bootstrap.servers=k:1,l:1\nproducer.acks=1\n")
    ((judgement,), _) = review([tmp_path / "c.yml", tmp_path / "kafka-rest.properties"])
    assert [f.fix for f in judgement.findings if "acks" in f.message] == [
        "write producer.acks: all, or give --allow lost if records may be lost"
    ]
    of_variables = named(tmp_path, "KAFKA_REST_PRODUCER_ACKS: 1")
    assert "write KAFKA_REST_PRODUCER_ACKS: all" in about(of_variables, "acks=1").fix


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


def heaps(judgement: Judgement) -> list[Finding]:
    return [f for f in judgement.findings if f.rule in ("rest.heap.consumers", "review.memory")]


def test_a_heap_that_is_not_set_is_judged_by_what_the_start_script_takes(tmp_path: Path) -> None:
    (found,) = heaps(named(tmp_path))
    assert found.message == (
        "KAFKAREST_HEAP_OPTS is not set, which comes to -Xmx256M: a heap of 256 MiB is below 512 "
        "MiB, the least that was measured; consumers and connections, which were not given, take more"
    )
    assert (found.severity, found.fix) == ("warning", "write -Xms512m -Xmx512m in KAFKAREST_HEAP_OPTS")
    assert found.where == f"{tmp_path}/c.yml, a"
    said = heaps(named(tmp_path, more="    mem_limit: 200m\n"))
    assert {f.severity for f in said} == {"error", "warning"}
    assert not heaps(named(tmp_path, "KAFKAREST_OPTS: -Xmx600m"))
    assert not heaps(named(tmp_path, more="    command: sh -c 'KAFKAREST_HEAP_OPTS=-Xmx1g run'\n"))
    unit = tmp_path / "rest.service"
    unit.write_text("[Service]\nExecStart=/usr/bin/kafka-rest-start k.properties\n")
    ((of_unit,), _) = review([unit])
    assert "KAFKAREST_HEAP_OPTS is not set, which comes to -Xmx256M" in messages(of_unit)


UNIT = "[Service]\nExecStart={}\nMemoryMax={}\n"
MM2 = "/opt/kafka/bin/connect-mirror-maker.sh /etc/mm2.properties"
CLASSIC = "/opt/kafka/bin/kafka-mirror-maker.sh --consumer.config c.properties --producer.config p.properties"
BRIDGE = "/opt/bridge/bin/kafka_bridge_run.sh --config-file=/etc/application.properties"
IMAGE = "services:\n  a:\n    image: {}\n    command: {}\n    mem_limit: 1g\n"
POD = "kind: {}\nmetadata: {{name: a}}\nspec:\n  resources: {{limits: {{memory: 512Mi}}}}\n  bootstrapServers: k:1\n"
COPIES = (
    "  clusters: [{alias: a, bootstrapServers: a:1}, {alias: b, bootstrapServers: b:1}]\n"
    "  mirrors: [{sourceCluster: a, targetCluster: b, topicsPattern: x, sourceConnector: {tasksMax: 4}}]\n"
)


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("a.service", UNIT.format(MM2, "1G"), "KAFKA_HEAP_OPTS is not set, which comes to -Xms256M -Xmx2G"),
        ("a.service", UNIT.format(CLASSIC, "300M"), "KAFKA_HEAP_OPTS is not set, which comes to -Xmx256M"),
        ("a.service", UNIT.format(BRIDGE, "512M"), "JAVA_OPTS is not set, which comes to -Xmx128m"),
        ("a.service", UNIT.format(BRIDGE, "240M"), "JAVA_OPTS is not set, which comes to -Xmx120m"),
        ("a.yaml", POD.format("KafkaBridge"), "jvmOptions is not set, which comes to -Xmx64m"),
        (
            "a.yaml",
            POD.format("KafkaMirrorMaker2") + COPIES,
            "jvmOptions is not set, which comes to -Xmx384m",
        ),
        ("a.yml", IMAGE.format("apache/kafka:4.3.1", MM2), "which comes to -Xms256M -Xmx2G"),
        ("a.yml", IMAGE.format("registry.lan/kafka:4.3.1", MM2), None),
        ("a.yml", IMAGE.format("apache/kafka:4.3.1", f"sh -c '{MM2}'"), None),
        ("a.service", UNIT.format(f"/usr/bin/env KAFKA_HEAP_OPTS=-Xmx1G {MM2}", "1G"), None),
        ("a.service", UNIT.format(MM2, "1G") + "Environment=_JAVA_OPTIONS=-Xmx500m\n", None),
        ("a.service", UNIT.format(BRIDGE, "infinity"), None),
    ],
)
def test_an_unset_heap_is_judged_where_its_size_is_known_alone(
    tmp_path: Path, file: str, text: str, said: str | None
) -> None:
    (tmp_path / file).write_text(text)
    ((judgement,), _) = review([tmp_path / file])
    if said is None:
        assert not heaps(judgement)
    else:
        assert said in messages(judgement)


def test_a_heap_that_follows_its_limit_is_set_with_it(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(POD.format("KafkaMirrorMaker2") + COPIES)
    ((judgement,), _) = review([tmp_path / "a.yaml"])
    (found,) = heaps(judgement)
    assert re.fullmatch(
        r"set resources.limits.memory to \d+Mi and the heap to 384m, or the heap to \d+m", found.fix
    )


def test_no_heap_of_nothing_is_advised(tmp_path: Path) -> None:
    (tmp_path / "a.service").write_text(UNIT.format(CLASSIC, "256M"))
    ((judgement,), _) = review([tmp_path / "a.service"])
    assert re.fullmatch(r"set MemoryMax to \d+M", heaps(judgement)[0].fix)


def test_what_may_stand_in_a_file_that_was_not_given_is_not_missing(tmp_path: Path) -> None:
    text = EXTENDED.replace("BOOTSTRAP_SERVERS: k1:9092,k2:9092", "HOST_NAME: a")
    (found, _), others = reviewed(tmp_path, text)
    assert not found.findings
    assert f"{tmp_path}/c.yml, rest: variables of rest.env; add that file" in others


SCRIPT = (
    "-server -XX:+UseG1GC -XX:MaxGCPauseMillis=20 -XX:InitiatingHeapOccupancyPercent=35 "
    "-XX:+ExplicitGCInvokesConcurrent -Djava.awt.headless=true"
)


def test_the_least_heap_does_not_differ_where_the_flags_do_not(tmp_path: Path) -> None:
    heap = "KAFKAREST_HEAP_OPTS: -Xmx600m"
    assert not heaps(named(tmp_path, heap))
    assert not heaps(named(tmp_path, heap, f"KAFKAREST_JVM_PERFORMANCE_OPTS: {SCRIPT}"))
    assert not heaps(
        named(
            tmp_path,
            heap,
            f"KAFKAREST_JVM_PERFORMANCE_OPTS: {REST_G1.replace('-XX:G1HeapRegionSize=16M ', '')}",
        )
    )
    (other,) = heaps(named(tmp_path, heap, "KAFKAREST_JVM_PERFORMANCE_OPTS: -XX:+UseG1GC"))
    assert (
        "below 1024 MiB, the least that was measured with other flags in KAFKAREST_JVM_PERFORMANCE_OPTS than "
        "the start script's own (512)" in other.message
    )


@pytest.mark.parametrize(
    "flags",
    ["", "KAFKAREST_JVM_PERFORMANCE_OPTS: -XX:+UseG1GC\n      KAFKA_REST_PRODUCER_BATCH_SIZE: 64k"],
)
@pytest.mark.parametrize("heap", ["", "-Xmx300m", "-Xmx768m", "-Xmx2g"])
@pytest.mark.parametrize("limit", ["200m", "700m", "1g"])
@pytest.mark.parametrize("workload", [(), ("consumers=60",)])
def test_a_heap_and_a_memory_limit_that_a_review_proposes_pass_the_next_one(
    tmp_path: Path, flags: str, heap: str, limit: str, workload: tuple[str, ...]
) -> None:
    def judged(heap: str, limit: str) -> list[Finding]:
        given = [f"KAFKAREST_HEAP_OPTS: {heap}"] if heap else []
        given += ["KAFKA_REST_CONSUMER_REQUEST_MAX_BYTES: 2097152", *filter(None, [flags])]
        return heaps(named(tmp_path, *given, more=f"    mem_limit: {limit}\n", workload=workload))

    found = judged(heap, limit)
    memory = next((f for f in found if f.rule == "review.memory"), None)
    if memory is None:
        assert [f.fix for f in found] == ["write -Xms512m -Xmx512m in KAFKAREST_HEAP_OPTS"]
        assert not judged("-Xms512m -Xmx512m", limit)
        return
    proposed = re.findall(r"(mem_limit|heap) (?:to|of) (\d+m)|or to (\d+m) with a heap of (\d+m)", memory.fix)
    assert proposed
    sizes = {name: size for name, size, *_ in proposed if name}
    if "and the heap to" in memory.fix:
        assert not judged(f"-Xmx{sizes['heap']}", sizes["mem_limit"])
        return
    assert not judged(heap, sizes["mem_limit"])
    if "or the heap to" in memory.fix:
        assert not judged(f"-Xmx{sizes['heap']}", limit)
    for *_, other, less in proposed:
        assert not other or not judged(f"-Xmx{less}", other)


def test_what_reads_are_taken_to_be_is_said_where_nothing_bounds_them(tmp_path: Path) -> None:
    workload = ("consumers=60",)
    (small,) = heaps(named(tmp_path, "KAFKAREST_HEAP_OPTS: -Xmx512m", workload=workload))
    assert small.message.endswith(
        "consumer.request.max.bytes is not set: 2 MiB are counted, and its default is 64"
    )
    assert small.fix.endswith(", and set KAFKA_REST_CONSUMER_REQUEST_MAX_BYTES to 2097152")
    (large,) = heaps(named(tmp_path, "KAFKAREST_HEAP_OPTS: -Xmx4g", workload=workload))
    assert "60 reads that find a backlog ask for a heap of" in large.message
    assert large.fix == "set KAFKA_REST_CONSUMER_REQUEST_MAX_BYTES to 2097152"
    assert not heaps(
        named(tmp_path, "KAFKAREST_HEAP_OPTS: -Xmx4g", f"{large.fix.split()[1]}: 2097152", workload=workload)
    )


@pytest.mark.parametrize(
    ("variables", "ports", "fix"),
    [
        (["KAFKA_REST_LISTENERS: http://0.0.0.0:8082"], '["8082:8083"]', "write 8082:8082"),
        (["KAFKA_REST_LISTENERS: 0.0.0.0:8082"], '["8083:8080/tcp"]', "write 8083:8082"),
        (["KAFKA_REST_ADVERTISED_LISTENERS: http://a:8083"], '["8083:8083"]', "write 8083:8082"),
        ([], "[{target: 8083, published: 80}]", "write 80:8082"),
        (["KAFKA_REST_LISTENERS: http://a:${PORT:-9}"], '["8082"]', "write 9"),
        (["KAFKA_REST_LISTENERS: http://0.0.0.0:8082"], '["80:${REST:-8082}"]', ""),
        (["KAFKA_REST_LISTENERS: http://a:80,https://a:81"], '["443:81"]', ""),
        (["KAFKA_REST_LISTENERS: http://0.0.0.0:8082"], '["8080-8089:8080-8089"]', ""),
        (["KAFKA_REST_LISTENERS: http://0.0.0.0:8082", "KAFKAREST_JMX_PORT: 9101"], '["9101:9101"]', ""),
        (["KAFKA_REST_LISTENERS: http://0.0.0.0:$PORT"], '["8083:8083"]', ""),
        (["KAFKA_REST_LISTENERS: http://0.0.0.0:8082"], '["8083:8083/udp"]', ""),
        (["KAFKA_REST_LISTENERS: http://0.0.0.0:8082,https://0.0.0.0:$TLS"], '["8443:8443"]', ""),
    ],
)
def test_a_published_port_behind_which_nothing_listens_is_found(
    tmp_path: Path, variables: list[str], ports: str, fix: str
) -> None:
    judgement = named(tmp_path, *variables, more=f"    ports: {ports}\n")
    found = [f for f in judgement.findings if f.rule == "review.ports"]
    assert [(f.severity, f.where, f.fix) for f in found] == (
        [("error", f"{tmp_path}/c.yml:4", fix)] if fix else []
    )


@pytest.mark.parametrize(("url", "wrong"), [("localhost:8081", True), ("http://a:1, b:2", True),
                                            ("http://a:1,https://b:2", False), ('""', False)])  # fmt: skip
def test_a_schema_registry_without_a_scheme_is_found(tmp_path: Path, url: str, wrong: bool) -> None:
    judgement = named(tmp_path, f"KAFKA_REST_SCHEMA_REGISTRY_URL: {url}")
    assert ("has no scheme" in messages(judgement)) is wrong


@pytest.mark.parametrize(
    ("url", "wrong"), [("user:s3cret@sr:8081", True), ("https://user:s3cret@sr:8081", False)]
)
def test_a_login_of_a_schema_registry_is_shown_by_no_finding(tmp_path: Path, url: str, wrong: bool) -> None:
    judgement = named(tmp_path, f"KAFKA_REST_SCHEMA_REGISTRY_URL: {url}")
    assert ("has no scheme" in messages(judgement)) is wrong
    assert "s3cret" not in text([judgement], [], full=True)


@pytest.mark.parametrize(
    "beside",
    [
        pytest.param({"more": "    extends: {service: other}\n"}, id="it extends a service that is not seen"),
        pytest.param({"after": "  tls: {image: nginx, network_mode: 'service:a'}\n"}, id="a sidecar listens"),
    ],
)
def test_what_another_service_may_say_or_serve_is_not_missed(tmp_path: Path, beside: dict[str, str]) -> None:
    service = "services:\n  a:\n    image: confluentinc/cp-kafka-rest:7.9.2\n    ports: ['443:443']\n"
    variables = (
        "    environment: {KAFKA_REST_BOOTSTRAP_SERVERS: 'a:9092,b:9092', KAFKAREST_HEAP_OPTS: -Xmx1g}\n"
    )
    found = services(tmp_path, service + beside.get("more", "") + variables + beside.get("after", ""))[0]
    assert not [f for f in found.findings if f.rule == "review.ports"], messages(found)


def test_what_an_extending_service_does_not_set_may_be_set(tmp_path: Path) -> None:
    text_ = "services:\n  a:\n    image: confluentinc/cp-kafka-rest:7.9.2\n    extends: other\n"
    (found,) = services(tmp_path, text_ + "    environment: {KAFKA_REST_PRODUCER_ACKS: all}\n")
    assert not [f for f in found.findings if "is not set" in f.message], messages(found)


def test_a_heap_that_the_jvm_reads_by_itself_may_be_set(tmp_path: Path) -> None:
    judgement = named(tmp_path, "_JAVA_OPTIONS: -Xmx2g")
    assert "-Xmx256M" not in messages(judgement)
    assert "_JAVA_OPTIONS" not in messages(judgement)


def test_a_variable_without_a_value_comes_from_the_shell(tmp_path: Path) -> None:
    text_ = "services:\n  a:\n    image: confluentinc/cp-kafka-rest:7.9.2\n    environment:\n"
    (found,) = services(
        tmp_path, f"{text_}      KAFKA_REST_BOOTSTRAP_SERVERS:\n      KAFKA_REST_PRODUCER_ACKS: all\n"
    )
    assert "is empty" not in messages(found)


@pytest.mark.parametrize(
    ("ports", "who"),
    [
        ("[{target: 9999, published: '9999', host_ip: 127.0.0.1}]", "everybody on the host"),
        ("['0.0.0.0:9999:9999', '127.0.0.1:19999:9999']", "everybody who reaches the host"),
    ],
)
def test_whom_a_published_port_reaches_is_told_by_its_widest_address(
    tmp_path: Path, ports: str, who: str
) -> None:
    assert who in messages(named(tmp_path, "KAFKAREST_JMX_PORT: 9999", more=f"    ports: {ports}\n"))


@pytest.mark.parametrize(
    ("variable", "found"),
    [
        ("PRODUCER_RETRIES: 0", True),
        ("CLIENT_RETRIES: 0", True),
        ("PRODUCER_RETRIES: 3", False),
        ("X: 0", False),
    ],
)
def test_a_proxy_that_does_not_try_again_is_found(tmp_path: Path, variable: str, found: bool) -> None:
    judgement = named(tmp_path, f"KAFKA_REST_{variable}")
    assert [f.severity for f in judgement.findings if f.rule == "rest.producer.retries"] == [
        "warning"
    ] * found


def test_of_a_unit_whose_variables_were_not_given_no_heap_is_judged(tmp_path: Path) -> None:
    unit = tmp_path / "rest.service"
    start = "[Service]\nExecStart=/usr/bin/kafka-rest-start k.properties\n"
    unit.write_text(f"{start}EnvironmentFile=/etc/default/rest\n")
    assert not started_with(processes_of(parts_of(unit))[0])
    ((judgement,), _) = review([unit])
    assert not judgement.findings
