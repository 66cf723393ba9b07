"""What clients of a balancer notice once it runs what is planned."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from kedge.plan.running import Running, values
from kedge.services.balancer.security import ANY

#: What may be allowed by name -> what clients have to do first.
ALLOWED: Final[Mapping[str, str]] = {
    "balancer_port": "have clients follow with the deploy, or move them to a second balancer first",
}


def notices(one: Running) -> Iterator[tuple[str, str]]:
    """Yield what clients notice: by which name it is allowed, and in words."""
    was, is_ = (values(files, "haproxy.cfg") for files in (one.was, one.now))
    if "bind" in was and "bind" in is_:
        had, has = was["bind"], is_["bind"]
        # All addresses are the former one too.
        if has not in (had, f"{ANY}:{had.rpartition(':')[2]}"):
            yield "balancer_port", f"listens on {has} in place of {had}"
        old, new = ("ssl" in values.get("bind options", "").split() for values in (was, is_))
        if old != new:
            yield "tls", f"{'speaks' if new else 'no longer speaks'} TLS (rest_balancer_tls)"
    if "users" in is_ and "users" not in was:
        yield "login", "asks for a login (rest_balancer_users)"
    logins, kept = (files.get("users.list", {}) for files in (one.was, one.now))
    lost = [user for user, row in logins.items() if user not in kept or row.differs(kept[user])]
    if kept and lost:
        yield "login", "no longer takes a login that it took (rest_balancer_users)"
