"""Looks at the certificates and keys that a deploy would copy: the edge of the package."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

from sizing.model import Finding, Plan

#: A renewal that takes a request to another department is made in this time.
SOON: Final = datetime.timedelta(days=30)


def look_at_certificates(plan: Plan, now: datetime.datetime) -> tuple[Finding, ...]:
    """Return what is wrong with the files of certificates and keys that a plan copies to hosts.

    A finding says host, file and how to mend it, and never what a file holds. A certificate that ends within
    ``SOON`` of ``now`` (with a time zone) is a warning, all else is an error.
    """
    found: dict[tuple[str, ...], Finding] = {}
    for where, parts in _copied(plan):
        for finding in _look(where, parts, now):
            # One file may go to several hosts: it is told of once.
            found.setdefault((finding.rule, finding.message), finding)
    return tuple(found.values())


def _copied(plan: Plan) -> Iterator[tuple[str, Mapping[str, Path]]]:
    """Return each file on a node that holds files of this machine: where, and these files by kind."""
    for host, services in plan.services.items():
        for service, instances in services.items():
            for instance in instances:
                files: dict[str, dict[str, Path]] = {}
                for setting in instance.settings:
                    if setting.copied:
                        files.setdefault(setting.file, {})[setting.key] = Path(setting.value)
                for parts in files.values():
                    yield f"{host} {service}@{instance.name}", parts


def _look(where: str, parts: Mapping[str, Path], now: datetime.datetime) -> Iterable[Finding]:
    chain = key = None
    if path := parts.get("certificate"):
        try:
            chain = x509.load_pem_x509_certificates(path.read_bytes())
        except OSError as error:
            yield _error(where, f"certificate {path} cannot be read: {error.strerror}", "put it there")
        except ValueError:
            yield _error(
                where, f"{path} holds no certificate in PEM format", "write it as PEM, its chain after it"
            )
        else:
            yield from _dates(where, path, chain, now)
    if path := parts.get("key"):
        try:
            key = load_pem_private_key(path.read_bytes(), None).public_key()
        except OSError as error:
            yield _error(where, f"key {path} cannot be read: {error.strerror}", "put it there")
        except (ValueError, TypeError):
            yield _error(
                where, f"{path} holds no private key in PEM format without a passphrase", "write it as such"
            )
    if chain and key and _bytes(chain[0].public_key()) != _bytes(key):
        yield _error(
            where,
            f"key {parts['key']} is not the one of certificate {parts['certificate']}",
            "name the pair that belongs together",
        )


def _dates(
    where: str, path: Path, chain: Iterable[x509.Certificate], now: datetime.datetime
) -> Iterable[Finding]:
    for certificate in chain:
        ends, begins = certificate.not_valid_after_utc, certificate.not_valid_before_utc
        if ends <= now:
            yield _error(where, f"certificate {path} expired on {ends:%Y-%m-%d}", "renew it")
        elif begins > now:
            yield _error(
                where,
                f"certificate {path} is valid from {begins:%Y-%m-%d %H:%M} UTC",
                "set the clock, or wait",
            )
        elif ends - now < SOON:
            message = f"certificate {path} expires on {ends:%Y-%m-%d}, in {(ends - now).days} days"
            yield Finding("warning", "certificates", where, message, "renew it")


def _bytes(key: PublicKeyTypes) -> bytes:
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _error(where: str, message: str, fix: str) -> Finding:
    return Finding("error", "certificates", where, message, fix)
