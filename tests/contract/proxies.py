"""Starts the sandbox REST proxy from its built distribution, as a unit would."""

from __future__ import annotations

import os
import subprocess
import tarfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx

from local.services.brokers import end_process, free_ports, log_tail

TARGET: Final = Path(__file__).parents[2] / "local" / "services" / "sandbox_rest" / "target"
_START_S: Final = 30.0


@dataclass(frozen=True)
class RunningProxy:
    """A proxy that this test started: its address, process and log."""

    url: str
    process: subprocess.Popen[bytes]
    log: Path


def distribution() -> Path | None:
    """Return the newest built distribution, or None when none is built."""
    built = sorted(TARGET.glob("sandbox-rest-*.tar.gz"), key=lambda file: file.stat().st_mtime)
    return built[-1] if built else None


def unpack(archive: Path, folder: Path) -> Path:
    """Unpack a distribution and return its top folder."""
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    return folder / archive.name.removesuffix(".tar.gz")


def launch(
    home: Path,
    folder: Path,
    properties: Mapping[str, str],
    environment: Mapping[str, str] | None = None,
) -> RunningProxy:
    """Start a proxy without waiting for it; its files go into ``folder``. ``listeners`` is filled in."""
    folder.mkdir(parents=True, exist_ok=True)
    url = properties.get("listeners", f"http://127.0.0.1:{free_ports(1)[0]}")
    file = folder / "kafka-rest.properties"
    file.write_text("".join(f"{k}={v}\n" for k, v in {"listeners": url, **properties}.items()))
    log = folder / "output.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [home / "bin" / "kafka-rest-start", file],
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "LOG_DIR": str(folder / "logs"), **(environment or {})},
        )
    return RunningProxy(url, process, log)


@contextmanager
def running_proxy(
    home: Path,
    folder: Path,
    properties: Mapping[str, str],
    environment: Mapping[str, str] | None = None,
) -> Iterator[RunningProxy]:
    """Run a proxy that answers until the block ends; raises RuntimeError with its log when it does not."""
    proxy = launch(home, folder, properties, environment)
    try:
        _await_answer(proxy)
        yield proxy
    finally:
        end_process(proxy.process)


def _await_answer(proxy: RunningProxy) -> None:
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline and proxy.process.poll() is None:
        try:
            httpx.get(proxy.url, timeout=5)
        except httpx.TransportError:
            time.sleep(0.02)
        else:
            return
    raise RuntimeError(f"the proxy did not answer at {proxy.url}:\n{log_tail(proxy.log)}")
