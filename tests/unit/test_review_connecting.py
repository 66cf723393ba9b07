"""How a reviewed process reaches its brokers, clients reach it, and where its configuration lies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kedge.review.command import review

JAAS = 'o.PlainLoginModule required username="u" password="p"'
PRODUCES = "bootstrap.servers=k:9092\nkey.serializer=o.S\n"
PROXY = "id=r\nlisteners=http://0.0.0.0:8082\nbootstrap.servers=k:9092,l:9092\n"
FLOW = (
    "clusters=a,b\na.bootstrap.servers=a:9092\nb.bootstrap.servers=b:9092\na->b.enabled=true\ntasks.max=4\n"
)


@pytest.fixture(autouse=True)
def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask for nothing: each question costs a plan."""
    monkeypatch.setattr("kedge.review.judging._asks", lambda *_: ())


def said(folder: Path, rule: str, **files: str) -> Iterator[str]:
    """Yield the findings of a rule about these files, two underscores in whose names are a dot."""
    paths = [folder / name.replace("__", ".") for name in files]
    for path, text in zip(paths, files.values(), strict=True):
        path.write_text(text)
    for judgement in review(paths)[0]:
        for f in judgement.findings:
            if f.rule == rule:
                yield f"{f.severity} {f.where.rpartition(':')[2]}: {f.message}; {f.fix}"


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("producer", f"{PRODUCES}security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n",
         "warning 3: security.protocol is SASL_SSL, and sasl.jaas.config is not set: its client refuses to start, "
         "unless a flag -Djava.security.auth.login.config names a file with it; write sasl.jaas.config, with the login"),
        ("producer", f"{PRODUCES}security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config={JAAS}\n",
         "error 5: sasl.jaas.config does not end with a semicolon: its client refuses to start; "
         "end the value of sasl.jaas.config with ;"),
        ("producer", f"{PRODUCES}sasl.mechanism=PLAIN\nsasl.jaas.config={JAAS};\n",
         "warning 4: sasl.jaas.config is set, and security.protocol is PLAINTEXT by default: no login is sent; "
         "write security.protocol=SASL_SSL, or SASL_PLAINTEXT where its brokers speak no TLS, or take sasl.jaas.config "
         "out"),
        ("producer", f"{PRODUCES}security.protocol=SSL\nsasl.mechanism=PLAIN\n",
         "warning 3: sasl.mechanism is set, and security.protocol is SSL: no login is sent; "
         "write security.protocol=SASL_SSL, or take sasl.mechanism out"),
        ("producer", f"{PRODUCES}security.protocol=SASL_SSL\nsasl.jaas.config={JAAS};\n",
         "error 4: sasl.mechanism is not set, and GSSAPI by default, and no sasl.kerberos.service.name is: its client "
         "refuses to start; write sasl.mechanism=PLAIN"),
        ("producer", f"{PRODUCES}security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config={JAAS};\n", None),
        ("producer", f"{PRODUCES}security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config=${{J}}\n", None),
        ("kafka-rest", f"{PROXY}client.security.protocol=SASL_SSL\nclient.sasl.mechanism=PLAIN\nproducer.sasl.jaas.config={JAAS};\n"
         f"consumer.sasl.jaas.config={JAAS};\nadmin.sasl.jaas.config={JAAS};\n", None),
        ("kafka-rest", f"{PROXY}client.security.protocol=SASL_SSL\nclient.sasl.mechanism=PLAIN\n"
         f"client.sasl.jaas.config={JAAS}\n",
         "error 6: client.sasl.jaas.config does not end with a semicolon: its client refuses to start; "
         "end the value of client.sasl.jaas.config with ;"),
        ("mm2", f"{FLOW}security.protocol=SASL_SSL\na.sasl.mechanism=PLAIN\na.sasl.jaas.config={JAAS};\n"
         f"b.sasl.mechanism=PLAIN\nb.sasl.jaas.config={JAAS};\n", None),
        ("mm2", f"{FLOW}a.security.protocol=SASL_SSL\na.sasl.mechanism=PLAIN\n",
         "warning 6: a.security.protocol is SASL_SSL, and a.sasl.jaas.config is not set: its client refuses to "
         "start, unless a flag -Djava.security.auth.login.config names a file with it; "
         "write a.sasl.jaas.config, with the login"),
        ("mm2", f"{FLOW}a.security.protocol=SASL_SSL\na.sasl.mechanism=PLAIN\nb.security.protocol=SASL_SSL\n"
         f"b.sasl.mechanism=PLAIN\nb.sasl.jaas.config={JAAS};\n",
         "warning 6: a.security.protocol is SASL_SSL, and a.sasl.jaas.config is not set: its client refuses to "
         "start, unless a flag -Djava.security.auth.login.config names a file with it; "
         "write a.sasl.jaas.config, with the login"),
    ],
)  # fmt: skip
def test_a_login_that_is_refused_or_never_sent_is_found(
    tmp_path: Path, name: str, text: str, found: str | None
) -> None:
    assert list(said(tmp_path, "review.login", **{f"{name}__properties": text})) == ([found] if found else [])


COMPOSE = """
services:
  rest:
    image: confluentinc/cp-kafka-rest:7.9.1
    {}
    environment:
      KAFKA_REST_BOOTSTRAP_SERVERS: k:9092
      KAFKA_REST_LISTENERS: {}
"""


@pytest.mark.parametrize(
    ("ports", "listeners", "found"),
    [
        ('ports: ["18082:8082"]', "http://localhost:8082", True),
        ("ports: [{target: 8082, published: 18082}]", "http://127.0.0.1:8082", True),
        ('ports: ["18082:8082"]', "http://0.0.0.0:8082", False),
        ('ports: ["18082:8082"]', "http://localhost:8081,http://rest:8082", False),
        ("mem_limit: 2g", "http://localhost:8082", False),
        ('{ports: ["18082:8082"], network_mode: host}'[1:-1].replace(", ", "\n    "), "http://localhost:8082", False),
    ],
)  # fmt: skip
def test_a_published_port_behind_a_loopback_listener_is_found(
    tmp_path: Path, ports: str, listeners: str, *, found: bool
) -> None:
    told = list(said(tmp_path, "review.loopback", c__yml=COMPOSE.format(ports, listeners)))
    assert len(told) == found
    assert all("published port 18082; write KAFKA_REST_LISTENERS: http://0.0.0.0:8082" in one for one in told)


MIRROR = """
services:
  mirror:
    image: example/kafka:4.3.1
    command: /opt/kafka/bin/connect-mirror-maker.sh /etc/mm/mm2.properties
    environment: {A: b}
    volumes: ["./conf/east.properties:/etc/mm/mm2.properties:ro"]
"""


def test_a_mounted_configuration_is_asked_for_and_read_when_it_is_given(tmp_path: Path) -> None:
    compose, flow = tmp_path / "c.yml", tmp_path / "east.properties"
    compose.write_text(MIRROR)
    flow.write_text(FLOW.replace("tasks.max=4", "tasks.max=1"))
    (alone,), others = review([compose])
    assert [other.partition(", ")[2] for other in others] == [
        "mirror: its configuration east.properties; add that file"
    ]
    assert (alone.findings, alone.rows) == ((), ())
    (both,), others = review([compose, flow])
    assert (others, len(both.findings)) == ([], 1)
    assert "tasks.max is 1" in both.findings[0].message


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"kafka_rest__properties": "id=r\nbootstrap.servers=\nlisteners=http://0.0.0.0:8082\n"}, "2"),
        ({"consumer__properties": "group.id=g\nkey.deserializer=o.S\nbootstrap.servers =\n"}, "3"),
        ({"producer__properties": "bootstrap.servers=  \nacks=all\nkey.serializer=o.S\n"}, "1"),
        ({"streams__properties": "application.id=a\nbootstrap.servers=\n"}, "2"),
        ({"application__properties": "bridge.id=b\nkafka.bootstrap.servers=\n"}, "2"),
        ({"consumer__properties": "bootstrap.servers=a:9092\ngroup.id=g\n",
          "producer__properties": "bootstrap.servers=\nacks=all\n"}, "1"),
        ({"producer__properties": "acks=all\nkey.serializer=o.S\n"}, None),
    ],
)  # fmt: skip
def test_brokers_that_are_named_and_empty_are_missing(
    tmp_path: Path, files: dict[str, str], found: str | None
) -> None:
    told = list(said(tmp_path, "review.missing", **files))
    assert [one.partition(":")[0].rpartition(" ")[2] for one in told] == ([found] if found else [])
    assert all("is empty: it does not start" in one for one in told)


COMPOSED = "services:\n  r:\n    image: confluentinc/cp-kafka-rest:7.9.1\n    environment:\n      {}\n"


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"mm2__properties": FLOW.replace("a:9092", "kafka-a1")}, "2: a.bootstrap.servers has kafka-a1, which {}"
         "write a.bootstrap.servers=kafka-a1:9092, or"),
        ({"c__yml": COMPOSED.format("KAFKA_REST_BOOTSTRAP_SERVERS: kafka")}, "5: bootstrap.servers has kafka, which {}"
         "write KAFKA_REST_BOOTSTRAP_SERVERS=kafka:9092, or"),
        ({"consumer__properties": "group.id=g\nkey.deserializer=o.S\nbootstrap.servers=a:9093 b\n"},
         "3: bootstrap.servers has a:9093 b, which {}write bootstrap.servers=a:9093,b:9092, or"),
        ({"streams__properties": "application.id=a\nbootstrap.servers=[::1]:9092,http://b/\n"},
         "2: bootstrap.servers has http://b/, which {}write bootstrap.servers=[::1]:9092,http://b:9092, or"),
        ({"application__properties": "bridge.id=b\nkafka.bootstrap.servers=k\n"},
         "2: kafka.bootstrap.servers has k, which {}write kafka.bootstrap.servers=k:9092, or"),
        ({"consumer__properties": "bootstrap.servers=a:9092\ngroup.id=g\n",
          "producer__properties": "acks=all\nbootstrap.servers=b\n"},
         "2: bootstrap.servers has b, which {}write bootstrap.servers=b:9092, or"),
        ({"kafka_rest__properties": PROXY.replace("k:9092", "PLAINTEXT://k:9092")}, None),
        ({"producer__properties": "bootstrap.servers=SSL://k:9092, ,l_1.x-y%z:1,\nkey.serializer=o.S\n"}, None),
        ({"producer__properties": "bootstrap.servers=${K},l\nkey.serializer=o.S\n"}, None),
        ({"c__yml": COMPOSED.format("KAFKA_REST_BOOTSTRAP_SERVERS: ${B:-kafka:9092}")}, None),
        ({"producer__properties": "bootstrap.servers=\nkey.serializer=o.S\n"}, None),
        ({"streams__properties": "application.id=a\nbootstrap.servers=a:1\nmy.bootstrap.servers=b\n"}, None),
    ],
)  # fmt: skip
def test_brokers_without_a_port_are_found_with_what_to_write(
    tmp_path: Path, files: dict[str, str], found: str | None
) -> None:
    told = list(said(tmp_path, "review.brokers", **files))
    refused = "is no HOST:PORT: its clients refuse to start; "
    begin = f"error {found.format(refused)} the port at which its brokers listen" if found else ""
    assert told == ([begin] if found else [])


@pytest.mark.parametrize(
    ("brokers", "read", "meant"),
    [("=k:9092,l:9092", "k:9092", "k:9092,l:9092"), ("k:9092;l:9093", "l:9093", "k:9092,l:9093")],
)
def test_brokers_that_older_clients_take_are_a_warning(
    tmp_path: Path, brokers: str, read: str, meant: str
) -> None:
    text = f"key.serializer=o.S\nbootstrap.servers={brokers}\n"
    (told,) = said(tmp_path, "review.brokers", producer__properties=text)
    assert told.startswith("warning 2: ")
    assert f"those of 3.9 read {read} alone; write bootstrap.servers={meant}, or" in told


@pytest.mark.parametrize(
    ("name", "rule", "text", "found"),
    [
        ("producer", "review.brokers", PRODUCES.replace("k:9092", "k:9092,l:90921"),
         "error 1: bootstrap.servers has port 90921, and 65535 is the last: its clients refuse to start; "
         "write the port at which its brokers listen, such as 9092"),
        ("producer", "review.brokers", PRODUCES.replace("9092", "0"),
         "error 1: bootstrap.servers has port 0, at which no broker listens; "
         "write the port at which its brokers listen, such as 9092"),
        ("producer", "review.brokers", PRODUCES.replace("9092", "65535"), None),
        ("kafka-rest", "rest.listeners", PROXY.replace("8082", "80820"),
         "error 2: the listener http://0.0.0.0:80820 has a port above 65535: the proxy refuses to start; "
         "write it as http://0.0.0.0:8082"),
        ("kafka-rest", "rest.listeners", PROXY.replace("8082", "0"),
         "error 2: the listener http://0.0.0.0:0 has port 0: each start takes another one, and no client knows it; "
         "write it as http://0.0.0.0:8082"),
        ("kafka-rest", "rest.listeners", PROXY, None),
        ("application", "inventory.variable", "bridge.id=b\nkafka.bootstrap.servers=k:9092\nhttp.port=80820\n",
         "error 3: http.port is '80820', and http.port takes 65535 or less; write 65535 or less"),
        ("producer", "review.twice", f"{PRODUCES}acks=1\nacks=all\n",
         "warning 4: acks is in line 3 too, as 1: this line holds; take one of the two lines out"),
        ("producer", "review.twice", f"{PRODUCES}sasl.jaas.config={JAAS};\nsasl.jaas.config={JAAS} a;\n",
         "warning 4: sasl.jaas.config is in line 3 too, as another value: this line holds; "
         "take one of the two lines out"),
        ("producer", "review.twice", f"{PRODUCES}acks=1\nacks=1\n",
         "note 4: acks is in line 3 too, with the same value; "),
    ],
)  # fmt: skip
def test_a_port_that_there_is_not_and_a_key_in_two_lines_are_found(
    tmp_path: Path, name: str, rule: str, text: str, found: str | None
) -> None:
    told = list(said(tmp_path, rule, **{f"{name}__properties": text}))
    assert told == ([found] if found else [])


def test_keys_in_two_lines_of_a_mirrors_files_are_found(tmp_path: Path) -> None:
    files = {
        "consumer__properties": "bootstrap.servers=a:9092\ngroup.id=m\ngroup.id=n\n",
        "producer__properties": "bootstrap.servers=b:9092\nacks=all\nlinger.ms=5\nlinger.ms=9\n",
    }
    assert len(list(said(tmp_path, "review.twice", **files))) == 2


def test_the_old_consumers_zookeeper_gives_way_to_brokers(tmp_path: Path) -> None:
    old = "zookeeper.connect=zk:2181\ngroup.id=m\n"
    new = "bootstrap.servers=b:9092\n"
    (found,) = (
        one
        for one in said(tmp_path, "keys.unknown", consumer__properties=old, producer__properties=new)
        if "zookeeper.connect" in one
    )
    assert found.endswith("write bootstrap.servers in place of zookeeper.connect: it is the old consumer's")
