"""REST proxies on loopback, each from an archive and started as a unit would start it.

The sandbox's archive is built here. Those of vendors are found in the folder that ``KEDGE_REST_ARCHIVES``
names, and told by their names: ``confluent-community-8.3.1.tar.gz`` and ``kafka-bridge-0.33.1.tar.gz``.
"""

from __future__ import annotations

import os
import re
import ssl
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import httpx

from kedge.setup import unpacking
from lab.demo.archive import VENDORS
from lab.services.brokers import end_process, log_tail
from lab.services.serving import free_ports

ARCHIVES: Final = "KEDGE_REST_ARCHIVES"
_TARGET: Final = Path(__file__).parent / "sandbox_rest" / "target"
_NAMES: Final = {
    name: re.compile(rf"{product.folder}(?:-community)?-(\d+(?:\.\d+)+)\.tar\.gz")
    for name, product in VENDORS.items()
}
_START_S: Final = 60.0


@dataclass(frozen=True)
class VendorArchive:
    """A vendor's archive: the distribution as the inventory names it, its version, and the file."""

    distribution: str
    version: str
    file: Path


@dataclass(frozen=True)
class RunningProxy:
    """A proxy that was started here: its address, process and log."""

    url: str
    process: subprocess.Popen[bytes]
    log: Path


def vendor_archives() -> list[VendorArchive] | str:
    """Return the archives of vendors that are at hand, or in a sentence why there are none."""
    folder = os.environ.get(ARCHIVES)
    if not folder:
        return f"{ARCHIVES} names no folder with archives of vendors' REST proxies"
    found = [
        VendorArchive(distribution, match[1], file)
        for file in sorted(Path(folder).glob("*.tar.gz"))
        for distribution, name in _NAMES.items()
        if (match := name.fullmatch(file.name))
    ]
    return found or (
        f"{ARCHIVES}={folder} holds neither confluent-community-VERSION.tar.gz "
        "nor kafka-bridge-VERSION.tar.gz"
    )


def sandbox_archive() -> Path | None:
    """Return the newest built archive of the sandbox, or None when none is built."""
    built = sorted(_TARGET.glob("sandbox-rest-*.tar.gz"), key=lambda file: file.stat().st_mtime)
    return built[-1] if built else None


def unpack(archive: Path, folder: Path) -> Path:
    """Unpack an archive into an empty folder and return its top folder."""
    unpacking.unpack(archive, folder)
    (home,) = folder.iterdir()
    return home


def launch(
    home: Path,
    folder: Path,
    properties: Mapping[str, str],
    environment: Mapping[str, str] | None = None,
) -> RunningProxy:
    """Start a proxy without waiting for it; its files go into ``folder``.

    ``properties`` are in the keys of the distribution that is unpacked in ``home``. Where it listens is
    filled in; kafka-rest and the sandbox may be told with ``listeners``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    url = properties.get("listeners", f"http://127.0.0.1:{free_ports(1)[0]}")
    bridge = home / "bin" / "kafka_bridge_run.sh"
    file = folder / "proxy.properties"
    if bridge.exists():
        parts = urlsplit(url)
        place = {"http.host": str(parts.hostname), "http.port": str(parts.port)}
        command = [str(bridge), f"--config-file={file}"]
    else:
        place = {"listeners": url}
        command = [str(home / "bin" / "kafka-rest-start"), str(file)]
    file.write_text("".join(f"{k}={v}\n" for k, v in (place | dict(properties)).items()))
    log = folder / "output.log"
    # The start script of kafka-rest opens a port for JMX on all interfaces unless it is told something else.
    defaults = {"LOG_DIR": str(folder / "logs"), "KAFKAREST_JMX_OPTS": "-Dkedge.jmx=off"}
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **defaults, **(environment or {})},
            cwd=folder,
        )
    return RunningProxy(url, process, log)


@contextmanager
def running_proxy(
    home: Path,
    folder: Path,
    properties: Mapping[str, str],
    environment: Mapping[str, str] | None = None,
    ca: Path | None = None,
) -> Iterator[RunningProxy]:
    """Run a proxy that answers until the block ends; raises RuntimeError with its log when it does not.

    ``ca`` signed the certificate of one that listens by https.
    """
    proxy = launch(home, folder, properties, environment)
    try:
        await_answer(proxy, ca)
        yield proxy
    finally:
        end_process(proxy.process)


def await_answer(proxy: RunningProxy, ca: Path | None = None) -> None:
    """Wait until a proxy answers by HTTP; raises RuntimeError with its log when it does not."""
    verify = ssl.create_default_context(cafile=ca) if ca else True
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline and proxy.process.poll() is None:
        try:
            httpx.get(proxy.url, timeout=5, verify=verify)
        except httpx.TransportError:
            time.sleep(0.02)
        else:
            return
    raise RuntimeError(f"the proxy did not answer at {proxy.url}:\n{log_tail(proxy.log)}")
