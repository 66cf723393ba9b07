"""Certificates that a deploy would copy: what is wrong with them is one line before a host is touched."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from sizing.certificates import look_at_certificates
from sizing.model import Instance, Plan, Setting

NOW = datetime.datetime(2026, 6, 1, tzinfo=datetime.UTC)


def make_pair(folder: Path, name: str, days: int = 365, begins: int = -1) -> tuple[Path, Path]:
    """A certificate valid for so many days from NOW, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    certificate = (
        x509.CertificateBuilder(subject, subject, key.public_key(), 1)
        .not_valid_before(NOW + datetime.timedelta(days=min(begins, days - 1)))
        .not_valid_after(NOW + datetime.timedelta(days=days))
        .sign(key, hashes.SHA256())
    )
    pem, private = folder / f"{name}.pem", folder / f"{name}.key"
    pem.write_bytes(certificate.public_bytes(Encoding.PEM))
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return pem, private


def told(certificate: Path, key: Path, hosts: tuple[str, ...] = ("rest1",)) -> list[tuple[str, str]]:
    settings = tuple(
        Setting("/etc/kafka-rest/8082/listener.pem", kind, str(path), "rest.tls", "", "", copied=True)
        for kind, path in (("key", key), ("certificate", certificate))
    )
    plan = Plan({h: {"kafka_rest": (Instance("8082", settings),)} for h in hosts})
    return [(f.severity, f.message) for f in look_at_certificates(plan, NOW)]


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
