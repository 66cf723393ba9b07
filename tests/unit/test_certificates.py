"""Certificates that a deploy would copy: what is wrong with them is one line before a host is touched."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from kedge.plan.inventory.certificates import look_at_certificates, look_at_load
from kedge.plan.plan import Plan, PlannedInstance
from kedge.plan.settings import Setting
from kedge.services.planning import make_plan
from tests.rest_inventories import of_rule, planned, rest

ADDRESS = (x509.DNSName("rest1"), x509.IPAddress(ipaddress.ip_address("10.0.0.1")))
NOW = datetime.datetime(2026, 6, 1, tzinfo=datetime.UTC)


def make_pair(
    folder: Path,
    name: str,
    days: int = 365,
    begins: int = -1,
    names: Sequence[x509.GeneralName] = ADDRESS,
    signer: Path | None = None,
) -> tuple[Path, Path]:
    """A certificate valid for so many days from NOW, and its key; signed by itself, or by a signer NAME.pem."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = issuer = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    signing: Any = key
    if signer:
        issuer = x509.load_pem_x509_certificate(signer.read_bytes()).subject
        signing = load_pem_private_key(signer.with_suffix(".key").read_bytes(), None)
    certificate = (
        x509.CertificateBuilder(issuer, subject, key.public_key(), 1)
        .not_valid_before(NOW + datetime.timedelta(days=min(begins, days - 1)))
        .not_valid_after(NOW + datetime.timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(signing, hashes.SHA256())
    )
    pem, private = folder / f"{name}.pem", folder / f"{name}.key"
    pem.write_bytes(certificate.public_bytes(Encoding.PEM))
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return pem, private


def told(
    certificate: Path,
    key: Path,
    hosts: tuple[str, ...] = ("rest1",),
    ca: Path | None = None,
    file: str = "/etc/kafka-rest/8082/listener.pem",
    super_users: str = "",
) -> list[tuple[str, str]]:
    parts = [(file, "key", key), (file, "certificate", certificate)]
    parts += [("/etc/kafka-rest/8082/listener-ca.pem", "certificate", ca)] if ca else []
    settings = tuple(
        Setting(at, kind, str(path), "rest.tls", "", "", "derived", copied=True) for at, kind, path in parts
    )
    settings += (Setting("/etc/x", "super.users", super_users, "broker.authorization", "", "", "derived"),)
    plan = Plan({h: {"kafka_rest": (PlannedInstance("8082", settings),)} for h in hosts})
    addresses = dict.fromkeys(hosts, "10.0.0.1")
    return [(f.severity, f.message) for f in look_at_certificates(plan, NOW, addresses)]


def test_a_valid_pair_is_nothing_to_tell_of(tmp_path: Path) -> None:
    assert told(*make_pair(tmp_path, "a")) == []


@pytest.mark.parametrize(
    ("days", "severity", "message"),
    [
        (0, "error", "expired on 2026-06-01"),
        (-3, "error", "expired on 2026-05-29"),
        (29, "warning", "expires on 2026-06-30, in 29 days"),
    ],
)
def test_the_end_of_a_certificate_is_told(tmp_path: Path, days: int, severity: str, message: str) -> None:
    certificate, key = make_pair(tmp_path, "a", days)
    assert told(certificate, key) == [(severity, f"certificate {certificate} {message}")]


def test_a_certificate_of_tomorrow_is_an_error(tmp_path: Path) -> None:
    certificate, key = make_pair(tmp_path, "a", begins=1)
    assert told(certificate, key) == [
        ("error", f"certificate {certificate} is valid from 2026-06-02 00:00 UTC")
    ]


def test_a_key_of_another_certificate_is_an_error(tmp_path: Path) -> None:
    certificate, _ = make_pair(tmp_path, "a")
    _, key = make_pair(tmp_path, "b")
    assert told(certificate, key) == [("error", f"key {key} is not the one of certificate {certificate}")]


def test_a_missing_file_is_an_error_once_for_all_hosts(tmp_path: Path) -> None:
    certificate, key = make_pair(tmp_path, "a")
    key.unlink()
    said = told(certificate, key, ("rest1", "rest2"))
    assert said == [("error", f"key {key} cannot be read: No such file or directory")]


def test_what_a_wrong_file_holds_is_not_told(tmp_path: Path) -> None:
    certificate, key = make_pair(tmp_path, "a")
    certificate.write_text("planted")
    key.write_text("planted")
    assert told(certificate, key) == [
        ("error", f"{certificate} holds no certificate in PEM format"),
        ("error", f"{key} holds no private key in PEM format without a passphrase"),
    ]


def test_a_certificate_that_the_named_ca_signed_is_nothing_to_tell_of(tmp_path: Path) -> None:
    ca, _ = make_pair(tmp_path, "ca")
    assert told(*make_pair(tmp_path, "a", signer=ca), ca=ca) == []


def test_a_certificate_whose_chain_leads_to_the_ca_is_nothing_to_tell_of(tmp_path: Path) -> None:
    ca, _ = make_pair(tmp_path, "ca")
    between, _ = make_pair(tmp_path, "between", signer=ca)
    certificate, key = make_pair(tmp_path, "a", signer=between)
    certificate.write_bytes(certificate.read_bytes() + between.read_bytes())
    assert told(certificate, key, ca=ca) == []


def test_a_bundle_of_authorities_is_refused_only_when_none_is_valid(tmp_path: Path) -> None:
    """As /etc/ssl/certs/ca-certificates.crt has them: some have expired."""
    old, _ = make_pair(tmp_path, "old", days=-3)
    ca, _ = make_pair(tmp_path, "ca")
    by_old, by_ca = (make_pair(tmp_path, f"by-{one.stem}", signer=one) for one in (old, ca))
    bundle = tmp_path / "bundle.pem"
    bundle.write_bytes(old.read_bytes() + ca.read_bytes())
    some = f"1 of the 2 authorities in {bundle} have expired or are not valid yet: nothing that they signed is trusted"
    assert told(*by_ca, ca=bundle) == [("note", some)]
    unsigned = f"certificate {by_old[0]} is not signed by the CA in {bundle}"
    assert sorted(told(*by_old, ca=bundle)) == [("error", unsigned), ("note", some)]
    assert told(*by_old, ca=old) == [("error", f"certificate {old} expired on 2026-05-29")]


def test_a_certificate_of_another_ca_is_an_error(tmp_path: Path) -> None:
    ca, _ = make_pair(tmp_path, "ca")
    other, _ = make_pair(tmp_path, "other")
    certificate, key = make_pair(tmp_path, "a", signer=other)
    assert told(certificate, key, ca=ca) == [
        ("error", f"certificate {certificate} is not signed by the CA in {ca}")
    ]


def test_a_broker_whose_certificate_the_others_do_not_know_is_an_error(tmp_path: Path) -> None:
    pair = make_pair(tmp_path, "leaf1")
    file = "/etc/kafka-broker/leaf/broker.pem"
    assert told(*pair, file=file, super_users="User:broker;User:host:leaf1;User:host:leaf2") == []
    ((severity, message),) = told(*pair, file=file, super_users="User:broker;User:host:leaf2;User:host:leaf3")
    assert severity == "error"
    assert "has the common name leaf1, and the cluster's brokers are known as leaf2, leaf3" in message


def test_a_certificate_of_another_host_is_an_error_and_of_a_balancer_a_warning(tmp_path: Path) -> None:
    certificate, key = make_pair(tmp_path, "a", names=(x509.DNSName("rest2"),))
    message = f"certificate {certificate} names rest2, and rest1 is reached at 10.0.0.1"
    assert told(certificate, key) == [("error", message)]
    assert told(certificate, key, file="/etc/rest-balancer/haproxy/listener.pem") == [("warning", message)]


def behind_balancers(folder: Path, version: str, *names: str, **more: Any) -> Plan:
    """The plan of rest1 behind lb1 and lb2; the certificate of rest1 names itself and these."""
    certificate, key = make_pair(folder, "rest1", names=[x509.DNSName(name) for name in ("rest1", *names)])
    tls = {"certificate": str(certificate), "key": str(key), "ca": str(certificate)}
    groups = {"rest_balancer": ("lb1", "lb2")}
    return make_plan(rest(groups=groups, version=version, instances_per_host=1, tls=tls, **more))


def of_certificates(plan: Plan) -> list[tuple[str, str]]:
    seen = look_at_certificates(plan, NOW, {host: host for host in plan.services})
    return [(f.severity, f.message.rpartition(" names ")[2]) for f in seen]


@pytest.mark.parametrize(("version", "value"), [("8.0.0", "false"), ("8.3.1", "false"), ("7.9.9", "")])
def test_requests_for_the_balancers_name_are_let_in_where_the_proxy_would_refuse_them(
    tmp_path: Path, version: str, value: str
) -> None:
    plan = behind_balancers(tmp_path, version)
    assert plan.services["rest1"]["kafka_rest"][0].value("sni.host.check.enabled") == value
    assert of_certificates(plan) == []
    assert plan.services["lb2"]["rest_balancer"][0].value("check host") == "lb2:8080"


def test_a_proxy_without_a_balancer_or_without_tls_keeps_its_host_check(tmp_path: Path) -> None:
    certificate, key = make_pair(tmp_path, "rest1")
    tls = {"certificate": str(certificate), "key": str(key), "ca": str(certificate)}
    groups = {"rest_balancer": ("lb1",)}
    assert planned(rest(tls=tls), "sni.host.check.enabled") == ""
    assert planned(rest(groups=groups), "sni.host.check.enabled") == ""


@pytest.mark.parametrize("value", [True, "TRUE"])
def test_a_host_check_of_ones_own_asks_for_the_name_of_each_balancer(tmp_path: Path, value: object) -> None:
    own = {"sni.host.check.enabled": value}
    some = behind_balancers(tmp_path, "8.3.1", "lb1", settings=own)
    (finding,) = of_certificates(some)
    assert finding[0] == "error"
    assert finding[1].startswith("rest1, lb1, and not lb2, which clients of the balancer ask for")
    assert of_certificates(behind_balancers(tmp_path, "8.3.1", "lb1", "lb2", settings=own)) == []
    # There, Jetty checks what SNI names alone, and a balancer sends none.
    assert of_certificates(behind_balancers(tmp_path, "7.9.9", settings=own)) == []


def test_a_host_check_of_ones_own_before_a_foreign_balancer_is_told_with_its_url(tmp_path: Path) -> None:
    own, foreign = {"sni.host.check.enabled": True}, {"url": "https://vip.example:443", "sticky": True}
    plan = behind_balancers(tmp_path, "8.3.1", "lb1", "lb2", settings=own, balancer=foreign)
    (warning,) = of_rule(plan, "rest.host_check")
    assert (warning.severity, "https://vip.example:443" in warning.message) == ("warning", True)


def test_a_host_check_that_is_no_boolean_is_refused(tmp_path: Path) -> None:
    plan = behind_balancers(tmp_path, "8.3.1", settings={"sni.host.check.enabled": "maybe"})
    (error,) = of_rule(plan, "rest.host_check", "error")
    assert error.message.startswith("sni.host.check.enabled is maybe")


@pytest.mark.parametrize(
    "own", [{"host.name": "proxy.example"}, {"advertised.listeners": "https://proxy.example:8082"}]
)
def test_a_name_that_consumers_are_sent_to_is_wanted_in_the_certificate(
    tmp_path: Path, own: dict[str, str]
) -> None:
    (finding,) = of_certificates(behind_balancers(tmp_path, "8.3.1", settings=own))
    assert finding == ("warning", f"rest1, and not proxy.example, to which {next(iter(own))} sends consumers")
    assert of_certificates(behind_balancers(tmp_path, "8.3.1", "proxy.example", settings=own)) == []


def test_a_balancers_certificate_is_held_against_the_address_that_clients_use(tmp_path: Path) -> None:
    pair = dict(zip(("certificate", "key"), map(str, make_pair(tmp_path, "vip", names=[x509.DNSName("vip")])),
                    strict=True))  # fmt: skip
    variables = {"rest_balancer_tls": pair, "rest_balancer_address": "vip"}
    assert of_certificates(behind_balancers(tmp_path, "8.3.1", common=variables)) == []


def test_a_load_trusts_the_authority_of_what_it_goes_to(tmp_path: Path) -> None:
    ca, _ = make_pair(tmp_path, "ca")
    other, _ = make_pair(tmp_path, "other")
    old, _ = make_pair(tmp_path, "old", days=-1)
    pair = dict(zip(("certificate", "key"), map(str, make_pair(tmp_path, "lb", signer=ca)), strict=True))
    plan = behind_balancers(tmp_path, "8.3.1", common={"rest_balancer_tls": pair})

    def told_of(load: dict[str, Any]) -> list[tuple[str, str, str]]:
        return [(f.severity, f.where, f.message) for f in look_at_load(plan, "verify", load, NOW)]

    def said(message: str) -> list[tuple[str, str, str]]:
        return [("error", "all: verify.rest.ca", message)]

    lb, own = f"certificate {pair['certificate']} is not", f"certificate {tmp_path / 'rest1.pem'} is not"
    nobody = "signed by a CA that this machine trusts by itself"
    assert told_of({}) == [*said(f"{lb} {nobody}"), *said(f"{own} {nobody}")]
    assert told_of({"consumers": 0, "ca": str(ca)}) == []
    assert told_of({"ca": str(ca)}) == said(f"{own} signed by the CA in {ca}")
    assert told_of({"consumers": 0, "ca": str(other)}) == said(f"{lb} signed by the CA in {other}")
    assert told_of({"ca": str(old)}) == said(f"certificate {old} expired on 2026-05-31")
    missing = tmp_path / "none.pem"
    assert told_of({"ca": str(missing)}) == said(
        f"certificate {missing} cannot be read: No such file or directory"
    )
    assert told_of({"url": "https://elsewhere"}) == []
