"""Reads from all hosts at once over SSH, with pyinfra."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from pyinfra.api import Config, Inventory, State
from pyinfra.api.exceptions import ConnectError, PyinfraError

from verify.collect.clocks import RoundTrip
from verify.collect.hosts import Access
from verify.process import now_us

_CONNECT_S: Final = 10
_COMMAND_S: Final = 60
_ROUND_TRIPS: Final = 15

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
    become = {host.name: host.become for host in hosts}

    def one(host: Any) -> Result | RemoteError:
        def shell(command: str) -> list[str]:
            try:
                done, output = host.run_shell_command(command, _sudo=become[host.name], _timeout=_COMMAND_S)
            except (PyinfraError, OSError, EOFError) as error:
                raise RemoteError(f"{host.name}: {error}") from error
            if not done:
                raise RemoteError(f"{host.name}: {' '.join(output.stderr_lines) or 'the command failed'}")
            return list(output.stdout_lines)

        try:
            host.connect(show_errors=False, raise_exceptions=True)
            return work(host.name, shell)
        except ConnectError as error:
            return RemoteError(f"{host.name} cannot be reached over SSH: {error}")
        except RemoteError as error:
            return error
        finally:
            host.disconnect()

    started = {host.name: state.pool.spawn(one, host) for host in inventory}
    return {name: greenlet.get() for name, greenlet in started.items()}


def _data(host: Access) -> dict[str, Any]:
    data = {
        "ssh_hostname": host.address,
        "ssh_port": host.port,
        "ssh_user": host.user,
        "ssh_key": host.key,
        "ssh_known_hosts_file": host.known_hosts,
        "ssh_strict_host_key_checking": host.strict,
    }
    return {key: value for key, value in data.items() if value is not None}


def round_trips(shell: Shell) -> list[RoundTrip]:
    """Ask the host for its time, several times."""
    trips = []
    for _ in range(_ROUND_TRIPS):
        asked = now_us()
        (text,) = shell("date +%s%N")
        trips.append(RoundTrip(asked, int(text) // 1000, now_us()))
    return trips
