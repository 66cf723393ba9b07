"""A vendor's archive, looked at before anything starts: is it one, and of the product that is asked for?"""

from __future__ import annotations

import hashlib
import re
import tarfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kedge.setup.problem import Problem


@dataclass(frozen=True)
class Product:
    """What a vendor's archive holds: the script that starts the proxy, and the folder that all lies in.

    ``cost_us`` is what load.COST_US is of the sandbox: estimates, for in a demo starts weigh more.
    """

    name: str
    start: str
    folder: str
    archive: str
    example: str
    cost_us: int


VENDORS: Final = {
    "confluent": Product(
        "Confluent's REST proxy",
        "bin/kafka-rest-start",
        "confluent",
        "confluent-community-8.3.1.tar.gz",
        "8.3.1",
        105,
    ),
    "strimzi": Product(
        "Strimzi's bridge",
        "bin/kafka_bridge_run.sh",
        "kafka-bridge",
        "kafka-bridge-0.33.1.tar.gz",
        "0.33.1",
        130,
    ),
}
#: The kit's stand-in has the start script of Confluent's.
_SANDBOX: Final = "sandbox-rest"


def inspect(archive: Path, distribution: str, version: str) -> None:
    """Return when the archive is whole and holds what is asked for; it is read to its end.

    Raises:
        Problem: when it is not there, is no archive, or holds another product or version.
    """
    given, product = f"ARCHIVE={archive}", VENDORS[distribution]
    if archive.is_dir():
        raise Problem(f"{given}: is a folder; name the .tar.gz that its vendor publishes")
    try:
        with tarfile.open(archive) as members:
            paths = [member.name.removeprefix("./").partition("/") for member in members]
    except OSError as error:
        raise Problem(f"{given}: cannot be read: {error.strerror or error}") from None
    except (tarfile.TarError, EOFError, zlib.error):
        raise Problem(f"{given}: is no whole .tar.gz; fetch it again, and compare its checksum") from None
    # The platform holds no bridge, and a bridge no proxy of the platform's.
    started = {
        name: folder for folder, _, inside in paths for name, one in VENDORS.items() if inside == one.start
    }
    if any(folder.startswith(_SANDBOX) for folder in started.values()):
        raise Problem(f"{given}: is Kedge's own sandbox; leave DISTRIBUTION out to run it")
    if distribution in started:
        return _hold(given, product, started[distribution], version)
    wanted = f"an archive of {product.name}, such as {product.archive}"
    for name, folder in started.items():
        raise Problem(
            f"{given}: holds {VENDORS[name].name} ({folder}); write DISTRIBUTION={name}, or name {wanted}"
        )
    holds = paths[0][0] if paths else "nothing"
    raise Problem(f"{given}: holds {holds} and no {product.start}; name {wanted}")


def checksum(archive: Path) -> str:
    """Return the SHA-256 of a file that can be read."""
    with archive.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _hold(given: str, product: Product, folder: str, version: str) -> None:
    """Hold a version against the one in the folder's name; a folder that was renamed tells nothing."""
    match = re.fullmatch(rf"{product.folder}-(\d+(?:\.\d+)+)", folder)
    if match and match[1] != version:
        raise Problem(f"{given}: holds {folder}, and VERSION is {version}; write VERSION={match[1]}")
