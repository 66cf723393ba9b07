"""What stubs of a proxy have in common: requests and answers are JSON."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Server(ThreadingHTTPServer):
    """Serves at a free port of loopback from when it is made until it is stopped, or its block ends."""

    request_queue_size = 50  # as a proxy's own: the clients of a load come at once

    def __init__(self, handler: Callable[..., BaseHTTPRequestHandler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        # A stop is noticed at the next poll.
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        """End, with the port."""
        self.shutdown()
        self.server_close()

    def __exit__(self, *_: object) -> None:
        self.stop()


class JsonHandler(BaseHTTPRequestHandler):
    """Keeps connections, and says nothing of what it is asked.

    A stub names BaseHTTPRequestHandler beside it, by which linters know that do_GET and the like are meant.
    """

    protocol_version = "HTTP/1.1"
    #: Head and body leave together: apart, the body would wait until the head is acknowledged.
    wbufsize = -1

    def asked(self) -> Any:
        """Return the request's body, None where it has none."""
        return json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"null")

    def answer(self, status: int, document: object) -> None:
        """Answer with a status and a document; bytes are sent as they are."""
        text = document if isinstance(document, bytes) else json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        """Say nothing."""
