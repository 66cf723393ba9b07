"""The steps in which instances of a host restart, leave with it and return. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from typing import Any, Final, Literal

#: What a roll does to the instances of a host.
Does = Literal["restart", "leave", "return", "soak"]
Step = dict[str, Any]
_GATE: Final = "kafka_group_gate"
_COMMAND: Final = "ansible.builtin.command"
#: The control machine; of a step without a host, that of the instance.
_HERE: Final = "localhost"


def steps_of_roll(
    roll: Mapping[str, Any], rounds: list[dict[str, Any]], does: Does, host: str, batch: Iterable[str]
) -> dict[str, Any]:
    """Return the steps of a host (``turns``), and ``names`` and ``releases`` of the instances that roll.

    Hosts that roll together wait for each other after each turn. A step has ``label``, ``module``,
    ``arguments``, ``host`` (None: the instance's) and, of what steps before found, ``takes`` (argument to
    the name under which it was found) and ``finds`` (that name to the key of the answer). A step that is
    ``always`` due is done after a failure in its ``part`` too, with ``after_failure`` in its arguments.

    Args:
        roll: what the role works out once (roles/instances/tasks/roll.yml).
        rounds: the instances that roll, each with its gate and its release (restarts.rounds).
        does: what is done to them.
        host: the host's name.
        batch: the hosts that roll together.
    """
    return {
        "turns": _turns(roll, rounds, does, host, alone=set(batch) <= {host}),
        "names": [one["name"] for one in rounds],
        "releases": [one["release"] for one in rounds],
    }


def _turns(
    roll: Mapping[str, Any], rounds: list[dict[str, Any]], does: Does, host: str, *, alone: bool
) -> list[list[Step]]:
    if does == "soak":
        return [_soaked(roll, rounds, host)]
    gated = [one for one in rounds if one["gate"]]
    if does == "leave":
        gates = [_before(roll, one) for one in gated]
        return [[*_replicas(roll), *gates, *_left(roll, host)]]
    if does == "return":
        return [[*_returned(roll, host), *_replicas(roll), *(_after(roll, one) for one in gated)]]
    found = [part for one in rounds for part in _restarted(roll, one, host)]
    # Gates are asked while no host of the batch restarts: what one does would be seen at the gate of another.
    return found if not alone else [[step for part in found for step in part]]


def _restarted(roll: Mapping[str, Any], one: Mapping[str, Any], host: str) -> tuple[list[Step], ...]:
    """Return the steps before an instance is touched, those that touch it, and those after it."""
    name = one["name"]
    before = [*_replicas(roll), *([_before(roll, one)] if one["gate"] and not roll["back"] else ())]
    # Of a way back no gate is asked before: what keeps it closed may be the reason.
    looked = [_look(roll, one)] if one["gate"] and roll["back"] and roll["members_stay"] else []
    restart = _of_instances(roll, f"{name}: restart", [{"name": name, "release": one["release"]}])
    restart["arguments"] |= {
        "adopts": roll["adopts"],
        "ready_seconds": roll["rollout"]["ready_seconds"],
        "state": roll["state"],
    }
    steps = [
        *looked,
        *(_drained(roll, one, host, at, beside=roll["beside"]) for at in roll["balancers"]),
        *_at_own_balancer(roll, one, host, "drain"),
        restart | {"takes": {"members": "members"}},
        *(_put_back(roll, one, host, at) for at in roll["balancers"]),
        *_at_own_balancer(roll, one, host, "undrain"),
    ]
    # What fails here has this instance put back, and no other.
    touched = [step | {"part": name} for step in steps]
    return before, touched, [*([_after(roll, one)] if one["gate"] else ()), *_replicas(roll)]


def _left(roll: Mapping[str, Any], host: str) -> list[Step]:
    """Return the steps that take all instances of a host out and stop them."""
    planned = roll["planned"]
    stop = _of_instances(roll, "stop all", [{"name": i["name"]} for i in planned])
    stop["arguments"]["state"] = "stopped"
    return [
        *(_drained(roll, i, host, at, whole=True) for at in roll["balancers"] for i in planned),
        stop | {"takes": {"members": "members"}},
    ]


def _returned(roll: Mapping[str, Any], host: str) -> list[Step]:
    """Return the steps that see all instances of a host ready and put them back."""
    planned, rollout = roll["planned"], roll["rollout"]
    start = _of_instances(roll, "see all ready", [{"name": i["name"]} for i in planned])
    start["arguments"] |= {
        "at_once": rollout["start_at_once"],
        "ready_seconds": rollout["ready_seconds"],
        "state": "started",
    }
    # Where one is not ready, none goes back: what left the host ill has to be seen first.
    back = (_put_back(roll, i, host, at) for at in roll["balancers"] for i in planned)
    return [start, *({**step, "always": False} for step in back)]


def _soaked(roll: Mapping[str, Any], rounds: list[dict[str, Any]], host: str) -> list[Step]:
    """Return the steps that hold instances that went first against the others for a while."""
    backend, last = roll["backend"], rounds[-1]
    servers = [f"{host}:{one['port']}" for one in rounds]
    counted = [
        {
            "label": f"count at {at['host']}",
            "module": "haproxy_compare",
            "host": at["host"],
            "arguments": {"backend": backend},
            "finds": {f"counts of {at['host']}": "counts"},
        }
        for at in roll["balancers"]
    ]
    compared = [
        {
            "label": f"compare at {at['host']}",
            "module": "haproxy_compare",
            "host": at["host"],
            "arguments": {
                "backend": backend,
                "servers": servers,
                "worse_percent": roll["soak"]["worse_percent"],
            },
            "takes": {"since": f"counts of {at['host']}"},
        }
        for at in roll["balancers"]
    ]
    hold = _gate(roll, last, "hold") | {"takes": {"baseline": _lags(roll, last)}}
    hold["arguments"] |= {"max_lag": roll["rollout"]["gate_max_lag"], "hold": roll["soak"]["hold_seconds"]}
    held = _of_instances(roll, "see all run as they were started", [{"name": one["name"]} for one in rounds])
    held["arguments"] |= {"ready_seconds": roll["rollout"]["ready_seconds"], "state": "held"}
    return [*counted, *([hold] if last["gate"] else ()), *compared, held]


def _gate(roll: Mapping[str, Any], one: Mapping[str, Any], kind: str) -> Step:
    """Return a look at the groups of an instance."""
    gate = one["gate"]
    keys = ("bootstrap_servers", "client", "secrets", "groups", "positions", "positions_secrets")
    arguments = {key: gate[key] for key in keys if key in gate}
    arguments |= {"service": roll["service"], "instance": one["name"]}
    return {
        "label": f"{one['name']}: gate {kind}" if kind != "hold" else "see the groups keep their levels",
        "module": _GATE,
        "host": None,
        "arguments": arguments,
    }


def _before(roll: Mapping[str, Any], one: Mapping[str, Any]) -> Step:
    """Return the gate before an instance, which finds the lags to come back to, and the members of groups."""
    members = {"members": "members"} if roll["members_stay"] else {}
    step = _gate(roll, one, "before") | {"finds": {_lags(roll, one): "lags", **members}}
    step["arguments"]["seconds"] = roll["rollout"]["gate_seconds"]
    if one["gate"].get("commit_ms"):
        step["arguments"]["baseline_ms"] = one["gate"]["commit_ms"]
    return step


def _after(roll: Mapping[str, Any], one: Mapping[str, Any]) -> Step:
    """Return the gate after an instance."""
    step = _gate(roll, one, "after")
    step["arguments"] |= {
        "baseline": {},
        "max_lag": roll["rollout"]["gate_max_lag"],
        "seconds": roll["rollout"]["gate_seconds"],
    }
    # What closes a gate may be why an instance goes back.
    return step if roll["back"] else step | {"takes": {"baseline": _lags(roll, one)}}


def _lags(roll: Mapping[str, Any], one: Mapping[str, Any]) -> str:
    return f"lags of {roll['unit']}@{one['name']}"


def _replicas(roll: Mapping[str, Any]) -> list[Step]:
    """Return a look at the replicas of the cluster whose broker restarts; none of another service."""
    if not roll["replicas"]:
        return []
    arguments = {**roll["replicas"], "seconds": roll["rollout"]["replicas_seconds"]}
    label = "see every replica in sync"
    return [{"label": label, "module": "kafka_replicas_gate", "host": _HERE, "arguments": arguments}]


def _look(roll: Mapping[str, Any], one: Mapping[str, Any]) -> Step:
    """Return the question which members an instance may have that stay when it stops."""
    step = _gate(roll, one, "look") | {"finds": {"members": "members"}}
    step["label"] = f"{one['name']}: find its members"
    step["arguments"] = {key: value for key, value in step["arguments"].items() if key != "instance"}
    step["arguments"]["look"] = True
    return step


def _at_balancer(roll: Mapping[str, Any], one: Mapping[str, Any], host: str) -> dict[str, Any]:
    return {
        "server": f"{roll['backend']}/{host}:{one['port']}",
        "service": roll["service"],
        "instance": one["name"],
        "host": host,
    }


def _drained(
    roll: Mapping[str, Any], one: Mapping[str, Any], host: str, at: Mapping[str, Any], **more: Any
) -> Step:
    """Return the drain of an instance at a balancer."""
    arguments = _at_balancer(roll, one, host) | {
        "state": "drain",
        "proxy": roll["ready"].get(one["name"], {}).get("url", ""),
        "drain_seconds": at["drain"],
        "seconds": at["finish"],
        **more,
    }
    label = f"{one['name']}: drain at {at['host']}"
    return {
        "label": label,
        "module": "haproxy_drain",
        "host": at["host"],
        "arguments": arguments,
        "takes": {"members": "members"},
    }


def _put_back(roll: Mapping[str, Any], one: Mapping[str, Any], host: str, at: Mapping[str, Any]) -> Step:
    """Return that an instance is put back at a balancer, which is due whatever was wrong before."""
    return {
        "label": f"{one['name']}: put back at {at['host']}",
        "module": "haproxy_drain",
        "host": at["host"],
        "arguments": _at_balancer(roll, one, host) | {"state": "ready"},
        "always": True,
        # One that did not start is not waited for: its own error is the one to read.
        "after_failure": {"seconds": 0},
    }


def _at_own_balancer(
    roll: Mapping[str, Any], one: Mapping[str, Any], host: str, does: Literal["drain", "undrain"]
) -> list[Step]:
    """Return the command of a balancer that is not Kedge's; no shell runs it."""
    words = own_balancer_words(roll[f"own_{does}"], host, roll["address"], one["port"])
    if not words:
        return []
    label = f"{one['name']}: {'drain' if does == 'drain' else 'put back'} at your balancer"
    step = {"label": label, "module": _COMMAND, "host": _HERE, "arguments": {"argv": words}}
    return [step | {"always": does == "undrain"}]


def own_balancer_words(words: Iterable[str], host: str, address: str, port: Any) -> list[str]:
    """Return the words of a command with an instance's host, address and port in them."""
    of = {"{host}": host, "{address}": address, "{port}": str(port)}
    return [reduce(lambda said, mark: said.replace(mark, of[mark]), of, str(word)) for word in words]


def _of_instances(roll: Mapping[str, Any], label: str, instances: list[dict[str, Any]]) -> Step:
    """Return a step of kedge_instance on the instances' host."""
    keys = ("unit", "service", "ready", "secrets", "controls", "foreign")
    arguments = {key: roll[key] for key in keys} | {"instances": instances}
    return {"label": label, "module": "kedge_instance", "host": None, "arguments": arguments}
