"""Reads haproxy.cfg: what HAProxy refuses of it, and what it takes and nobody means."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Final

from kedge.evidence.nearest import nearest
from kedge.keys.catalogue import entries
from kedge.plan.findings import Finding, Severity, Subject
from kedge.review.reading import Value
from kedge.review.reading import words as split

_SECTION: Final = re.compile(
    r"(global|defaults|frontend|backend|listen|peers|resolvers|userlist|program|mailers|cache|fcgi-app|ring"
    r"|http-errors|log-forward|log-profile|crt-store|traces|acme|healthcheck)(?:\s+(.*))?"
)
_PROXIES: Final = ("defaults", "frontend", "backend", "listen")
#: The version whose words the catalogue has, with those of newer ones.
VERSION: Final = "2.6"
#: As haproxy -c names them (2.6), and one of newer versions.
_TIMEOUTS: Final = ("client", "server", "connect", "check", "queue", "http-keep-alive", "http-request",
                    "tunnel", "tarpit", "client-fin", "server-fin", "client-hs")  # fmt: skip
_TIME: Final = re.compile(r"(\d+)(us|ms|s|m|h|d)?")
_MS: Final = {"us": 0.001, "ms": 1, None: 1, "s": 1e3, "m": 6e4, "h": 3.6e6, "d": 8.64e7}
_MOST_MS: Final = 2**31 - 1
#: A time without a unit is in milliseconds; nobody writes so few of them.
_FEW_MS: Final = 1_000
#: What keeps requests from a dead server: to ask it, or to follow the check of another one.
_CHECKED: Final = {"check", "agent-check", "track", "no-check", "disabled"}
#: What stands before a keyword.
_BEFORE: Final = ("no", "default")
#: What HAProxy has no more: the old word, and what to write for it.
_GONE: Final = {
    "appsession": "stick-table", "block": "http-request deny",
    "cliexp": "http-request replace-path", "srvexp": "http-response replace-header",
    "clitimeout": "timeout client", "contimeout": "timeout connect", "srvtimeout": "timeout server",
    "redisp": "option redispatch", "redispatch": "option redispatch", "nbproc": "nbthread",
}  # fmt: skip
_GONE_RULE: Final = re.compile(r"(req|rsp)i?(add|allow|del|deny|pass|rep|tarpit)")
_RULES: Final = {"add": "add-header", "del": "del-header", "rep": "replace-header", "pass": "allow"}
#: Keywords, and options of servers, of which a word that is no number is 0.
_NUMBERS: Final = ("maxconn", "retries", "fullconn", "maxqueue", "minconn", "weight", "port")
_TIMES: Final = ("inter", "fastinter", "downinter", "slowstart", "agent-inter")
_POSITIVE: Final = ("fall", "rise", "id")
_PORT: Final = re.compile(r"(?<=:)\d+(?:-\d+)?$")
#: What stands before an address with a port.
_OF_NETWORK: Final = re.compile(r"(ip|tcp|udp|quic|mptcp)v?[46]?@")
_RANGE: Final = re.compile(r"(?:(\d{1,5})-)?(\d{1,5})")
_MOST_WEIGHT: Final = 256
_MOST_PORT: Final = 65_535


@dataclass
class Section:
    """A section of haproxy.cfg: each directive with its words and its line."""

    kind: str
    name: str
    lines: list[tuple[list[str], str]] = field(default_factory=list)

    def of(self, *begin: str) -> Value | None:
        """Return what stands after these words; of several, the last."""
        found = None
        for words, place in self.lines:
            if tuple(words[: len(begin)]) == begin:
                found = Value(" ".join(words[len(begin) :]), place)
        return found

    @property
    def servers(self) -> list[tuple[list[str], str]]:
        """Its lines of servers, and of what makes several of them."""
        return [(words, place) for words, place in self.lines if words[0] in ("server", "server-template")]

    @property
    def server_count(self) -> int:
        """How many servers it has."""
        return sum(1 if words[0] == "server" else len(_numbered(words)) for words, _ in self.servers)


def _numbered(words: Sequence[str]) -> range:
    """Return the numbers of the servers that a server-template makes; none where it is wrong."""
    of = _RANGE.fullmatch(words[2]) if len(words) > 2 else None
    return range(int(of[1] or 1), int(of[2]) + 1) if of else range(0)


def sections_of(text: str, name: str) -> Iterator[Section]:
    """Yield the sections of a file."""
    section: Section | None = None
    for number, raw in enumerate(text.split("\n"), 1):
        line = re.split(r"(?<!\\)#", raw, maxsplit=1)[0].strip()
        if not line:
            continue
        if match := _SECTION.fullmatch(line):
            if section:
                yield section
            section = Section(match[1], (match[2] or match[1]).split()[0].strip("\"'"))
        elif section and (words := split(line)):
            section.lines.append((words, f"{name}:{number}"))
    if section:
        yield section


def check_file(sections: Sequence[Section], backends: Iterable[str]) -> Iterator[Finding]:
    """Yield what haproxy -c refuses; ``backends`` are the names of all that there are."""
    for section in sections:
        deep = 0
        for words, place in section.lines:
            # What an environment or a condition decides is not known here.
            deep += {".if": 1, ".endif": -1}.get(words[0], 0)
            known = not deep and words[0][0] != "." and not any("$" in word for word in words)
            if known and section.kind in ("global", *_PROXIES):
                found = [
                    *_unknown(section, words),
                    *(_of_server(words) if section.kind in _PROXIES else ()),
                    *(_of_bind(words) if words[0] == "bind" and section.kind in _PROXIES else ()),
                ]
                yield from (_of_balancer(severity, place, what, fix) for severity, what, fix in found[:1])
            if section.kind in _PROXIES:
                yield from _of_proxy(words, place, backends)
        yield from _twice(section)


#: Severity, what is wrong, and what to write.
_Said = tuple[Severity, str, str]


@cache
def _words(kind: str) -> dict[str, int]:
    """Return what HAProxy knows of a kind, each with how many words follow it; -1 for any number."""
    found = {}
    for word in entries("haproxy", VERSION)[kind].removeprefix("= ").split():
        name, _, count = word.partition("+")
        found[name] = -1 if count == "?" else int(count or 0)
    return found


def _refuses(what: str) -> str:
    return f"{what}: HAProxy refuses the file"


def _misspelt(kind: str, word: str, known: Iterable[str], where: str = "") -> _Said:
    near = nearest(word, sorted(known), 0.7)
    fix = f"did you mean {near}?" if near else f"take {word} out, or correct it"
    return "error", f"HAProxy knows no {kind} {word}{where}, and refuses the file", fix


def _unknown(section: Section, words: Sequence[str]) -> Iterator[_Said]:
    """Yield a keyword that no version has, or has no more, and an option, a mode and a balance."""
    word, *more = words[1:] if words[0] in _BEFORE and len(words) > 1 else words
    kind = "global" if section.kind == "global" else "proxy"
    rule = _GONE_RULE.fullmatch(word)
    if kind == "proxy" and rule:
        begin = "http-request" if rule[1] == "req" else "http-response"
        fix = f"write {begin} {_RULES.get(rule[2], rule[2])}"
        yield "error", _refuses(f"{word} is no keyword since HAProxy 2.1"), fix
    elif word in _GONE:
        yield "error", _refuses(f"{word} is no keyword since HAProxy 2.5"), f"write {_GONE[word]}"
    elif word not in _words(kind):
        yield _misspelt("keyword", word, _words(kind), f" in {section.kind}")
    elif word in ("option", "mode", "balance") and more and kind == "proxy":
        name = more[0].partition("(")[0]
        if name not in _words(word):
            yield _misspelt(word, name, _words(word))
    elif word in _NUMBERS and more and not re.fullmatch(r"\d+", more[0]):
        what = f"{word} is {more[0]}, which is no number: HAProxy reads 0"
        yield "warning", what, f"write {word} and a number"


def _options(kind: str, words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the options of a server or a bind, each with the word behind it; one that none is, with '?'."""
    at = 0
    while at < len(words):
        follow = _words(kind).get(words[at].partition("(")[0])
        yield words[at], "?" if follow is None else words[at + 1] if follow and at + 1 < len(words) else ""
        if follow is None or follow < 0:
            return
        at += 1 + follow


def _of_server(words: Sequence[str]) -> Iterator[_Said]:
    """Yield what is wrong with a line of servers."""
    named = {"server": 3, "server-template": 4, "default-server": 1}.get(words[0])
    if named is None:
        return
    name = words[1] if len(words) > 1 and named > 1 else words[0]
    if len(words) < named:
        says = "server NAME ADDRESS:PORT" if named == 3 else "server-template NAME COUNT ADDRESS:PORT"
        yield "error", _refuses(f"{words[0]} {name} has no address"), f"write {says}"
        return
    if words[0] == "server-template" and not _numbered(words):
        what = f"server-template {name} has {words[2]}, which is no count and no range"
        yield "error", _refuses(what), f"write server-template {name} 3, or 1-3, and the address"
    if named > 1 and (port := _wrong_port(words[named - 1])):
        yield "error", _refuses(f"server {name} has port {port}"), f"write a port up to {_MOST_PORT}"
    for option, value in _options("server", words[named:]):
        of = f"{option} of {name}"
        if value == "?":
            yield _misspelt("option", option, _words("server"), f" of server {name}")
        elif option in _TIMES and not _ms(value):
            yield "error", _refuses(f"{of} is {value or 'empty'}, which is no time"), f"write {option} 2s"
        elif option in _POSITIVE and not re.fullmatch(r"0*[1-9]\d*", value):
            yield "error", _refuses(f"{of} is {value or 'empty'}"), f"write {option} and a number above 0"
        elif option == "weight" and value.isdecimal() and int(value[:10]) > _MOST_WEIGHT:
            yield "error", _refuses(f"{of} is {value}"), f"write weight and a number up to {_MOST_WEIGHT}"
        elif option in _NUMBERS and not value.isdecimal():
            what = f"{of} is {value or 'empty'}, which is no number: HAProxy reads 0"
            yield "warning", what, f"write {option} and a number"


def _of_bind(words: Sequence[str]) -> Iterator[_Said]:
    """Yield what is wrong with a line of a listener."""
    if len(words) == 1:
        yield "error", _refuses("bind has no address"), "write bind :8080, or another port"
        return
    for address in words[1].split(","):
        local = address.startswith("/") or ("@" in address and not _OF_NETWORK.match(address))
        if not local and not re.search(r":\d+(-\d+)?$", address):
            yield "error", _refuses(f"bind {address} has no port"), f"write bind {_with_port(address)}"
        elif not local and (port := _wrong_port(address)):
            yield "error", _refuses(f"bind has port {port}"), f"write a port up to {_MOST_PORT}"
    for option, value in _options("bind", words[2:]):
        if value == "?":
            yield _misspelt("option", option, _words("bind"), " of bind")


def _with_port(address: str) -> str:
    return f":{address}" if address.isdecimal() else f"{address.rstrip(':')}:8080"


def _wrong_port(address: str) -> str:
    port = _PORT.search(address)
    return port[0] if port and any(int(one[:9]) > _MOST_PORT for one in port[0].split("-")) else ""


def _ms(text: str) -> float | None:
    """Return a time in milliseconds, at least what counts as one; None where it is none, or too long."""
    time = _TIME.fullmatch(text)
    ms = int(time[1][:18]) * _MS[time[2]] if time else None
    return None if ms is None or ms > _MOST_MS else ms or 1


def _of_proxy(words: Sequence[str], place: str, backends: Iterable[str]) -> Iterator[Finding]:
    """Yield times that are none, and backends that are not there."""
    name = words[1] if len(words) > 1 else ""
    if words[0] == "timeout" and name not in _TIMEOUTS:
        near = nearest(name, _TIMEOUTS)
        fix = f"did you mean timeout {near}?" if near else f"write one of {', '.join(_TIMEOUTS)}"
        yield _of_balancer("error", place, f"HAProxy knows no timeout {name}, and refuses the file", fix)
    elif words[0] == "timeout" and not _ms(time := " ".join(words[2:])) and "$" not in time:
        long = bool(_TIME.fullmatch(time))
        what = f"timeout {name} is {time or 'empty'}, which is {'more than 24 days' if long else 'no time'}"
        fix = f"write timeout {name} 30s, or another number with its unit"
        yield _of_balancer("error", place, _refuses(what), fix)
    elif (
        words[0] in ("default_backend", "use_backend")
        and not re.search(r"[%$]", name)
        and (name not in backends)
    ):
        near = nearest(name, backends)
        fix = f"did you mean {near}?" if near else f"write backend {name}, or the name of one that is there"
        what = f"{words[0]} is {name}, and there is no such backend"
        yield _of_balancer("error", place, _refuses(what), fix)


def _twice(section: Section) -> Iterator[Finding]:
    """Yield a server whose name another one has, of a template or by itself."""
    names: dict[str, str] = {}
    for words, place in section.servers:
        numbers = _numbered(words) if words[0] == "server-template" else [""]
        mine = [f"{words[1]}{number}" for number in numbers] if len(words) > 1 else []
        if two := next((name for name in mine if name in names), None):
            what = f"server {two} is in line {names[two].rpartition(':')[2]} of {section.name} too"
            yield _of_balancer("error", place, _refuses(what), "give each server a name of its own")
        names = dict.fromkeys(mine, place) | names


#: Microseconds of a unit of time; a number alone has milliseconds.
_UNITS_US: Final = {
    "us": 1,
    "ms": 1_000,
    "s": 10**6,
    "m": 60 * 10**6,
    "h": 3_600 * 10**6,
    "d": 86_400 * 10**6,
}


def same(one: str, other: str) -> bool:
    """Return whether two values of HAProxy say the same, such as 1m and 60s."""
    return [*map(_meant, one.split())] == [*map(_meant, other.split())]


def _meant(word: str) -> str | int:
    time = _TIME.fullmatch(word)
    return int(time[1]) * _UNITS_US[time[2] or "ms"] if time else word


#: Words of retry-on after which a request may have been taken already; configuration manual, 4.2.
_SENT_AGAIN: Final = re.compile(r"all-retryable-errors|(empty|junk)-response|response-timeout|5\d\d")


def check_risks(sections: Sequence[Section], backends: Sequence[Section]) -> Iterator[Finding]:
    """Yield what HAProxy takes and nobody means: milliseconds for seconds, servers that it never asks."""
    for words, place in _lines([s for s in sections if s.kind != "backend" or s in backends]):
        name, text = f"timeout {''.join(words[1:2])}", " ".join(words[2:]) if words[0] == "timeout" else ""
        if words[0] == "stick-table" and "expire" in words[:-1]:
            name, text = "expire", words[words.index("expire") + 1]
        time = _TIME.fullmatch(text)
        if time and not time[2] and 0 < int(time[1][:10]) < _FEW_MS:
            what = f"{name} is {time[1]}: without a unit that is {time[1]} ms"
            fix = f"write {name} {time[1]}s, or {time[1]}ms if you mean that"
            yield _of_balancer("warning", place, what, fix, name)
    wide = [s for s in sections if s.kind == "defaults"]
    once = any("disable-l7-retry" in words for words, _ in _lines(sections))
    for words, place in () if once else _lines([*wide, *backends]):
        if words[0] == "retry-on" and (twice := [word for word in words[1:] if _SENT_AGAIN.fullmatch(word)]):
            what = f"retry-on {twice[0]}: a produce request that was taken may be sent again: records twice"
            yield _of_balancer("warning", place, what, "write retry-on conn-failure", "retry-on")
    for backend in backends:
        if any(w[0] == "default-server" and "check" in w for w, _ in _lines([*wide, backend])):
            continue
        dead = [(words, place) for words, place in backend.servers if not _CHECKED & set(words)]
        if dead and backend.server_count > 1:
            more = f" and {len(dead) - 1} more" if len(dead) > 1 else ""
            first = f"{' '.join(dead[0][0][1:2])}{more} of {backend.name}"
            what = f"{first} without check: a dead instance gets requests"
            fix = f"write check behind each server, or default-server check before them in {backend.name}"
            yield _of_balancer("warning", dead[0][1], what, fix)


def _lines(sections: Iterable[Section]) -> Iterator[tuple[list[str], str]]:
    """Yield the lines of sections that have timeouts and backends."""
    for section in sections:
        yield from section.lines if section.kind in _PROXIES else ()


def _of_balancer(severity: Severity, place: str, message: str, fix: str, *keys: str) -> Finding:
    return Finding(severity, "review.balancer", place, message, fix, Subject(keys=keys))
