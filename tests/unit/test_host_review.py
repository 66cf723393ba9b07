"""What was found on hosts is written, reviewed and planned: as it runs today, and never run itself."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from kedge.deploy.host_review import FILES, INVENTORY, FoundReport, empty, write
from kedge.evidence.border.jvms import running
from kedge.plan.inventory.archives import read_archives
from kedge.plan.inventory.reading import read_inventory
from kedge.plan.plan import Plan
from kedge.services.planning import make_plan
from kedge.services.registry import SERVICES
from lab.bench.hosts.__main__ import played, write_inventory
from tests.e2e.playing import recap

pytestmark = pytest.mark.process

REST, MM2 = "io.confluent.kafkarest.KafkaRestMain", "org.apache.kafka.connect.mirror.MirrorMaker"
CLASSIC = "kafka.tools.MirrorMaker"
PROXY = """bootstrap.servers=PLAINTEXT://k1:9092,k2:9092
listeners=http://0.0.0.0:8082
consumer.request.max.bytes=33554432
schema.registry.url=http://sr:8081
"""
MIRROR = """clusters=east,west
east.bootstrap.servers=k1:9092
west.bootstrap.servers=w1:9092
east->west.enabled=true
east->west.topics=a.*, b.*
west->east.enabled=false
tasks.max=4
"""
STREAMS = """application.id=joins
bootstrap.servers=k2:9092
num.stream.threads=4
"""


def process(main: str, files: Mapping[str, str], words: str = "", **more: Any) -> dict[str, Any]:
    """One process, as a host says of it."""
    command = f"/usr/bin/java -Xmx2g {main} {words or ' '.join(files)}"
    listed = [{"path": path, "lines": text.split("\n")} for path, text in files.items()]
    said = {
        "pid": 7,
        "main": main,
        "unit": "",
        "command": command,
        "java": "/usr/bin/java",
        "jars": [],
        "ports": [],
    }
    return said | {"environment": {}, "limits": {}, "files": listed, "missed": []} | more


def rest(text: str = PROXY, **more: Any) -> dict[str, Any]:
    return process(REST, {"/etc/kafka-rest/kafka-rest.properties": text}, **more)


def written(folder: Path, **hosts: list[dict[str, Any]]) -> FoundReport:
    """What is reported of these processes by host."""
    said = {"cores": 4, "memory_kib": 16 << 20, "kernel": {}, "others": []}
    return write(folder, {host: running(said | {"processes": found}) for host, found in hosts.items()})


def plan(folder: Path) -> Plan:
    """The plan of the inventory that was found."""
    inventory = read_inventory(folder / INVENTORY, SERVICES)
    return make_plan(inventory, archives=read_archives(inventory, SERVICES))


def planned(folder: Path, host: str, service: str) -> dict[str, str]:
    made = plan(folder)
    assert [f.line() for f in made.findings if f.severity == "error"] == []
    (instance, *_) = made.services[host][service]
    return {s.key: s.value for s in instance.settings}


def text(folder: Path) -> str:
    return "\n".join(path.read_text() for path in sorted((folder / INVENTORY).rglob("*.yml")))


def test_one_hosts_word_leads_no_other_to_a_broker(tmp_path: Path) -> None:
    astray = PROXY.replace("k2:9092", "evil:9092")
    written(tmp_path, rest1=[rest()], rest2=[rest(astray)])
    (cluster,) = yaml.safe_load((tmp_path / INVENTORY / "group_vars/all/main.yml").read_text())[
        "kafka_clusters"
    ].values()
    assert cluster["bootstrap_servers"] == "k1:9092,k2:9092"
    assert "evil:9092 is named here alone" in text(tmp_path)
    two = tmp_path / "two"
    written(two, rest1=[rest()], rest2=[rest(astray)], rest3=[rest(astray)])
    assert "k2:9092,evil:9092" in text(two)


def test_a_value_that_is_left_out_of_one_host_is_left_out_of_its_twin(tmp_path: Path) -> None:
    wrong = f"{PROXY}producer.acks=7\n"
    written(tmp_path, rest1=[rest(wrong)], rest2=[rest(wrong)])
    for host in ("rest1", "rest2"):
        assert "acks" not in str(
            yaml.safe_load((tmp_path / INVENTORY / "host_vars" / f"{host}.yml").read_text())
        )
    assert text(tmp_path).count("producer.acks=7 is left out") == 2


def test_a_value_that_is_out_of_all_bounds_keeps_no_other_host_from_its_review(tmp_path: Path) -> None:
    odd = PROXY.replace("8082", "9" * 5_000)
    report = written(tmp_path, rest1=[rest(odd)], rest2=[rest()])
    assert any("rest2" in one.where for one in report.judgements)
    assert (tmp_path / "review.md").is_file()


def test_a_fleet_of_all_kinds_is_planned_as_it_runs(tmp_path: Path) -> None:
    mirror = process(MM2, {"/srv/connect-mirror-maker.properties": MIRROR}, jars=["connect-mirror-3.9.2.jar"])
    joins = process("com.acme.Joins", {"/srv/joins.properties": STREAMS}, jars=["kafka-streams-4.3.1.jar"])
    proxy = rest(unit="confluent-kafka-rest.service", jars=["kafka-rest-7.9.1.jar"], ports=[8082])
    report = written(tmp_path, rest1=[proxy], rest2=[proxy], mm1=[mirror], st1=[joins])
    assert report.others == ()
    own = planned(tmp_path, "rest2", "kafka_rest")
    assert own["consumer.request.max.bytes"] == "33554432"
    assert own["KAFKAREST_HEAP_OPTS"] == "-Xmx2g"
    assert own["bootstrap.servers"].startswith("k1:9092,k2:9092")
    mirrored = planned(tmp_path, "mm1", "mirror_maker")
    assert (mirrored["clusters"], mirrored["tasks.max"]) == ("east, west", "4")
    assert mirrored["east->west.topics"] == "a.*,b.*"
    streams = planned(tmp_path, "st1", "streams_app")
    assert (streams["application.id"], streams["num.stream.threads"]) == ("joins", "4")
    # All three name brokers of one cluster, which MirrorMaker 2 calls east.
    common = yaml.safe_load((tmp_path / INVENTORY / "group_vars" / "all" / "main.yml").read_text())
    assert set(common["kafka_clusters"]) == {"east", "west"}
    # Nobody's proxies had it before, and without it none becomes ready.
    ready = [(topic["name"], topic["cluster"]) for topic in common["kafka_topics"]]
    assert ready == [("kedge-ready", "east")]
    assert list(plan(tmp_path).topics["east"]) == ["kedge-ready"]


def test_no_topic_is_declared_for_proxies_of_mapr(tmp_path: Path) -> None:
    written(tmp_path, rest1=[rest(jars=["/opt/mapr/kafka-rest/kafka-rest-5.1.2.jar"])])
    assert "kafka_rest_distribution: mapr" in text(tmp_path)
    assert "kafka_topics" not in text(tmp_path)


def test_the_sandbox_is_planned_as_itself(tmp_path: Path) -> None:
    main = "io.kedge.sandbox.SandboxRestMain"
    proxy = process(main, {"/srv/kafka-rest.properties": PROXY}, jars=["kafka-clients-4.3.1.jar"])
    report = written(tmp_path, rest1=[proxy])
    assert [one.title for one in report.judgements] == ["Kedge's sandbox, a stub of kafka-rest"]
    assert planned(tmp_path, "rest1", "kafka_rest")["consumer.request.max.bytes"] == "33554432"


def test_identical_proxies_are_reported_once_with_their_hosts(tmp_path: Path) -> None:
    proxy = rest(PROXY + "acks=1\n", unit="confluent-kafka-rest.service")
    report = written(tmp_path, rest1=[proxy], rest2=[proxy], rest3=[proxy])
    (one,) = report.judgements
    assert one.where == "rest1 confluent-kafka-rest, rest2 confluent-kafka-rest, rest3 confluent-kafka-rest"
    assert [f.where for f in one.findings if f.severity == "error"] == ["kafka-rest.properties:5"]
    assert report.errors == 1
    for page in ("review.md", "review.html"):
        assert "kafka-rest.properties:5" in (tmp_path / page).read_text()


def test_what_a_plan_refuses_stands_as_a_comment_with_the_reason(tmp_path: Path) -> None:
    written(tmp_path, rest1=[rest(PROXY + "producer.acks=1\nno.such.key=1\nclient.ssl.key.password=***\n")])
    assert planned(tmp_path, "rest1", "kafka_rest")["consumer.request.max.bytes"] == "33554432"
    said = [line for line in text(tmp_path).splitlines() if line.startswith("#")]
    assert any("producer.acks=1 is left out: " in line for line in said)
    assert any("no.such.key=1 is left out: " in line for line in said)
    assert any("client.ssl.key.password is left out: say by kafka_clusters" in line for line in said)


def test_a_classic_mirror_of_two_hosts_is_one_flow_of_two_processes(tmp_path: Path) -> None:
    files = {
        "/srv/consumer.properties": "bootstrap.servers=a:9092\ngroup.id=m\n",
        "/srv/producer.properties": "bootstrap.servers=b:9092\nlinger.ms=100\n",
    }
    words = "--consumer.config /srv/consumer.properties --producer.config /srv/producer.properties --whitelist x,y"
    mirror = process(CLASSIC, files, words, jars=["kafka_2.13-3.9.2.jar"])
    written(tmp_path, mm1=[mirror], mm2=[mirror])
    found = yaml.safe_load((tmp_path / INVENTORY / "group_vars" / "mirror_maker" / "main.yml").read_text())
    (flow,) = found["mirror_maker_flows"].values()
    assert (flow["processes"], flow["topics"]) == (2, ["x|y"])
    assert planned(tmp_path, "mm1", "mirror_maker")["linger.ms"] == "100"


def test_mirrors_that_copy_the_same_topics_are_an_error_of_the_plan(tmp_path: Path) -> None:
    """On two hosts, with another group each; one of them names the brokers in another order."""

    def mirror(topics: str, servers: str) -> dict[str, Any]:
        files = {
            "/c/consumer.properties": f"bootstrap.servers={servers}\ngroup.id=g\n",
            "/p/producer.properties": "bootstrap.servers=t1:9092\nacks=all\n",
        }
        words = f"--consumer.config /c/consumer.properties --producer.config /p/producer.properties {topics}"
        return process(CLASSIC, files, words)

    written(
        tmp_path,
        mm1=[mirror("--whitelist orders", "s1:9092,s2:9092")],
        mm2=[mirror("--whitelist 'orders|x'", "S2:9092, s1:9092")],
    )
    assert [f.rule for f in plan(tmp_path).findings if f.severity == "error"] == ["mirror.twice"]


EVIL = "{{ lookup('pipe', 'touch PWNED') }}"


@pytest.mark.parametrize(
    "evil",
    [EVIL, "{% for a in lookup('pipe','id') %}{% endfor %}", "{# x #}", "a\\u000akafka_rest_version\\: 1"],
)
def test_nothing_that_a_host_says_is_run_as_a_template_or_read_as_yaml(tmp_path: Path, evil: str) -> None:
    hostile = rest(
        PROXY
        + f"producer.client.rack={evil}\n{evil.split(maxsplit=1)[0]}=x\nbootstrap.servers=h{evil}:9092\n",
        unit=f"{evil}.service",
        environment={"KAFKA_OPTS": evil},
    )
    joins = process(
        f"com.{evil}", {"/j.properties": STREAMS + f"client.id={evil}\n"}, jars=["kafka-streams-4.3.1.jar"]
    )
    written(tmp_path, rest1=[hostile], st1=[joins])
    for name in ("rest1", "st1"):
        variables = yaml.safe_load((tmp_path / INVENTORY / "host_vars" / f"{name}.yml").read_text())
        assert not any(begin in yaml.safe_dump(variables) for begin in ("{{", "{%", "{#"))
        assert variables.get("kafka_rest_version") in ("8.3.1", None)
    read_inventory(tmp_path / INVENTORY, SERVICES)


def test_no_file_is_written_outside_of_the_folder(tmp_path: Path) -> None:
    files = {"/etc/../..": PROXY, "/etc/.hidden.properties": PROXY, "/a/b\x1b[2J.properties": PROXY}
    written(tmp_path / "found", **{"../evil": [process(REST, files, unit="../../x.service")]})
    assert [path.name for path in tmp_path.iterdir()] == ["found"]
    names = {path.relative_to(tmp_path / "found" / FILES) for path in (tmp_path / "found" / FILES).rglob("*")}
    assert all(part.isprintable() and not part.startswith(".") for name in names for part in name.parts)
    files_of = [path for path in (tmp_path / "found").rglob("*") if path.is_file()]
    assert all(path.stat().st_mode & 0o077 == 0 for path in [tmp_path / "found", *files_of])


def test_the_report_drives_no_terminal_and_no_browser(tmp_path: Path) -> None:
    report = written(tmp_path, rest1=[rest(PROXY + "thread.pool.max=\\u001b[2J<script>alert(1)</script>\n")])
    for said in (
        report.shown(),
        (tmp_path / "review.md").read_text(),
        (tmp_path / "review.html").read_text(),
    ):
        assert "\x1b" not in said
    assert "<script>" not in (tmp_path / "review.html").read_text()
    assert "<script>" not in (tmp_path / "review.md").read_text()


def test_a_host_without_any_and_a_process_without_files_are_named(tmp_path: Path) -> None:
    joins = process("com.acme.Joins", {}, missed=["/srv/j.properties: Permission denied"])
    report = written(tmp_path, idle=[], st1=[joins | {"jars": ["kafka-streams-4.3.1.jar"]}])
    assert "idle: no REST proxy, mirror or Streams application runs" in report.others
    assert "st1 pid-7: /srv/j.properties: Permission denied" in report.others


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    assert empty(tmp_path) == ""
    (tmp_path / "mine").touch()
    assert "holds something already: remove it, or name another folder by -e found=" in empty(tmp_path)
    assert empty(tmp_path / "mine")


@pytest.mark.slow
def test_the_playbook_asks_each_host_once_and_goes_on_without_one_that_says_something_else(
    tmp_path: Path,
) -> None:
    write_inventory(tmp_path, 2)
    host = {"cores": 4, "memory_kib": 16 << 20, "kernel": {}, "others": [], "processes": [rest()]}
    says = tmp_path / "says.json"
    wrong = {**host, "processes": [rest(unit="\x1b[2J", pid="../../7")]}
    answers = {"rest1": {"running": host}, "rest2": {"running": wrong}}
    answers["lb1"] = {"failed": True, "msg": "no \x1b[2Jpassword\nmore"}
    says.write_text(json.dumps({f"{name} kedge_find_jvms": answer for name, answer in answers.items()}))
    found = tmp_path / "found"
    arguments = ["review.yml", "-e", f"found={found}"]
    calls = played(tmp_path, arguments, KEDGE_SAYS=str(says))["calls"]
    assert calls == {"kedge_find_jvms": 3}
    said = (tmp_path / "output").read_text()
    # Markdown has a backslash before what it would read as its own.
    page = re.sub(r"\\(.)", r"\1", (found / "review.md").read_text())
    for report in (said, page):
        assert "rest2: its answer was not taken: no account of what runs: processes.0.pid" in report
        assert r"lb1: kedge_find_jvms failed there: no \x1b[2Jpassword" in report
    # A refusal is an answer: it fails nothing, and nothing has to be ignored.
    assert {(c["failed"], c["ignored"]) for c in recap(said).values()} == {(0, 0)}
    assert "\x1b[2J" not in said
    assert "rest1 pid-7" in said
    assert planned(found, "rest1", "kafka_rest")["bootstrap.servers"].startswith("k1:9092")
    with pytest.raises(RuntimeError, match="holds something already"):
        played(tmp_path, arguments, KEDGE_SAYS=str(says))
    assert (tmp_path / "calls").read_text() == ""
    says.write_text(json.dumps({"lb1 kedge_find_jvms": answers["lb1"]}))
    with pytest.raises(RuntimeError, match=r"nothing was written\. .*lb1: kedge_find_jvms failed there"):
        played(tmp_path, [*arguments[:2], f"found={tmp_path / 'none'}"], KEDGE_SAYS=str(says))
    assert not (tmp_path / "none").exists()


def test_what_runs_code_stays_with_the_host_that_says_it(tmp_path: Path) -> None:
    hostile = (
        "topic.filter.class=org.evil.Filter\nmetric.reporters=org.evil.Reporter\nconsumer.interceptor.classes=Evil\n"
        "plugin.path=/tmp/evil\nconsumer.partition.assignment.strategy=org.evil.Assignor\n"
        "consumer.key.deserializer=org.apache.kafka.common.serialization.ByteArrayDeserializer\n"
    )
    flags = "-XX:+UseG1GC -XX:OnOutOfMemoryError=/tmp/evil -javaagent:/tmp/evil.jar -XX:MaxGCPauseMillis=20"
    evil = process(
        MM2, {"/srv/mm2.properties": MIRROR + hostile}, environment={"KAFKA_JVM_PERFORMANCE_OPTS": flags}
    )
    report = written(tmp_path, mm1=[evil], mm2=[process(MM2, {"/srv/mm2.properties": MIRROR})])
    inventory = tmp_path / INVENTORY
    of_all = (inventory / "group_vars/mirror_maker/main.yml").read_text()
    assert "evil" not in of_all.lower()
    assert "# east-west: as pid-7 of mm1 runs" in of_all
    assert "-XX:+UseG1GC -XX:MaxGCPauseMillis=20" in of_all
    assert "ByteArrayDeserializer" in of_all
    comments = [
        line for line in (inventory / "host_vars/mm1.yml").read_text().splitlines() if "evil" in line.lower()
    ]
    assert len(comments) == 6
    assert all(line.startswith("# ") for line in comments)
    assert "evil" not in (inventory / "host_vars/mm2.yml").read_text().lower()
    (judged,) = [one for one in report.judgements if "mm1" in one.where]
    found = {f.message.partition(" ")[0] for f in judged.findings if f.rule == "review.code"}
    assert found == {
        "topic.filter.class",
        "metric.reporters",
        "consumer.interceptor.classes",
        "plugin.path",
        "consumer.partition.assignment.strategy",
        "KAFKA_JVM_PERFORMANCE_OPTS",
    }
