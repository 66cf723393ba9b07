"""Certificates for brokers and clients on loopback, signed by an authority of the test's own."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

_NEW: Final = ("openssl", "req", "-nodes", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256")


def make_authority(folder: Path) -> Path:
    """Make an authority in a folder, ``ca.pem`` and ``ca.key``; return its certificate."""
    certificate = folder / "ca.pem"
    own = ["-x509", "-days", "2", "-subj", "/CN=authority", "-keyout", str(folder / "ca.key")]
    subprocess.run([*_NEW, *own, "-out", str(certificate)], check=True, capture_output=True)
    return certificate


def make_certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """Have the authority of a folder sign a certificate for loopback in this name; return it and its key."""
    key, request, signed = (folder / f"{name}.{end}" for end in ("key", "csr", "pem"))
    extensions = folder / "extensions"
    extensions.write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
    authority = ["-CA", str(folder / "ca.pem"), "-CAkey", str(folder / "ca.key"), "-CAcreateserial"]
    for command in (
        [*_NEW, "-new", "-subj", f"/O=example/CN={name}", "-keyout", str(key), "-out", str(request)],
        ["openssl", "x509", "-req", "-in", str(request), *authority, "-days", "2", "-out", str(signed),
         "-extfile", str(extensions)],
    ):  # fmt: skip
        subprocess.run(command, check=True, capture_output=True)
    return signed, key


def make_store(folder: Path, name: str) -> Path:
    """Return a file with the key and the certificate of ``make_certificate``, as Kafka reads both."""
    certificate, key = make_certificate(folder, name)
    store = folder / f"{name}.both.pem"
    store.write_text(key.read_text() + certificate.read_text())
    return store
