"""How a cluster is reached: one model, rendered for services as Java names it and for Kedge's own clients."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from kedge.deploy.kafka_admin import speaks
from kedge.evidence.secrets import looks_secret
from kedge.plan.hosts import Inventory
from kedge.plan.inventory.certificates import look_at_own_files
from kedge.plan.inventory.clusters import clusters
from kedge.plan.inventory.security import KeyPair, Security, librdkafka
from kedge.plan.settings import Setting
from kedge.services.planning import make_plan
from tests.planned import CLUSTERS, findings, mirrors, of_topics, streams
from tests.rest_inventories import rest
from tests.unit.test_certificates import NOW, make_pair

OWN: Final = {"certificate": "kedge.pem", "key": "kedge.key"}
PAIR: Final = {"certificate": "service.pem", "key": "service.key"}
MTLS: Final[dict[str, Any]] = {"protocol": "SSL", "ca": "ca.pem", "client_tls": OWN}
SCRAM: Final[dict[str, Any]] = {
    "protocol": "SASL_SSL",
    "ca": "ca.pem",
    "user": "kedge",
    "password": "planted-kedge",
}
OAUTH: Final[dict[str, Any]] = {
    **SCRAM,
    "mechanism": "OAUTHBEARER",
    "oauth": {"token_endpoint": "https://id.example.net/token", "scope": "kafka read", "ca": "id-ca.pem"},
}
ALLOWED: Final = "-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=https://id.example.net/token"
OPTIONS: Final = {"confluent": "KAFKAREST_OPTS", "strimzi": "JAVA_OPTS"}
GSSAPI: Final[dict[str, Any]] = {
    "protocol": "SASL_SSL",
    "mechanism": "GSSAPI",
    "ca": "ca.pem",
    "user": "kedge@EXAMPLE.NET",
    "kerberos": {"keytab": "kedge.keytab", "service": "broker"},
}
PRINCIPAL: Final = {"user": "service/host@EXAMPLE.NET", "keytab": "/etc/keytabs/service.keytab"}
USER: Final = {"user": "service", "password": "planted-service"}


@dataclass(frozen=True)
class Client:
    """A client of a service: its inventory by login and security, its variables, its keys, its folder."""

    inventory: Callable[[dict[str, Any], dict[str, Any]], Inventory]
    variable: str
    file: str
    prefix: str
    stem: str

    def settings(self, login: dict[str, Any], security: dict[str, Any]) -> tuple[Setting, ...]:
        plan = make_plan(self.inventory(login, security))
        assert [f.line() for f in plan.findings if f.severity == "error"] == []
        (services,) = (of_host for of_host in plan.services.values() if of_host)
        return next(iter(services.values()))[0].settings

    def keys(self, login: dict[str, Any], security: dict[str, Any]) -> dict[str, str]:
        """Return the keys of its connection, and of none other of the process."""
        return {
            s.key.removeprefix(self.prefix): s.value
            for s in self.settings(login, security)
            if s.file.endswith(self.file)
            and s.key.startswith(tuple(f"{self.prefix}{part}" for part in ("security.", "ssl.", "sasl.")))
        }

    def errors(self, login: dict[str, Any], security: dict[str, Any]) -> list[str]:
        found = findings(self.inventory(login, security), "client.login", "error")
        return [f.message for f in found]


def secured(name: str, security: dict[str, Any]) -> dict[str, Any]:
    return {"kafka_clusters": {**CLUSTERS, name: {**CLUSTERS[name], "security": security}}}


def of_rest(distribution: str, version: str) -> Callable[[dict[str, Any], dict[str, Any]], Inventory]:
    return lambda login, security: rest(
        distribution=distribution, version=version, common=secured("leaf", security), **login
    )


def of_mirror(**role: Any) -> Callable[[dict[str, Any], dict[str, Any]], Inventory]:
    def made(login: dict[str, Any], security: dict[str, Any]) -> Inventory:
        flow = {f"target_{name}": value for name, value in login.items()}
        return mirrors(1, flow, common=secured("agg", security), **role)

    return made


CLIENTS: Final = {
    "confluent": Client(
        of_rest("confluent", "8.3.1"),
        "kafka_rest",
        "kafka-rest.properties",
        "client.",
        "/etc/kafka-rest/8082/cluster",
    ),
    "strimzi": Client(
        of_rest("strimzi", "1.1.0"),
        "kafka_rest",
        "application.properties",
        "kafka.",
        "/etc/kafka-rest/8082/cluster",
    ),
    "streams": Client(
        lambda login, security: streams(1, common=secured("leaf", security), **login),
        "streams_app",
        "streams.properties",
        "",
        "/etc/streams-app/joins-0/cluster",
    ),
    "classic": Client(
        of_mirror(),
        "mirror_maker_flows.metrics.target",
        "producer.properties",
        "",
        "/etc/mirror-maker/metrics-0/target",
    ),
    "mirror_maker_2": Client(
        of_mirror(kind="mirror_maker_2", version="4.3.1"),
        "mirror_maker_flows.metrics.target",
        "mm2.properties",
        "agg.",
        "/etc/mirror-maker/metrics-0/target",
    ),
}
of_each = pytest.mark.parametrize("client", CLIENTS.values(), ids=CLIENTS.keys())


@of_each
def test_a_service_shows_its_certificate_where_brokers_ask_for_one(client: Client) -> None:
    login = {"client_tls": PAIR}
    assert client.keys(login, MTLS) == {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": f"{client.stem}-ca.pem",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": f"{client.stem}-client.pem",
    }
    copied = [(s.key, s.value) for s in client.settings(login, MTLS) if s.file == f"{client.stem}-client.pem"]
    assert copied == [("key", "service.key"), ("certificate", "service.pem")], "the key first, as Kafka reads"


@of_each
def test_a_service_may_show_a_certificate_and_log_in(client: Client) -> None:
    keys = client.keys({"client_tls": PAIR, **USER}, {**SCRAM, "client_tls": OWN})
    assert keys["ssl.keystore.location"] == f"{client.stem}-client.pem"
    assert (keys["security.protocol"], keys["sasl.mechanism"]) == ("SASL_SSL", "SCRAM-SHA-512")
    assert 'username="service"' in keys["sasl.jaas.config"]


@of_each
@pytest.mark.parametrize(
    ("login", "security", "said"),
    [
        ({}, MTLS, "the brokers ask for a certificate, as the cluster's security.client_tls says, and {}_client_tls is missing"),
        ({"client_tls": PAIR, **USER}, MTLS, "{}_user is set, and the cluster takes no login"),
        ({"client_tls": PAIR}, {**SCRAM, "client_tls": OWN}, "the cluster takes SASL_SSL, and {0}_user or {0}_password is missing"),
        ({"client_tls": PAIR, **USER}, SCRAM, "{}_client_tls is set, and the cluster's security.client_tls is missing"),
        ({"client_tls": PAIR, **USER}, {**SCRAM, "protocol": "SASL_PLAINTEXT"}, "{}_client_tls is set, and the cluster takes no certificate"),
        ({**USER, "keytab": PRINCIPAL["keytab"]}, SCRAM, "{}_keytab is set, and the cluster takes no login by Kerberos"),
        (USER, GSSAPI, "the cluster's security.mechanism is GSSAPI, and {0}_user or {0}_keytab is missing"),
        ({**PRINCIPAL, "password": "planted-service"}, GSSAPI, "{}_password is set, and the cluster's security.mechanism is GSSAPI"),
        ({"client_tls": PAIR}, {"protocol": "PLAINTEXT"}, "{}_client_tls is set, and the cluster takes no certificate"),
    ],
)  # fmt: skip
def test_a_login_or_a_certificate_that_is_missing_or_too_much_is_an_error(
    client: Client, login: dict[str, Any], security: dict[str, Any], said: str
) -> None:
    errors = client.errors(login, security)
    assert any(error.startswith(said.format(client.variable)) for error in errors), errors


@of_each
def test_half_of_a_pair_is_named(client: Client) -> None:
    plan = make_plan(client.inventory({"client_tls": {"certificate": "service.pem"}}, MTLS))
    lines = [f.line() for f in plan.findings if f.severity == "error"]
    assert any(f"{client.variable}_client_tls.key is missing" in line for line in lines), lines


@pytest.mark.parametrize(
    ("security", "said"),
    [
        ({"protocol": "SSL", "ca": "ca.pem", "client_tls": {"key": "k"}}, "security.client_tls.certificate is missing"),
        ({**MTLS, **USER}, "security.user contradicts itself: protocol SSL takes no login"),
        ({"protocol": "PLAINTEXT", "client_tls": OWN}, "security.client_tls contradicts itself: protocol PLAINTEXT takes no certificate"),
        ({**SCRAM, "protocol": "SASL_PLAINTEXT", "client_tls": OWN}, "security.client_tls contradicts itself: protocol SASL_PLAINTEXT takes no"),
        ({**SCRAM, "mechanism": "AWS_MSK_IAM"}, "security.mechanism is 'AWS_MSK_IAM'"),
        ({**SCRAM, "mechanism": "OAUTHBEARER"}, "security.oauth contradicts itself: mechanism OAUTHBEARER needs oauth.token_endpoint"),
        ({**SCRAM, "kerberos": GSSAPI["kerberos"]}, "security.kerberos contradicts itself: mechanism SCRAM-SHA-512 over SASL_SSL"),
        ({**GSSAPI, "kerberos": None}, "security.kerberos contradicts itself: mechanism GSSAPI needs kerberos.keytab"),
        ({**GSSAPI, "kerberos": {"service": "kafka"}}, "security.kerberos.keytab is missing"),
        ({**GSSAPI, "password": "planted-kedge"}, "security.user contradicts itself: mechanism GSSAPI needs user, a principal"),
        ({**SCRAM, "oauth": OAUTH["oauth"]}, "security.oauth contradicts itself: mechanism SCRAM-SHA-512 over SASL_SSL"),
        ({**MTLS, "oauth": OAUTH["oauth"]}, "security.oauth contradicts itself: mechanism SCRAM-SHA-512 over SSL"),
        ({**OAUTH, "oauth": {"token_endpoint": "id.example.net"}}, "security.oauth.token_endpoint"),
        ({**OAUTH, "oauth": {"token_endpoint": "https://me:planted-secret@id"}}, "security.oauth.token_endpoint"),
        ({**OAUTH, "password": None}, "security.user contradicts itself: protocol SASL_SSL needs user and password"),
    ],
)  # fmt: skip
def test_security_of_a_cluster_that_contradicts_itself_is_one_line(
    security: dict[str, Any], said: str
) -> None:
    (finding,) = clusters(rest(common=secured("leaf", security)))[1]
    line = finding.line()
    assert said in line
    assert "\n" not in line
    assert "planted" not in line
    assert finding.fix


def test_kedges_own_clients_show_their_certificate_by_paths_alone() -> None:
    seen, secret = librdkafka(Security(**MTLS))
    assert (seen, secret) == (
        {
            "security.protocol": "SSL",
            "ssl.ca.location": "ca.pem",
            "ssl.certificate.location": "kedge.pem",
            "ssl.key.location": "kedge.key",
        },
        {},
    )
    seen, secret = librdkafka(Security(**SCRAM, client_tls=KeyPair(**OWN)))
    assert (seen["ssl.key.location"], secret) == ("kedge.key", {"sasl.password": "planted-kedge"})


@pytest.mark.parametrize("name", CLIENTS)
def test_a_service_gets_a_token_by_its_own_id_and_secret(name: str) -> None:
    client = CLIENTS[name]
    keys = client.keys(USER, OAUTH)
    jaas = keys.pop("sasl.jaas.config")
    validator = keys.pop("sasl.oauthbearer.jwt.validator.class", "")
    assert validator.endswith(".ClientJwtValidator") is (name != "classic"), (
        "known from 4.1 on; needs no jose4j"
    )
    assert keys == {
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": f"{client.stem}-ca.pem",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.login.callback.handler.class": (
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
        ),
        "sasl.oauthbearer.token.endpoint.url": "https://id.example.net/token",
    }
    assert jaas == (
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
        'clientId="service" clientSecret="planted-service" scope="kafka read" ssl.truststore.type="PEM" '
        f'ssl.truststore.location="{client.stem}-token-ca.pem";'
    )
    settings = client.settings(USER, OAUTH)
    assert [s.value for s in settings if s.file == f"{client.stem}-token-ca.pem"] == ["id-ca.pem"]
    options = OPTIONS.get(name, "KAFKA_OPTS")
    (flags,) = (s.value for s in settings if s.key == options)
    assert ALLOWED in flags.split(), "from Kafka 4.0 on no endpoint is asked without it"
    assert [s.key for s in settings if "planted" in s.value and not s.hidden] == []


@pytest.mark.parametrize("name", ["streams", "classic", "mirror_maker_2"])
def test_ones_own_jvm_flags_are_joined_with_the_one_for_tokens(name: str) -> None:
    own = {"environment": {"KAFKA_OPTS": "-Dmine=1"}}
    inventory = CLIENTS[name].inventory({**USER, **own} if name == "streams" else USER, OAUTH)
    for variables in inventory.hosts.values() if name != "streams" else ():
        variables["mirror_maker_flows"]["metrics"] |= own
    (services,) = (of_host for of_host in make_plan(inventory).services.values() if of_host)
    assert {ALLOWED, "-Dmine=1"} <= set(next(iter(services.values()))[0].value("KAFKA_OPTS").split())


@pytest.mark.parametrize("name", OPTIONS)
def test_ones_own_jvm_flags_of_a_proxy_that_leave_out_the_one_for_tokens_are_an_error(name: str) -> None:
    inventory = CLIENTS[name].inventory({**USER, "settings": {OPTIONS[name]: "-Xmx512M"}}, OAUTH)
    found = findings(inventory, "rest.options", "error")
    assert any(f"add {ALLOWED} to it" in f.fix for f in found), found


def test_kedges_own_clients_get_a_token_and_their_secret_is_kept_apart() -> None:
    seen, secret = librdkafka(Security(**OAUTH))
    assert seen == {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": "ca.pem",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.client.id": "kedge",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": "https://id.example.net/token",
        "sasl.oauthbearer.scope": "kafka read",
        "https.ca.location": "id-ca.pem",
    }
    assert secret == {"sasl.oauthbearer.client.secret": "planted-kedge"}
    assert [key for key in seen if looks_secret(key)] == [], "these are for all to read"
    assert all(looks_secret(key) for key in secret)


@of_each
def test_a_service_logs_in_by_the_keytab_of_its_principal(client: Client) -> None:
    keys = client.keys(PRINCIPAL, GSSAPI)
    assert (keys["sasl.mechanism"], keys["sasl.kerberos.service.name"]) == ("GSSAPI", "broker")
    assert keys["sasl.jaas.config"] == (
        'com.sun.security.auth.module.Krb5LoginModule required useKeyTab="true" storeKey="true" '
        'keyTab="/etc/keytabs/service.keytab" principal="service/host@EXAMPLE.NET";'
    )


def test_kedges_own_clients_log_in_by_their_keytab() -> None:
    assert librdkafka(Security(**GSSAPI)) == (
        {
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": "ca.pem",
            "sasl.mechanism": "GSSAPI",
            "sasl.kerberos.principal": "kedge@EXAMPLE.NET",
            "sasl.kerberos.keytab": "kedge.keytab",
            "sasl.kerberos.service.name": "broker",
        },
        {},
    )


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "PLAIN", "OAUTHBEARER"])
def test_this_machines_librdkafka_speaks_what_the_model_offers(mechanism: str) -> None:
    assert speaks(mechanism)


def test_clients_that_cannot_ask_a_token_endpoint_are_an_error() -> None:
    inventory = of_mirror(version="3.3.2")(USER, OAUTH)
    (error,) = findings(inventory, "client.login", "error")
    assert "Kafka's clients of 3.3.2 have no login for a token endpoint" in error.message


def test_a_token_endpoint_without_tls_is_warned_of() -> None:
    security = {**OAUTH, "oauth": {"token_endpoint": "http://id.example.net/token"}}
    (warning,) = findings(CLIENTS["confluent"].inventory(USER, security), "client.login", "warning")[:1]
    assert "can be read on the way" in warning.message


def own_files(folder: Path, certificate: Path, key: Path) -> list[tuple[str, str, str]]:
    pair = {"certificate": str(certificate), "key": str(key)}
    found = look_at_own_files({"leaf": Security(**{**MTLS, "client_tls": pair})}, NOW)
    return [(f.where, f.message.replace(f"{folder}/", ""), f.fix.replace(f"{folder}/", "")) for f in found]


def test_the_files_of_kedges_own_clients_are_looked_at_before_they_are_used(tmp_path: Path) -> None:
    certificate, key = make_pair(tmp_path, "kedge")
    where = "kafka_clusters.leaf.security"
    key.chmod(0o600)
    assert own_files(tmp_path, certificate, key) == []
    key.chmod(0o640)
    ((named, message, fix),) = own_files(tmp_path, certificate, key)
    assert (named, fix) == (where, "chmod 0600 kedge.key")
    assert message.startswith("key kedge.key has mode 0640: others")
    _, other = make_pair(tmp_path, "other")
    other.chmod(0o600)
    assert (
        own_files(tmp_path, certificate, other)[0][1]
        == "key other.key is not the one of certificate kedge.pem"
    )
    key.write_text("$ANSIBLE_VAULT;1.1;AES256\n6162\n")
    key.chmod(0o600)
    assert "holds no private key in PEM format" in own_files(tmp_path, certificate, key)[0][1]
    key.unlink()
    assert (
        own_files(tmp_path, certificate, key)[0][1]
        == "key kedge.key cannot be read: No such file or directory"
    )
    late = NOW + datetime.timedelta(days=400)
    pair = {"certificate": str(certificate), "key": str(other)}
    late_one = Security(**{**MTLS, "client_tls": pair})
    assert "expired on" in look_at_own_files({"leaf": late_one}, late)[0].message


def test_the_keytab_of_kedges_own_clients_has_to_be_there_for_its_owner_alone(tmp_path: Path) -> None:
    keytab = tmp_path / "kedge.keytab"
    security = {"leaf": Security(**{**GSSAPI, "kerberos": {"keytab": str(keytab)}})}
    (missing,) = look_at_own_files(security, NOW)
    assert missing.message == f"keytab {keytab} is no file of this machine"
    keytab.touch(0o600)
    assert look_at_own_files(security, NOW) == ()
    keytab.chmod(0o604)
    (open_to_all,) = look_at_own_files(security, NOW)
    assert open_to_all.fix == f"chmod 0600 {keytab}"


@pytest.mark.parametrize(
    ("client", "said"),
    [
        ({}, "verify.client.ssl.key.location is missing, and hosts of load_generator would get the key"),
        ({"ssl.certificate.location": "kedge.pem", "ssl.key.location": "kedge.key"}, "verify.client.ssl.key.location is kedge.key, and hosts"),
        ({"ssl.certificate.location": "load.pem"}, "verify.client.ssl.key.location is missing, and verify.client.ssl.certificate.location is set"),
        ({"ssl.certificate.location": "load.pem", "ssl.key.location": "load.key"}, None),
    ],
)  # fmt: skip
def test_hosts_that_make_load_never_get_the_key_of_kedges_own_clients(
    client: dict[str, Any], said: str | None
) -> None:
    load = {"topic": "t0", "group": "g", "records_per_s": 10}
    verify = {"cluster": "leaf", "service": "kafka_rest", "client": client, "kafka": load}
    known = secured("leaf", MTLS)["kafka_clusters"]
    found = findings(of_topics({"partitions": 1}, clusters=known, verify=verify), "inventory.variable")
    lines = [f.message for f in found if "verify.client" in f.message]
    assert [line.startswith(said) for line in lines if said] == ([True] if said else []), lines
    assert bool(lines) is bool(said), lines


def test_stores_that_nobody_looks_into_are_a_note() -> None:
    own = {"ssl.keystore.location": "/srv/a.jks", "client.ssl.truststore.location": "/srv/b.pem"}
    own |= {"client.ssl.truststore.type": "PEM"}
    plan = make_plan(rest(2, settings=own))
    (note,) = [f for f in plan.findings if f.rule == "client.stores"]
    assert (note.severity, note.message.partition(" ")[0]) == ("note", "ssl.keystore.location")
