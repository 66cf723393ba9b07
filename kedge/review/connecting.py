"""How a process reaches its brokers, and clients reach it: protocols, logins and listeners."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from kedge.plan.findings import Finding, Severity, Subject
from kedge.plan.inventory.clusters import same_cluster
from kedge.review.as_inventory import PRODUCER, covers, own_values
from kedge.review.containers import LOOPBACK
from kedge.review.kinds import variable_of
from kedge.review.processes import RunningProcess, clusters_of
from kedge.review.reading import Value, comes_later
from kedge.services.rest.distributions import DISTRIBUTIONS

_PROTOCOL: Final = "security.protocol"
_MECHANISM: Final = "sasl.mechanism"
_JAAS: Final = "sasl.jaas.config"
_SERVICE: Final = "sasl.kerberos.service.name"
#: The mechanism of a login module, by a word of its name.
_MODULES: Final = {"Plain": "PLAIN", "Scram": "SCRAM-SHA-512", "OAuth": "OAUTHBEARER"}
#: What names a configuration for all clients of a JVM.
_FLAG: Final = "java.security.auth.login.config"
#: What keys of clients begin with, of whichever process.
_CLIENTS: Final = ("", "client.", "admin.", "consumer.", "producer.", "main.consumer.", "restore.consumer.",
                   "global.consumer.")  # fmt: skip
_LOCAL_LISTENER: Final = re.compile(rf"(?:\w+://)?(?:{LOOPBACK.pattern})(?::(\d+))?")
_ANY: Final = "0.0.0.0"  # noqa: S104 - what a person may write


def check_connections(process: RunningProcess) -> Iterator[Finding]:
    """Yield what keeps a process from its brokers, or clients from the process."""
    yield from _addresses(process)
    yield from _plaintext(process)
    yield from _logins(process)
    for key in ("listeners", "http.host", "kafka.rest.listeners"):
        value = process.values.get(key)
        listens = [_LOCAL_LISTENER.fullmatch(one.strip()) for one in value.text.split(",")] if value else []
        ports = [one[1] or "" for one in listens if one]
        outside = (out.text for inside, out in (process.ports or {}).items()
                   if any(covers(inside, one) or not one for one in ports))  # fmt: skip
        if value and (published := next(outside, "")) and len(ports) == len(listens):
            yield Finding(
                "error",
                "review.loopback",
                value.place,
                f"{key} is {value.text}, where only its own container reaches it: nothing answers at the "
                f"published port {published}",
                f"write {key}: {LOOPBACK.sub(_ANY, value.text)}",
                Subject(keys=(key,)),
            )


#: ClientUtils and Utils.HOST_PORT_PATTERN of Kafka's clients.
_ADDRESS: Final = re.compile(r"(?:[\w\-%.]*://)?\[?[\w\-%.:]*]?:[0-9]+", re.ASCII)
_MOST_PORT: Final = 65_535
_BROKERS_PORT: Final = 9092
_NAME: Final = re.compile(r"(?:[\w\-%.]*://)?(?:\[[\w%.:]+]|[\w\-%.]+)", re.ASCII)


def _addresses(process: RunningProcess) -> Iterator[Finding]:
    """Yield brokers that are no HOST:PORT, with which no client starts."""
    proxy = DISTRIBUTIONS.get(process.kind)
    begins = [f"{name}." for name in clusters_of(process)] if process.kind == "mm2" else _CLIENTS
    for key, value in own_values(process).items():
        bare = key.removeprefix(PRODUCER)
        begin = bare.removeprefix(proxy.keys.prefix if proxy else "").removesuffix("bootstrap.servers")
        if not bare.endswith("bootstrap.servers") or begin not in begins or comes_later(value.text):
            continue
        named = [one.strip() for one in value.text.split(",")]
        wrong = [one for one in named if one and not _ADDRESS.fullmatch(one)]
        yield from _ports(key, value, named)
        if wrong:
            there = [_address(one) for one in re.split(r"[,;\s]+", value.text) if one]
            of = ".producer_settings" if bare != key else ""
            # Clients of 3.9 take what ends with an address, and leave out what stands before it.
            ends = [end for one in wrong if _ADDRESS.fullmatch(end := re.split(r"[^\w\-%.:[\]]", one)[-1])]
            taken = len(ends) == len(wrong)
            refuse = f"clients of 4.1 refuse to start, and those of 3.9 read {ends[0]} alone" if taken else (
                "its clients refuse to start")  # fmt: skip
            yield Finding(
                "warning" if taken else "error",
                "review.brokers",
                value.place,
                f"{bare} has {wrong[0]}, which is no HOST:PORT: {refuse}",
                f"write {bare}={','.join(there)}, or the port at which its brokers listen",
                Subject(of, (bare,)),
            )


def _ports(key: str, value: Value, named: Iterable[str]) -> Iterator[Finding]:
    """Yield brokers at a port that there is not, or at which nothing listens."""
    bare = key.removeprefix(PRODUCER)
    ports = [one.rpartition(":")[2] for one in named if _ADDRESS.fullmatch(one)]
    beyond = [port for port in ports if not 0 < int(port[:10]) <= _MOST_PORT]
    if not beyond:
        return
    above = int(beyond[0][:10]) > 0
    what = f"has port {beyond[0]}, and {_MOST_PORT} is the last: its clients refuse to start" if above else (
        "has port 0, at which no broker listens")  # fmt: skip
    fix = f"write the port at which its brokers listen, such as {_BROKERS_PORT}"
    of = Subject(".producer_settings" if bare != key else "", (bare,))
    yield Finding("error", "review.brokers", value.place, f"{bare} {what}", fix, of)


def _address(text: str) -> str:
    """Return an address as a client takes it, at the port of brokers where none is written."""
    text = re.sub(r"^[^\w[]+", "", text)
    if whole := _ADDRESS.match(text):
        return whole[0]
    name = _NAME.match(text)
    return f"{name[0] if name else 'HOST'}:{_BROKERS_PORT}"


def with_shared_ids(processes: Iterable[RunningProcess]) -> list[RunningProcess]:
    """Return the processes, each REST proxy with a finding where an earlier one has its id already."""
    found: list[RunningProcess] = []
    for one in processes:
        proxy = DISTRIBUTIONS.get(one.kind)
        own = one.values.get(proxy.identity) if proxy else None
        if proxy and own and own.text and not comes_later(own.text):
            other = next((
                p for p in found
                if p.kind == one.kind and (value := p.values.get(proxy.identity)) and value.text == own.text
                and _may_share(one, p, f"{proxy.keys.prefix}bootstrap.servers")
            ), None)  # fmt: skip
            if other:
                name = variable_of(one.variables, proxy.identity) if one.variables else proxy.identity
                place = other.where.removeprefix(one.where.partition(",")[0]).strip(", ")
                what = f"{name} is {own.text} in {place} too: names of consumers do not tell the two apart"
                fix = f"write a {name} of its own for each"
                shared = Finding("warning", "rest.identity", own.place, what, fix)
                one = replace(one, findings=(*one.findings, shared))  # noqa: PLW2901 - the same process
        found.append(one)
    return found


def _may_share(one: RunningProcess, other: RunningProcess, key: str) -> bool:
    """Return whether two processes may be of one cluster: nothing says that they are not."""
    named = [p.values[key].text if key in p.values else "" for p in (one, other)]
    return not all(named) or any(map(comes_later, named)) or same_cluster(*named)


def check_ports(process: RunningProcess) -> Iterator[Finding]:
    """Yield a published port of a REST proxy's container behind which nothing listens."""
    said = process.values.get("listeners")
    unset = _UNSET_PORT if said is None and process.starts and not process.lacking else ""
    listens = re.findall(r":(\d+)\b(?=[/,\s]|$)", unset or (said.text if said else ""))
    ports = process.ports or {}
    if said and comes_later(said.text):
        return
    if not listens or any(covers(inside, one) for inside in ports for one in listens):
        return
    others = [value.text for value in process.environment.values()]
    for inside, outside in ports.items():
        # JMX and an agent have ports of their own.
        if not inside.isdecimal() or any(re.search(rf"\b{inside}\b", text) for text in others):
            continue
        begin = f"{outside.text}:" if outside.text else ""
        yield Finding(
            "error",
            "review.ports",
            outside.place,
            f"port {inside} of the container is published, and the proxy listens on {', '.join(listens)}: "
            "nothing answers there",
            f"write {begin}{listens[0]}",
        )


#: Where a proxy listens by default.
_UNSET_PORT: Final = "http://0.0.0.0:8082"


def _logins(process: RunningProcess) -> Iterator[Finding]:
    """Yield logins that a client refuses, or that it never sends."""
    own = own_values(process)
    texts = {key: "" if comes_later(value.text) else value.text.strip() for key, value in own.items()}
    flags = [value.text for key, value in process.environment.items() if key.endswith(("OPTS", "OPTIONS"))]
    for begin in _begins(process, own):
        wide = _wide(process, begin)
        names = [next((name for one in wide if (name := f"{one}{key}") in own), f"{wide[0]}{key}")
                 for key in (_PROTOCOL, _MECHANISM, _JAAS)]  # fmt: skip
        protocol, mechanism, jaas = map(texts.get, names)
        shown = [name.removeprefix(PRODUCER) for name in names]
        # Of what goes to several clients, each may have more of its own.
        apart = {key for key in own for last in (_PROTOCOL, _JAAS) if key.endswith(last)} - set(names)
        # What a broker has for a listener is no client's.
        apart -= {key for key in apart if key.startswith((*_others(process, wide), "listener.name."))}
        speaks = "PLAINTEXT" if protocol is None else protocol.upper()
        if jaas and not jaas.endswith(";") and speaks.startswith("SASL_"):
            what = f"{shown[2]} does not end with a semicolon: its client refuses to start"
            yield _about_login("error", what, f"end the value of {shown[2]} with ;", names[2])
        service = "serviceName" in (jaas or "") or any(key.endswith(_SERVICE) for key in own)
        if jaas and speaks.startswith("SASL_") and mechanism in (None, "GSSAPI") and not (service or apart):
            meant = next(
                (one for word, one in _MODULES.items() if word in jaas), "the one of its login module"
            )
            said = "is GSSAPI" if mechanism else "is not set, and GSSAPI by default"
            what = f"{shown[1]} {said}, and no {_SERVICE} is: its client refuses to start"
            yield _about_login(
                "error", what, f"write {shown[1]}={meant}", names[1 if mechanism else 2], shown[1]
            )
        unused = next((at for at in (2, 1) if names[at] in own), None)
        if speaks in ("PLAINTEXT", "SSL") and unused and not (protocol is None and apart):
            by = " by default" if protocol is None else ""
            unless_plain = "" if speaks == "SSL" else ", or SASL_PLAINTEXT where its brokers speak no TLS"
            yield _about_login(
                "warning",
                f"{shown[unused]} is set, and {shown[0]} is {speaks}{by}: no login is sent",
                f"write {shown[0]}=SASL_SSL{unless_plain}, or take {shown[unused]} out",
                names[unused if protocol is None else 0],
                shown[0 if protocol is None else unused],
            )
        named = any(_FLAG in text for text in flags) or mechanism in ("", "OAUTHBEARER")
        if speaks.startswith("SASL_") and jaas is None and not named and not apart:
            unless = "" if flags else f", unless a flag -D{_FLAG} names a file with it"
            what = f"{shown[0]} is {speaks}, and {shown[2]} is not set: its client refuses to start{unless}"
            yield _about_login(
                "error" if flags else "warning", what, f"write {shown[2]}, with the login", names[0], shown[2]
            )


def _begins(process: RunningProcess, own: Mapping[str, object]) -> list[str]:
    """Return what keys of logins begin with, of clients; of MirrorMaker 2, those of each cluster."""
    found = [key.removesuffix(last) for last in (_PROTOCOL, _MECHANISM, _JAAS) for key in own
             if key.endswith(last)]  # fmt: skip
    found += [f"{end}." for end in (clusters_of(process) if process.kind == "mm2" else ())]
    return [begin for begin in dict.fromkeys(found) if _wide(process, begin)]


def _wide(process: RunningProcess, begin: str) -> tuple[str, ...]:
    """Return what keys may begin with that go to a client, its own first; nothing where it is no client's."""
    proxy = DISTRIBUTIONS.get(process.kind)
    if proxy:
        prefix = proxy.keys.prefix
        shared = tuple(f"{prefix}{one}" for one in proxy.keys.shared if prefix or one)
        clients = {f"{prefix}{one}" for one in _CLIENTS if prefix or one} | set(shared)
    elif process.kind == "mm2":
        end = next((f"{end}." for end in clusters_of(process) if begin.startswith(f"{end}.")), None)
        shared = (end or "", "")
        clients = {f"{end}{one}" for one in _CLIENTS} if end else set()
    elif begin.startswith(PRODUCER):
        shared, clients = (), {PRODUCER}
    else:
        shared, clients = ("",), set(_CLIENTS)
    return tuple(dict.fromkeys((begin, *shared))) if begin in clients else ()


def _others(process: RunningProcess, wide: Sequence[str]) -> tuple[str, ...]:
    """Return what keys begin with that are for other clusters of a MirrorMaker 2."""
    named = clusters_of(process) if process.kind == "mm2" else ()
    return tuple(begin for end in named if (begin := f"{end}.") not in wide)


def _about_login(severity: Severity, message: str, fix: str, key: str, other: str = "") -> Finding:
    return Finding(
        severity, "review.login", "", message, fix, Subject(keys=(key,), named=(other,) if other else ())
    )


#: Ports at which a managed cluster speaks TLS, and takes nothing else: what of a name says so.
_ENCRYPTED: Final = re.compile(
    r"\.amazonaws\.com:(9094|9096|9098|919[468])\b|\.confluent\.cloud:9092\b|\.servicebus\.windows\.net:9093\b"
)


def _plaintext(process: RunningProcess) -> Iterator[Finding]:
    """Yield brokers of a managed cluster that speak TLS, where no protocol is set."""
    own = own_values(process)
    if any(key.endswith("security.protocol") for key in own):
        return
    for key, value in own.items():
        if key.endswith("bootstrap.servers") and (port := _ENCRYPTED.search(value.text)):
            place = f"{key.removesuffix('bootstrap.servers').rpartition(':')[2]}security.protocol"
            proxy = DISTRIBUTIONS.get(process.kind)
            place = f"{proxy.keys.shared[0]}{place}" if proxy and not proxy.keys.prefix else place
            said = "SSL" if port[1] in ("9094", "9194") else "SASL_SSL"
            yield Finding(
                "error",
                "review.tls",
                value.place,
                f"{key} names brokers at a port that speaks TLS, and security.protocol is not set: its "
                "clients speak plain text, and reach none",
                f"write {place}={said}, with the login that the cluster asks for",
                Subject(keys=(key,), named=(place,)),
            )
