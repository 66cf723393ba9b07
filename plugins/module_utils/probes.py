"""What says that an instance does its job: probes by their kinds, each answers a complaint, or None."""

from __future__ import annotations

import base64
import json
import socket
import ssl
import struct
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

from ansible.module_utils import haproxy, untrusted_folder
from ansible.module_utils.journal import missing_step, printed_by
from ansible.module_utils.service_control import Done, run

#: The pause between two probes of an instance that is to become ready.
PROBE_SECONDS = 0.1
#: How long one may wait for its answer.
ANSWER_SECONDS = 5
#: A process that starts and has printed within this time is still at it; how long it may be, in all.
SILENCE_SECONDS = 30
MOST_TIMES = 3
#: What an application may write of its state; the reporter's file has less than 1 KiB.
STATE_BYTES = 64 << 10
#: OpenSSL's X509_V_FLAG_PARTIAL_CHAIN: a certificate that nobody of ``ca`` signed may be trusted by itself.
PARTIAL_CHAIN = 0x80000


class Starting(str):
    """The complaint about a process that has not come so far as to answer: it may be at it still."""

    __slots__ = ()


def systemctl(*arguments: str) -> Done:
    """Run systemctl."""
    return run("systemctl", *arguments)


def main_pid(unit: str) -> str:
    """Return the id of a unit's process, 0 while it has none."""
    return str(systemctl("show", "--property=MainPID", "--value", unit).stdout.strip())


def no_probe(_: dict[str, Any]) -> str | None:
    """Hold at once: an active unit is all that is asked for."""
    return None


def encryption(probe: dict[str, Any]) -> ssl.SSLContext | None:
    """Return how a probe holds a certificate against its CA; None where it speaks plainly."""
    if "ca" not in probe:
        return None
    if probe.get("pinned"):
        # The certificate is the listener's own; only its clients know by which CA and names they take it.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_flags |= PARTIAL_CHAIN
        context.load_verify_locations(probe["ca"])
        return context
    context = ssl.create_default_context(cafile=probe["ca"])
    if "certificate" in probe:
        context.load_cert_chain(probe["certificate"])
    return context


def authorization(probe: dict[str, Any]) -> dict[str, str]:
    """Return the header by which a probe logs in; none where nobody has to."""
    if "user" not in probe:
        return {}
    # As the users' file of the proxy has it: the password, then the roles.
    login = f"{probe['user']}:{probe['login'].rpartition(',')[0]}"
    return {"Authorization": f"Basic {base64.b64encode(login.encode()).decode()}"}


def http_produce(probe: dict[str, Any]) -> str | None:
    """Hold when a produce request through REST is answered with an offset; 200 alone is not enough."""
    body = json.dumps({"records": [{"value": base64.b64encode(b"ready?").decode()}]}).encode()
    headers = {
        "Content-Type": "application/vnd.kafka.binary.v2+json",
        "Accept": "application/vnd.kafka.v2+json",
    }
    headers |= authorization(probe) | ({"Host": probe["host"]} if "host" in probe else {})
    request = urllib.request.Request(  # noqa: S310 - the plan's own http address
        f"{probe['url']}/topics/{urllib.parse.quote(probe['topic'], safe='')}",
        data=body,
        headers=headers,
    )
    try:
        with urllib.request.urlopen(request, timeout=ANSWER_SECONDS, context=encryption(probe)) as answer:  # noqa: S310 - as above
            entry = json.load(answer)["offsets"][0]
    except (OSError, ValueError, LookupError, urllib.error.HTTPError) as error:
        complaint = f"produce to {probe['topic']}: {error}"
        refused = isinstance(getattr(error, "reason", None), ConnectionRefusedError)
        return Starting(complaint) if refused else complaint
    if not isinstance(entry.get("offset"), int) or entry.get("error_code"):
        return f"produce to {probe['topic']} answered {entry}"
    return None


def balancer(probe: dict[str, Any]) -> str | None:
    """Hold when a balancer has a server up and answers a client's request with an offset.

    ``probe`` has what ``haproxy.complaint`` needs, and of the request what ``http_produce`` does, with
    ``front`` for its url. While proxies are ``changing``, a login may be one that not all of them know.
    """
    wrong: str | None = haproxy.complaint(probe)
    if wrong or "front" not in probe:  # a release of a former version knows no request
        return wrong
    wrong = http_produce({**probe, "url": probe["front"]})
    if wrong is None or (probe.get("changing") and "HTTP Error 401" in wrong):
        return None
    return f"a client of {probe['host']} is not served: {wrong}"


def kafka(probe: dict[str, Any]) -> str | None:
    """Hold when a broker answers an ApiVersions request (version 0) without an error."""
    client = b"\xff\xff"  # null client id
    request = struct.pack(">hhi", 18, 0, 1) + client
    try:
        plain = socket.create_connection((probe["host"], int(probe["port"])), timeout=ANSWER_SECONDS)
        context = encryption(probe)
        wrapped = context.wrap_socket(plain, server_hostname=probe["host"]) if context else plain
        with wrapped as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            head = b""
            while len(head) < 10:  # length, correlation id, error code
                piece = connection.recv(10 - len(head))
                if not piece:
                    return "the broker closed the connection"
                head += piece
    except OSError as error:
        complaint = f"{probe['host']}:{probe['port']}: {error}"
        return Starting(complaint) if isinstance(error, ConnectionRefusedError) else complaint
    (error_code,) = struct.unpack(">h", head[8:10])
    return f"ApiVersions answered error {error_code}" if error_code else None


def state_file(probe: dict[str, Any]) -> str | None:
    """Hold when the unit's present process says in its file that it is in the wanted state."""
    pid = main_pid(probe["unit"])
    try:
        found = json.loads(untrusted_folder.read(Path(probe["path"]), STATE_BYTES))
        if str(found["pid"]) != pid:
            return f"{probe['path']} was written by an earlier process"
        if found["state"] != probe["state"]:
            behind = found.get("restoring_records", 0)
            return f"its state is {found['state']}" + (f", {behind} records to restore" if behind else "")
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        return f"{probe['path']} tells no state: {error}"
    return None


def journal(probe: dict[str, Any]) -> str | None:
    """Hold when the process has printed, since it started, a line for each step, one after the other.

    For services that answer to nobody: ``steps`` are pairs, what is waited for and the pattern that shows
    it.
    """
    invocation = systemctl("show", "--property=InvocationID", "--value", probe["unit"]).stdout.strip()
    missing: str | None = missing_step(printed_by(invocation), probe["steps"])
    return missing


PROBES = {
    "none": no_probe,
    "http_produce": http_produce,
    "kafka": kafka,
    "state_file": state_file,
    "journal": journal,
    "haproxy": balancer,
}
