"""Toxiproxy: forwards TCP with a delay.

What it delays is what applications send: each end's kernel talks to Toxiproxy itself, so no byte is lost, no
rate is limited, and the size of socket buffers bounds nothing. Its own counters of bytes are of no use for a
rate: it adds to them when a connection ends.
"""

from __future__ import annotations

import json
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from kedge.setup.go_program import GoProgram
from kedge.setup.paths import PROJECT
from kedge.setup.problem import Problem

PROGRAM: Final = GoProgram(
    name="Toxiproxy",
    folder=PROJECT / "lab" / "fleet" / "toxiproxy_build",
    module="github.com/Shopify/toxiproxy/v2",
    package="/cmd/server",
    file="toxiproxy-server",
    least_go=(1, 23),
    target="demo-mirror",
    megabytes=300,
)
MOST_MS: Final = 200
API_PORT: Final = 8474  # Toxiproxy's own default
_ANSWER_S: Final = 10.0
_POLL_S: Final = 0.05


@dataclass(frozen=True)
class Way:
    """From an address and port to another, ``host:port`` both."""

    listen: str
    to: str

    @property
    def name(self) -> str:
        """The name under which Toxiproxy knows it."""
        return self.listen.replace(":", "-")


@dataclass(frozen=True)
class Toxiproxy:
    """A running server, by the address of its API."""

    api: str

    def lay(self, ways: Iterable[Way], round_trip_ms: float) -> None:
        """Forward these ways and no others, with half of the round trip on each direction.

        Raises:
            Problem: when it does not answer, cannot listen, or the round trip is not within 0 and 200 ms.
        """
        laid = list(ways)
        proxies = [{"name": w.name, "listen": w.listen, "upstream": w.to, "enabled": True} for w in laid]
        for name in set(self._ask("GET", "/proxies")) - {way.name for way in laid}:
            self._ask("DELETE", f"/proxies/{name}")
        self._ask("POST", "/populate", proxies)
        self.delay(round_trip_ms)

    def delay(self, round_trip_ms: float) -> None:
        """Set the round trip of all ways, in milliseconds; it holds for what is sent from now on.

        Raises:
            Problem: as :meth:`lay`.
        """
        if not 0 <= round_trip_ms <= MOST_MS:
            raise Problem(f"a round trip of {round_trip_ms:g} ms: say one of 0 to {MOST_MS}")
        out = int(round_trip_ms / 2)
        for name, proxy in self._ask("GET", "/proxies").items():
            known = {toxic["name"] for toxic in proxy["toxics"]}
            for stream, latency in (("upstream", out), ("downstream", int(round_trip_ms) - out)):
                toxic = f"delay-{stream}"
                attributes = {"attributes": {"latency": latency, "jitter": 0}}
                if toxic in known:
                    self._ask("POST", f"/proxies/{name}/toxics/{toxic}", attributes)
                else:
                    body = {"name": toxic, "type": "latency", "stream": stream, **attributes}
                    self._ask("POST", f"/proxies/{name}/toxics", body)

    def cut(self) -> None:
        """Let nothing through; connections stay open and get no answer, as when a line is cut."""
        for name, proxy in self._ask("GET", "/proxies").items():
            known = {toxic["name"] for toxic in proxy["toxics"]}
            for stream in ("upstream", "downstream"):
                if f"cut-{stream}" not in known:
                    body = {"name": f"cut-{stream}", "type": "timeout", "stream": stream}
                    self._ask("POST", f"/proxies/{name}/toxics", {**body, "attributes": {"timeout": 0}})

    def mend(self) -> None:
        """Let everything through again; the connections of before are closed, as what was sent is lost."""
        for name, proxy in self._ask("GET", "/proxies").items():
            for toxic in proxy["toxics"]:
                if toxic["name"].startswith("cut-"):
                    self._ask("DELETE", f"/proxies/{name}/toxics/{toxic['name']}")

    def state(self) -> dict[str, tuple[str, int, bool]]:
        """Return each way by where it listens: where it leads, its round trip (ms), whether it is cut."""
        found = {}
        for proxy in self._ask("GET", "/proxies").values():
            toxics = {toxic["name"]: toxic for toxic in proxy["toxics"]}
            delays = (toxics.get(f"delay-{stream}") for stream in ("upstream", "downstream"))
            trip = sum(int(toxic["attributes"]["latency"]) for toxic in delays if toxic)
            found[proxy["listen"]] = (proxy["upstream"], trip, any(n.startswith("cut-") for n in toxics))
        return found

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.api}{path}", data, method=method)  # noqa: S310 - our own
        # Toxiproxy refuses what calls itself a browser, and anything without a name.
        request.add_header("User-Agent", "kedge")
        try:
            with urllib.request.urlopen(request, timeout=_ANSWER_S) as answer:  # noqa: S310 - as above
                text = answer.read()
        except urllib.error.HTTPError as error:
            raise Problem(
                f"Toxiproxy at {self.api} refuses {method} {path}: {error.read().decode()}"
            ) from error
        except OSError as error:
            raise Problem(f"Toxiproxy does not answer at {self.api} ({error}): is the link up?") from error
        return json.loads(text) if text else None

    def await_answer(self, seconds: float = _ANSWER_S) -> None:
        """Wait until it answers; raises Problem when it does not in time."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                self._ask("GET", "/version")
            except Problem:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_POLL_S)
            else:
                return


@contextmanager
def running(ways: Iterable[Way], round_trip_ms: float, api_port: int) -> Iterator[Toxiproxy]:
    """Run a server on loopback until the block ends; raises Problem as :meth:`Toxiproxy.lay`."""
    if not PROGRAM.binary().is_file():
        PROGRAM.build()
    command = [str(PROGRAM.binary()), "-host", "127.0.0.1", "-port", str(api_port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        server = Toxiproxy(f"http://127.0.0.1:{api_port}")
        server.await_answer()
        server.lay(ways, round_trip_ms)
        yield server
    finally:
        process.terminate()
        process.wait()
