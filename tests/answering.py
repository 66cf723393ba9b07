"""What doubles of a proxy have in common: requests and answers are JSON."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler
from typing import Any


class JsonHandler(BaseHTTPRequestHandler):
    """Keeps connections, and says nothing of what it is asked.

    A double names BaseHTTPRequestHandler beside it, by which linters know that do_GET and the like are meant.
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
