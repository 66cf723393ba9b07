"""MinIO: an object store on loopback, which speaks S3, for tests of evidence that lies in one."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kedge.setup.go_program import GoProgram
from kedge.setup.paths import PROJECT
from lab.services.serving import serving

PROGRAM: Final = GoProgram(
    name="MinIO",
    folder=PROJECT / "lab" / "services" / "minio_build",
    module="github.com/minio/minio",
    package="",
    file="minio",
    least_go=(1, 25),
    target="test-long",
    megabytes=3000,
)


@dataclass(frozen=True)
class ObjectStore:
    """A running store: ``host:port``, and the login of its only account, which no message may show."""

    address: str
    access_key: str = field(repr=False)
    secret_key: str = field(repr=False)


@contextmanager
def running(folder: Path, port: int) -> Iterator[ObjectStore]:
    """Run a store on loopback, its data and log in a folder, until the block ends.

    Raises Problem when it is not ready within a minute.
    """
    store = ObjectStore(f"127.0.0.1:{port}", secrets.token_hex(8), secrets.token_hex(20))
    environment = {
        "MINIO_ROOT_USER": store.access_key,
        "MINIO_ROOT_PASSWORD": store.secret_key,
        # It would ask its makers for news, and open a second port for its web page.
        "MINIO_UPDATE": "off",
        "MINIO_BROWSER": "off",
    }
    command = [str(PROGRAM.binary()), "server", "--quiet", "--address", store.address, str(folder / "data")]
    log, ready = folder / "minio.log", "/minio/health/ready"
    with serving(PROGRAM.name, command, store.address, ready, log, environment):
        yield store
