"""What clients and other brokers notice of a broker once it runs what is planned."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from kedge.plan.running import Running, values

#: What may be allowed by name -> what clients have to do first.
ALLOWED: Final[Mapping[str, str]] = {
    "broker_port": "add the new port to the bootstrap.servers of clients that Kedge does not deploy",
    "cluster_security": "stop the cluster's clients, or give them the new security.protocol with the deploy",
}
#: What no order of steps brings to instances that run -> what to do in its place.
INSTEAD: Final[Mapping[str, str]] = {
    # Static voters: a majority of new, empty ones would elect a leader without the cluster's metadata.
    "broker_quorum": "keep the controllers as they are: set kafka_broker_controller: false on added hosts",
    "broker_identity": "set kafka_broker_id to the id that it has: its data belongs to that id",
    # Brokers that restarted would not replicate with those that did not, and no gate would open.
    "brokers_security": "deploy a second cluster with the new security, and mirror the topics into it",
}
#: Keys of server.properties by which brokers of one cluster know one another.
_SECURED: Final = ("sasl.mechanism.inter.broker.protocol", "inter.broker.listener.name")


def notices(one: Running) -> Iterator[tuple[str, str]]:
    """Yield what is noticed: by which name it is allowed, and in words."""
    was, is_ = (values(files, "server.properties") for files in (one.was, one.now))
    if not was or not is_:
        return
    if was.get("node.id") != is_.get("node.id"):
        yield "broker_identity", f"changes its id from {was.get('node.id')} to {is_.get('node.id')}"
    had, has = (_voters(settings) for settings in (was, is_))
    if had != has:
        yield "broker_quorum", f"has the controllers {', '.join(has)} in place of {', '.join(had)}"
    if any(was.get(key) != is_.get(key) for key in _SECURED) or _listener(was)[0] != _listener(is_)[0]:
        # The only broker of its cluster has nobody to replicate with while it changes.
        name = "brokers_security" if len({*had, *has}) > 1 else "cluster_security"
        yield name, f"speaks {_spoken(is_)} in place of {_spoken(was)} (security of kafka_clusters)"
    elif (old := _listener(was)[1]) != (new := _listener(is_)[1]):
        yield "broker_port", f"listens on port {new} in place of {old} (kafka_broker_port)"


def _voters(settings: Mapping[str, str]) -> list[str]:
    return sorted(one.partition("@")[0] for one in settings.get("controller.quorum.voters", "").split(","))


def _listener(settings: Mapping[str, str]) -> tuple[str, str]:
    """Return the protocol and the port of the clients' listener."""
    first = settings.get("advertised.listeners", "")
    return first.partition("://")[0], first.rpartition(":")[2]


def _spoken(settings: Mapping[str, str]) -> str:
    """Return protocol and login, and by which listener brokers reach each other where it is another one."""
    protocol, mechanism = _listener(settings)[0], settings.get("sasl.mechanism.inter.broker.protocol", "")
    among = settings.get("inter.broker.listener.name", protocol)
    between = f"and {among} between brokers" if among != protocol else ""
    return " ".join(filter(None, (protocol, mechanism, between)))
