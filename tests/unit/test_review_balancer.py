"""What a review says of a HAProxy's file: what haproxy -c refuses, and what it takes and nobody means."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from kedge.review.command import review
from kedge.review.haproxy_file import same

FILE = (
    "global\n  maxconn 100\ndefaults\n  mode http\n  timeout connect 5s\n  timeout client 30s\n"
    "  timeout server 30s\nfrontend f\n  bind :8080\n  default_backend rest\nbackend rest\n  balance source\n"
    "  server r1 127.0.0.1:8082 check\n  server r2 127.0.0.1:8083 check\n"
)
REFUSED = "HAProxy refuses the file"
CASES = [
    (("server 30s", "server 30"), "warning 7: timeout server is 30: without a unit that is 30 ms; "
     "write timeout server 30s, or 30ms if you mean that"),
    (("server 30s", "server 1000"), None),
    (("server 30s", "server 30ms"), None),
    (("server 30s", "server 30s\n  timeout check 0"), None),
    (("server 30s", 'server "30s" # 30'), None),
    (("server 30s", 'server "${T}"'), None),
    (("server 30s", "server 30x"), f"error 7: timeout server is 30x, which is no time: {REFUSED}; "
     "write timeout server 30s, or another number with its unit"),
    (("server 30s", "server"), f"error 7: timeout server is empty, which is no time: {REFUSED}; "
     "write timeout server 30s, or another number with its unit"),
    (("timeout connect", "timeout conect"), "error 5: HAProxy knows no timeout conect, and refuses the file; "
     "did you mean timeout connect?"),
    (("defaults", "mailers m\n  timeout mail 10\ndefaults"), None),
    (("default_backend rest", "default_backend rst"),
     f"error 10: default_backend is rst, and there is no such backend: {REFUSED}; did you mean rest?"),
    (("default_backend rest", "default_backend rest\n  use_backend other if TRUE"),
     f"error 11: use_backend is other, and there is no such backend: {REFUSED}; "
     "write backend other, or the name of one that is there"),
    (("default_backend rest", "default_backend rest\n  use_backend %[path] if TRUE"), None),
    (("default_backend rest", 'default_backend "rest"'), None),
    (("default_backend rest", "default_backend l\nlisten l\n  server r 127.0.0.1:8084"), None),
    (("8082 check", "8082"), "warning 13: r1 of rest without check: a dead instance gets requests; "
     "write check behind each server, or default-server check before them in rest"),
    ((" check", ""), "warning 13: r1 and 1 more of rest without check: a dead instance gets requests; "
     "write check behind each server, or default-server check before them in rest"),
    ((" check", " track t/t\nbackend t\n  server t 127.0.0.1:8085 check", 1), None),
    (("balance source", "default-server check\n  balance source"), None),
    (("balance source", "balance source\n  retry-on all-retryable-errors"),
     "warning 13: retry-on all-retryable-errors: a produce request that was taken may be sent again: records twice; "
     "write retry-on conn-failure"),
    (("balance source", "balance source\n  retry-on conn-failure 0rtt-rejected"), None),
    (("balance source", "balance source\n  retry-on response-timeout\n  http-request disable-l7-retry if METH_POST"),
     None),
    (("balance source", "balance source\n  retrys 3"),
     "error 13: HAProxy knows no keyword retrys in backend, and refuses the file; did you mean retries?"),
    (("balance source", "balance source\n  retries lots"),
     "warning 13: retries is lots, which is no number: HAProxy reads 0; write retries and a number"),
    (("maxconn 100", "maxconn lots"),
     "warning 2: maxconn is lots, which is no number: HAProxy reads 0; write maxconn and a number"),
    (("maxconn 100", "maxcon 100"),
     "error 2: HAProxy knows no keyword maxcon in global, and refuses the file; did you mean maxconn?"),
    (("maxconn 100", "maxconn 100\n  nbproc 4"),
     f"error 3: nbproc is no keyword since HAProxy 2.5: {REFUSED}; write nbthread"),
    (("timeout connect 5s", "timeout connect 5s\n  clitimeout 5s"),
     f"error 6: clitimeout is no keyword since HAProxy 2.5: {REFUSED}; write timeout client"),
    (("bind :8080", "bind :8080\n  reqadd X:1"),
     f"error 10: reqadd is no keyword since HAProxy 2.1: {REFUSED}; write http-request add-header"),
    (("mode http", "mode htp"), "error 4: HAProxy knows no mode htp, and refuses the file; "
     "did you mean http?"),
    (("balance source", "balance leastcon"), "error 12: HAProxy knows no balance leastcon, and refuses the file; "
     "did you mean leastconn?"),
    (("balance source", "balance hdr(X)"), None),
    (("balance source", "stick-table type ip size 1k expire 30\n  stick on src"),
     "warning 12: expire is 30: without a unit that is 30 ms; write expire 30s, or 30ms if you mean that"),
    (("balance source", "stick-table type ip size 1k expire 30m\n  stick on src"), None),
    (("balance source", "option httpchck"), "error 12: HAProxy knows no option httpchck, and refuses the file; "
     "did you mean httpchk?"),
    (("balance source", "no option httpclose\n  option redispatch 3\n  stick-table type ip size 1k\n"
      "  stick on src"), None),
    (("8082 check", "8082 chekc"), "error 13: HAProxy knows no option chekc of server r1, and refuses the file; "
     "did you mean check?"),
    (("8082 check", "8082 check inter 5q"), f"error 13: inter of r1 is 5q, which is no time: {REFUSED}; "
     "write inter 2s"),
    (("8082 check", "8082 check fall 0"), f"error 13: fall of r1 is 0: {REFUSED}; "
     "write fall and a number above 0"),
    (("8082 check", "8082 check weight 300"), f"error 13: weight of r1 is 300: {REFUSED}; "
     "write weight and a number up to 256"),
    (("8082 check", "8082 check weight much"),
     "warning 13: weight of r1 is much, which is no number: HAProxy reads 0; write weight and a number"),
    (("8082 check", "8082 check source 127.0.0.1 usesrc clientip cookie a"), None),
    (("8082 check", "8082 check ssl verify none sni str(x) inter 2s"), None),
    (("127.0.0.1:8082 check", "127.0.0.1:98082 check"), f"error 13: server r1 has port 98082: {REFUSED}; "
     "write a port up to 65535"),
    (("server r1 127.0.0.1:8082 check", "server r1"), f"error 13: server r1 has no address: {REFUSED}; "
     "write server NAME ADDRESS:PORT"),
    (("server r2", "server r1"), f"error 14: server r1 is in line 13 of rest too: {REFUSED}; "
     "give each server a name of its own"),
    (("server r1", "server-template t 2"), None),
    (("server r1", "server-template t 1-3"), None),
    (("server r1", "server-template r 2"), f"error 14: server r2 is in line 13 of rest too: {REFUSED}; "
     "give each server a name of its own"),
    (("server r1", "server-template r lots"),
     f"error 13: server-template r has lots, which is no count and no range: {REFUSED}; "
     "write server-template r 3, or 1-3, and the address"),
    (("server r1", "server-template r 3-1"),
     f"error 13: server-template r has 3-1, which is no count and no range: {REFUSED}; "
     "write server-template r 3, or 1-3, and the address"),
    (("server r1 127.0.0.1:8082 check", "server-template t 2 127.0.0.1:8082"),
     "warning 13: t of rest without check: a dead instance gets requests; "
     "write check behind each server, or default-server check before them in rest"),
    (("bind :8080", "bind 8080"), f"error 9: bind 8080 has no port: {REFUSED}; write bind :8080"),
    (("bind :8080", "bind 127.0.0.1"), f"error 9: bind 127.0.0.1 has no port: {REFUSED}; "
     "write bind 127.0.0.1:8080"),
    (("bind :8080", "bind :80800"), f"error 9: bind has port 80800: {REFUSED}; write a port up to 65535"),
    (("bind :8080", "bind"), f"error 9: bind has no address: {REFUSED}; "
     "write bind :8080, or another port"),
    (("bind :8080", "bind :8080 acept-proxy"), "error 9: HAProxy knows no option acept-proxy of bind, "
     "and refuses the file; did you mean accept-proxy?"),
    (("bind :8080", "bind /tmp/kedge-test.sock mode 600\n  bind 127.0.0.1:8080,[::1]:8090-8091 name a alpn http/1.1"), None),
    (("server 30s", "server 30 s"), f"error 7: timeout server is 30 s, which is no time: {REFUSED}; "
     "write timeout server 30s, or another number with its unit"),
    (("server 30s", "server 25d"), f"error 7: timeout server is 25d, which is more than 24 days: {REFUSED}; "
     "write timeout server 30s, or another number with its unit"),
    (("server 30s", "server 24d"), None),
    (("bind :8080", "bind :8080\n  acl a path_beg '/x y'\n  http-request deny if a\n  monitor-uri /up\n"
      "  capture request header Host len 9\n  option forwardfor except 10.0.0.0/8\n  stats enable"), None),
    (("maxconn 100", "maxconn 100\n  description ${NAME}\n.if defined(X)\n  nothing at all\n.endif"), None),
]  # fmt: skip


def said(*paths: Path) -> list[str]:
    return [
        f"{f.severity} {f.where.rpartition(':')[2]}: {f.message}; {f.fix}"
        for judgement in review(paths)[0]
        for f in judgement.findings
        if f.rule == "review.balancer"
    ]


@pytest.mark.parametrize(("changed", "found"), CASES)
def test_what_a_balancer_refuses_or_never_asks_is_found(
    tmp_path: Path, changed: tuple[str, str], found: str | None
) -> None:
    (path := tmp_path / "haproxy.cfg").write_text(FILE.replace(*changed))
    assert said(path) == ([found] if found else [])


@pytest.mark.process
def test_haproxy_refuses_what_a_review_calls_an_error(tmp_path: Path) -> None:
    program = shutil.which("haproxy", path="/usr/sbin:/usr/bin:/sbin")
    assert program is not None
    for changed, found in CASES:
        (path := tmp_path / "haproxy.cfg").write_text(FILE.replace(*changed))
        done = subprocess.run(
            [program, "-c", "-f", str(path)], capture_output=True, text=True, env={"T": "30s"}, check=False
        )
        refused = bool(found and found.startswith("error"))
        assert (done.returncode != 0) == refused, (changed, done.stderr)


def test_a_backend_of_another_file_is_there(tmp_path: Path) -> None:
    front, back = FILE.split("\nbackend rest\n")
    (one := tmp_path / "front.cfg").write_text(f"{front}\nlisten s\n  server r 127.0.0.1:8082\n")
    (other := tmp_path / "back.cfg").write_text(f"backend rest\n{back}")
    assert said(one, other) == []
    assert len(said(one)) == 1


def test_values_that_say_the_same_in_other_units_are_no_difference() -> None:
    assert same("1m", "60s")
    assert same("60000", "60s")
    assert same("inter 1s fall 3", "inter 1000 fall 3")
    assert not same("60", "60s")
    assert not same("200k", "200000")
