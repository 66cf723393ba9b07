"""Reads from all hosts at once over SSH, with pyinfra."""

from __future__ import annotations

import logging
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from paramiko import Channel, ProxyCommand, SSHException
from pyinfra.api import Config, Inventory, State
from pyinfra.api.exceptions import ConnectError

from kedge.evidence.border.host_output import ERROR_BYTES, nanoseconds, output
from kedge.evidence.border.untrusted import UntrustedError, shown
from verify.collect.clocks import ROUND_TRIPS, RoundTrip
from verify.collect.hosts import Access, become_password, forward
from verify.process import now_us

_CONNECT_S: Final = 10
_COMMAND_S: Final = 60
#: One that answers slowly, command by command, holds the others up no longer than this.
_HOST_S: Final = 180

Result = TypeVar("Result")
#: Runs a command on the host and returns the lines that it printed; raises RemoteError.
Shell = Callable[[str], list[str]]


class RemoteError(Exception):
    """A host could not be reached or did not do as asked; the text says which and why."""


def on_all(
    hosts: Sequence[Access], work: Callable[[str, Shell], Result]
) -> Mapping[str, Result | RemoteError]:
    """Do some work (a function of the host's name and a shell there) on all hosts at once.

    A host that cannot be reached, or on which the work raised RemoteError, has the error as its result.
    """
    # pyinfra's own messages are for its command line; this program says what failed in its own words.
    logging.getLogger("pyinfra").setLevel(logging.CRITICAL)
    inventory = Inventory(([(host.name, _data(host)) for host in hosts], {}))
    state = State(inventory, Config(CONNECT_TIMEOUT=_CONNECT_S))
    by_name = {host.name: host for host in hosts}

    def one(host: Any) -> Result | RemoteError:
        def shell(command: str) -> list[str]:
            try:
                return _printed(host.connector.client, command, by_name[host.name], until)
            except (SSHException, OSError, EOFError, UntrustedError) as error:
                raise RemoteError(f"{host.name}: {shown(error) or type(error).__name__}") from error

        until = time.monotonic() + _HOST_S
        try:
            host.connect(show_errors=False, raise_exceptions=True)
            return work(host.name, shell)
        except ConnectError as error:
            return RemoteError(f"{host.name} cannot be reached over SSH: {shown(error)}")
        except RemoteError as error:
            return error
        except UntrustedError as error:
            return RemoteError(f"{host.name} answers something else: {error}")
        finally:
            host.disconnect()

    started = {host.name: state.pool.spawn(one, host) for host in inventory}
    return {name: greenlet.get() for name, greenlet in started.items()}


def _printed(client: Any, command: str, access: Access, until: float) -> list[str]:
    """Run a command by a channel of its own.

    pyinfra keeps all that a host prints, and asks the person for a password where a host says it wants one.

    Raises:
        SSHException, OSError, EOFError: when there is no answer in time, or the command failed.
        UntrustedError: for more than can be an answer.
    """
    argv = [*access.as_root, "sh", "-c", command]
    until = min(until, time.monotonic() + _COMMAND_S)
    channel: Channel = client.get_transport().open_session(timeout=_CONNECT_S)
    try:
        channel.exec_command(shlex.join(argv))
        if access.become and access.asks:
            channel.sendall(f"{become_password(access.name)}\n".encode())
            channel.shutdown_write()

        def receive(size: int) -> bytes:
            channel.settimeout(max(until - time.monotonic(), 0.01))
            found: bytes = channel.recv(size)
            return found

        lines = output(receive)
        if not channel.status_event.wait(max(until - time.monotonic(), 0.01)):
            raise TimeoutError("it says not how the command ended")
        if channel.exit_status:
            said = channel.recv_stderr(ERROR_BYTES) if channel.recv_stderr_ready() else b""
            raise OSError(shown(said) or "the command failed")
        return lines
    finally:
        channel.close()


def _data(host: Access) -> dict[str, Any]:
    way = forward(host)
    data = {
        "ssh_hostname": host.address,
        "ssh_port": host.port,
        "ssh_user": host.user,
        "ssh_key": host.key,
        "ssh_known_hosts_file": host.known_hosts,
        "ssh_strict_host_key_checking": host.strict,
        "ssh_paramiko_connect_kwargs": {"sock": ProxyCommand(shlex.join(way))} if way else None,
    }
    return {key: value for key, value in data.items() if value is not None}


def round_trips(shell: Shell) -> list[RoundTrip]:
    """Ask the host for its time, several times."""
    trips = []
    for _ in range(ROUND_TRIPS):
        asked = now_us()
        trips.append(RoundTrip(asked, nanoseconds(shell("date +%s%N")) // 1000, now_us()))
    return trips
