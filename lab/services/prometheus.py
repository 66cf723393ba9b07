"""Prometheus on loopback, and its promtool: Debian's package, unpacked into the downloads and not installed.

Installed, it would start a server that listens on all addresses.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from kedge.setup import children, packages
from kedge.setup.paths import cache_root
from kedge.setup.problem import Problem
from lab.services.serving import free_ports, serving

NAME: Final = "Prometheus"
_PACKAGE: Final = "prometheus"
MEGABYTES: Final = 150


def program(name: str) -> Path:
    """Return where prometheus or promtool is: on the PATH, or among the downloads."""
    found = shutil.which(name)
    return Path(found) if found else cache_root() / _PACKAGE / "usr" / "bin" / name


def wanting() -> str:
    """Return what set-up would do, empty where both programs are there."""
    there = all(program(name).is_file() for name in ("prometheus", "promtool"))
    return "" if there else f"unpacks Debian's {_PACKAGE} into {cache_root() / _PACKAGE}"


def fetch(say: Callable[[str], None] = lambda _: None) -> None:
    """Have apt-get download the package, held against the signed lists, and unpack it; raises Problem."""
    if not shutil.which("apt-get"):
        raise Problem("prometheus and promtool are missing, and this machine has no apt-get: install them")
    cache_root().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".prometheus-", dir=cache_root()) as name:
        command = ["env", "-C", name, "apt-get", "download", "-q", _PACKAGE]
        trouble = f"{_PACKAGE} could not be downloaded"
        try:
            children.run(command, trouble)
        except Problem:  # of lists that are old, or not there
            packages.refresh_lists(say)
            children.run(command, trouble)
        (archive,) = Path(name).glob("*.deb")
        unpacked = Path(name) / "unpacked"
        children.run(["dpkg-deb", "-x", str(archive), str(unpacked)], f"{_PACKAGE} could not be unpacked")
        shutil.rmtree(cache_root() / _PACKAGE, ignore_errors=True)
        unpacked.rename(cache_root() / _PACKAGE)


class Prometheus:
    """A running Prometheus, asked by its HTTP API."""

    def __init__(self, address: str) -> None:
        self.address = address

    def ask(self, query: str) -> list[dict[str, Any]]:
        """Return the series of a query; raises Problem with what Prometheus says against it."""
        found: list[dict[str, Any]] = self._get("query", query=query)["result"]
        return found

    def alerts(self) -> dict[str, dict[str, str]]:
        """Return the annotations of each alert that is firing, by its name."""
        return {one["labels"]["alertname"]: one["annotations"] for one in self.firing()}

    def firing(self) -> list[dict[str, dict[str, str]]]:
        """Return the labels and annotations of each alert that is firing."""
        return [one for one in self._get("alerts")["alerts"] if one["state"] == "firing"]

    def rules(self) -> dict[str, str]:
        """Return the health of each rule (ok, err, unknown), by its name."""
        groups = self._get("rules")["groups"]
        return {rule["name"]: rule["health"] for group in groups for rule in group["rules"]}

    def _get(self, what: str, **asked: str) -> Any:
        url = f"http://{self.address}/api/v1/{what}?{urllib.parse.urlencode(asked)}"
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            said = error.read(2000).decode(errors="replace")
            raise Problem(f"Prometheus does not answer {asked}: {said}") from None
        except OSError as error:
            raise Problem(f"Prometheus at {self.address} does not answer: {error}") from None


@contextmanager
def running(folder: Path, target: str, rules: Path) -> Iterator[Prometheus]:
    """Run Prometheus on loopback with these rules, asking a target every five seconds, until the block ends.

    Its data and log are in the folder. Raises Problem when it is not ready within a minute.
    """
    config, log, (port,) = folder / "prometheus.yml", folder / "prometheus.log", free_ports(1)
    address = f"127.0.0.1:{port}"
    scrape = {"job_name": "canary", "static_configs": [{"targets": [target]}]}
    every = {"scrape_interval": "5s", "evaluation_interval": "5s"}
    document = {"global": every, "rule_files": [str(rules)], "scrape_configs": [scrape]}
    config.write_text(json.dumps(document), encoding="utf-8")  # JSON is YAML
    command = [str(program("prometheus")), f"--config.file={config}", f"--web.listen-address={address}"]
    command += [f"--storage.tsdb.path={folder / 'data'}"]
    with serving(NAME, command, address, "/-/ready", log):
        yield Prometheus(address)
