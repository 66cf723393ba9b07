"""A token endpoint on loopback, which gives a signed token for an id and its secret, as OpenID Connect asks."""

from __future__ import annotations

import base64
import http.server
import json
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from tests.answering import JsonHandler

_KEY: Final = "kedge-test"
_VALID_S: Final = 600


@dataclass(frozen=True)
class TokenEndpoint:
    """Where tokens are given, where the keys are that tell them, and for whom there was one."""

    url: str
    keys: Path
    given: list[str]


def _text(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).decode().rstrip("=")


def _number(value: int) -> str:
    return _text(value.to_bytes((value.bit_length() + 7) // 8, "big"))


def _token(key: rsa.RSAPrivateKey, client: str) -> str:
    now = int(time.time())
    claims = {
        "sub": client,
        "iat": now,
        "exp": now + _VALID_S,
        "scope": "kafka",
        "iss": "kedge",
        "aud": "kafka",
    }
    head = {"alg": "RS256", "typ": "JWT", "kid": _KEY}
    signed = ".".join(_text(json.dumps(part).encode()) for part in (head, claims))
    return f"{signed}.{_text(key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256()))}"


@contextmanager
def token_endpoint(folder: Path, certificate: Path, secrets: Mapping[str, str]) -> Iterator[TokenEndpoint]:
    """Serve tokens until the block ends; ``certificate`` is a file with the server's key and certificate."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    public = key.public_key().public_numbers()
    jwk = {
        "kty": "RSA",
        "use": "sig",
        "alg": "RS256",
        "kid": _KEY,
        "n": _number(public.n),
        "e": _number(public.e),
    }
    keys = folder / "keys.json"
    keys.write_text(json.dumps({"keys": [jwk]}))
    given: list[str] = []

    class Endpoint(JsonHandler, http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            login = self.headers.get("Authorization", "").removeprefix("Basic ")
            client, _, secret = base64.b64decode(login).decode().partition(":")
            if not client or secrets.get(client) != secret:
                self.answer(401, {"error": "invalid_client"})
                return
            given.append(client)
            self.answer(
                200, {"access_token": _token(key, client), "token_type": "Bearer", "expires_in": _VALID_S}
            )

        def send_response(self, code: int, message: str | None = None) -> None:
            super().send_response(code, message)
            self.send_header("Content-Type", "application/json")

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield TokenEndpoint(f"https://127.0.0.1:{server.server_port}/token", keys, given)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
