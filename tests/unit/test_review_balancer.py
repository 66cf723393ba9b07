"""What a review says of a HAProxy's file: what haproxy -c refuses, and what it takes and nobody means."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from kedge.review.command import review

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
