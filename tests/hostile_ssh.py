"""An SSH server on loopback that answers every command with what it is given, as a host of somebody else may."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import paramiko

from verify.collect.hosts import Access

#: What a command is answered with: its output, piece by piece, and its status.
Answer = Callable[[str], tuple[Iterator[bytes], int]]


class _Server(paramiko.ServerInterface):
    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        return paramiko.AUTH_SUCCESSFUL

    def get_allowed_auths(self, username: str) -> str:
        return "publickey"

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return paramiko.OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        threading.Thread(target=self._run, args=(channel, command.decode()), daemon=True).start()
        return True

    def _run(self, channel: paramiko.Channel, command: str) -> None:
        output, status = self._answer(command)
        with contextlib.suppress(OSError, EOFError):
            for piece in output:
                channel.sendall(piece)
            channel.send_exit_status(status)
            # Its end, and no close: that could overtake the word that the command was begun.
            channel.shutdown_write()


@contextlib.contextmanager
def ssh_host(name: str, folder: Path, answer: Answer) -> Iterator[Access]:
    """Serve until the end; yields how the host is reached."""
    key = paramiko.RSAKey.generate(2048)
    key.write_private_key_file(str(folder / f"{name}.key"))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        known = folder / f"{name}.known"
        known.write_text(f"[127.0.0.1]:{port} {key.get_name()} {key.get_base64()}\n")
        transports: list[paramiko.Transport] = []

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    transport = paramiko.Transport(listener.accept()[0])
                    transports.append(transport)
                    transport.add_server_key(key)
                    transport.start_server(server=_Server(answer))

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield Access(
                name, "127.0.0.1", port, "u", str(folder / f"{name}.key"), str(known), "yes", become=False
            )
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            for transport in transports:
                transport.close()
            thread.join(5)
