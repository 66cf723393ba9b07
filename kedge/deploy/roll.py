"""The steps in which instances of a host restart, leave with it and return. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import Any, Final, Literal, NotRequired, TypedDict

#: What a roll does to the instances of a host.
Does = Literal["restart", "leave", "return", "soak"]
_GATE: Final = "kafka_group_gate"
_COMMAND: Final = "ansible.builtin.command"
_HERE: Final = "localhost"
_MEMBERS: Final = {"members": "members"}


class Step(TypedDict):
    """One step, as the action kedge_step takes it.

    Attributes:
        label: its name, as it is printed.
        module: what is called.
        arguments: with what.
        host: where; None: on the host of the instances.
        takes: argument to the name under which an earlier step found its value.
        finds: that name to the key of the answer.
        after: label of an earlier step to more arguments. If that one fails, this one is done with them;
            after any other failure it is left out.
    """

    label: str
    module: str
    arguments: dict[str, Any]
    host: str | None
    takes: NotRequired[dict[str, str]]
    finds: NotRequired[dict[str, str]]
    after: NotRequired[dict[str, dict[str, Any]]]


def steps_of_roll(
    roll: Mapping[str, Any], rounds: Sequence[Mapping[str, Any]], does: Does, host: str, batch: Iterable[str]
) -> dict[str, Any]:
    """Return the steps of a host (``turns``), and ``names`` and ``releases`` of the instances that roll.

    Hosts that roll together wait for each other after each turn.

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
    roll: Mapping[str, Any], rounds: Sequence[Mapping[str, Any]], does: Does, host: str, *, alone: bool
) -> list[list[Step]]:
    if does == "soak":
        return [_soak_steps(roll, rounds, host)]
    gated = [one for one in rounds if one["gate"]]
    if does == "leave":
        gates = [_gate_before(roll, one) for one in gated]
        return [[*_replicas_gate(roll), *gates, *_stop_steps(roll, host)]]
    if does == "return":
        gates = [_gate_after(roll, one) for one in gated]
        return [[*_start_steps(roll, host), *_replicas_gate(roll), *gates]]
    found = [part for one in rounds for part in _restart_steps(roll, one, host)]
    # Gates are asked while no host of the batch restarts: what one does would be seen at the gate of another.
    return found if not alone else [[step for part in found for step in part]]


def _restart_steps(roll: Mapping[str, Any], one: Mapping[str, Any], host: str) -> tuple[list[Step], ...]:
    """Return the steps before an instance is touched, those that touch it, and those after it."""
    name, gated = one["name"], bool(one["gate"])
    # Before a way back no gate is asked: what keeps it closed may be the reason.
    before = [*_replicas_gate(roll), *([_gate_before(roll, one)] if gated and not roll["back"] else ())]
    sample = [_members_sample(roll, one)] if gated and roll["back"] and roll["members_stay"] else []
    drains = [
        *(_drain(roll, one, host, at, beside=roll["beside"]) for at in roll["balancers"]),
        *_own_balancer(roll, one, host, "drain"),
    ]
    restart = _instances_step(
        roll,
        f"{name}: restart",
        instances=[{"name": name, "release": one["release"]}],
        adopts=roll["adopts"],
        ready_seconds=roll["rollout"]["ready_seconds"],
        state=roll["state"],
    )
    put_back = [_put_back(roll, one, host, at) for at in roll["balancers"]]
    own_undrain = _own_balancer(roll, one, host, "undrain")
    back = [*put_back, *own_undrain]
    _do_after_failure(back, [*drains, *back])
    # One that did not start is not waited for: its own error is the one to read.
    _do_after_failure(put_back, [restart], seconds=0)
    _do_after_failure(own_undrain, [restart])
    after = [*([_gate_after(roll, one)] if gated else ()), *_replicas_gate(roll)]
    return before, [*sample, *drains, restart, *back], after


def _stop_steps(roll: Mapping[str, Any], host: str) -> list[Step]:
    """Return the steps that take all instances of a host out and stop them."""
    planned = roll["planned"]
    drains = [_drain(roll, one, host, at, whole=True) for at in roll["balancers"] for one in planned]
    named = [{"name": one["name"]} for one in planned]
    return [*drains, _instances_step(roll, "stop all", instances=named, state="stopped")]


def _start_steps(roll: Mapping[str, Any], host: str) -> list[Step]:
    """Return the steps that see all instances of a host ready and put them back."""
    planned, rollout = roll["planned"], roll["rollout"]
    start = _instances_step(
        roll,
        "see all ready",
        instances=[{"name": one["name"]} for one in planned],
        at_once=rollout["start_at_once"],
        ready_seconds=rollout["ready_seconds"],
        state="started",
    )
    back = [_put_back(roll, one, host, at) for at in roll["balancers"] for one in planned]
    # Where one is not ready, none is put back. What fails at one balancer is done at the others.
    _do_after_failure(back, back)
    return [start, *back]


def _soak_steps(roll: Mapping[str, Any], rounds: Sequence[Mapping[str, Any]], host: str) -> list[Step]:
    """Return the steps of a soak, which compares canary instances with the others for a while."""
    last, soak, rollout = rounds[-1], roll["soak"], roll["rollout"]
    hold = _gate_step(
        roll,
        last,
        "see the groups keep their levels",
        max_lag=rollout["gate_max_lag"],
        hold=soak["hold_seconds"],
    )
    hold["takes"] = {"baseline": _lags(roll, last)}
    compared = {
        "servers": [f"{host}:{one['port']}" for one in rounds],
        "worse_percent": soak["worse_percent"],
    }
    return [
        *(_compare(roll, at, "count", finds={_counts(at): "counts"}) for at in roll["balancers"]),
        *([hold] if last["gate"] else ()),
        *(_compare(roll, at, "compare", compared, takes={"since": _counts(at)}) for at in roll["balancers"]),
        _instances_step(
            roll,
            "see all run as they were started",
            instances=[{"name": one["name"]} for one in rounds],
            ready_seconds=rollout["ready_seconds"],
            state="held",
        ),
    ]


def _do_after_failure(steps: Iterable[Step], failed: Iterable[Step], **more: Any) -> None:
    """Have steps done after each of these failed too, with more arguments."""
    labels = [step["label"] for step in failed]
    for step in steps:
        step["after"] = step.get("after", {}) | dict.fromkeys(labels, more)


def _compare(
    roll: Mapping[str, Any],
    at: Mapping[str, Any],
    does: str,
    more: Mapping[str, Any] | None = None,
    *,
    takes: dict[str, str] | None = None,
    finds: dict[str, str] | None = None,
) -> Step:
    """Return the step that counts, or compares, what a balancer has of each instance."""
    return {
        "label": f"{does} at {at['host']}",
        "module": "haproxy_compare",
        "host": at["host"],
        "arguments": {"backend": roll["backend"], **(more or {})},
        "takes": takes or {},
        "finds": finds or {},
    }


def _counts(at: Mapping[str, Any]) -> str:
    return f"counts of {at['host']}"


def _lags(roll: Mapping[str, Any], one: Mapping[str, Any]) -> str:
    return f"lags of {roll['unit']}@{one['name']}"


def _gate_step(roll: Mapping[str, Any], one: Mapping[str, Any], label: str, **more: Any) -> Step:
    """Return a step that asks for the groups of an instance."""
    gate = one["gate"]
    keys = ("bootstrap_servers", "client", "secrets", "groups", "positions", "positions_secrets")
    arguments = {key: gate[key] for key in keys if key in gate}
    arguments |= {"service": roll["service"], "instance": one["name"], **more}
    return {"label": label, "module": _GATE, "host": None, "arguments": arguments}


def _gate_before(roll: Mapping[str, Any], one: Mapping[str, Any]) -> Step:
    """Return the gate before an instance, which finds the lags to come back to, and members that stay."""
    commits = {"baseline_ms": one["gate"]["commit_ms"]} if one["gate"].get("commit_ms") else {}
    stay = {"members": True} if roll["members_stay"] else {}
    label, seconds = f"{one['name']}: gate before", roll["rollout"]["gate_seconds"]
    step = _gate_step(roll, one, label, seconds=seconds, **commits, **stay)
    step["finds"] = {_lags(roll, one): "lags", **(_MEMBERS if stay else {})}
    return step


def _gate_after(roll: Mapping[str, Any], one: Mapping[str, Any]) -> Step:
    """Return the gate after an instance."""
    rollout = roll["rollout"]
    limits = {"max_lag": rollout["gate_max_lag"], "seconds": rollout["gate_seconds"]}
    step = _gate_step(roll, one, f"{one['name']}: gate after", baseline={}, **limits)
    # What closes a gate may be why an instance goes back.
    step["takes"] = {} if roll["back"] else {"baseline": _lags(roll, one)}
    return step


def _members_sample(roll: Mapping[str, Any], one: Mapping[str, Any]) -> Step:
    """Return the step that finds the members that stay when an instance stops, and waits for nothing."""
    step = _gate_step(roll, one, f"{one['name']}: find its members", members=True, sample=True)
    step["finds"] = _MEMBERS
    return step


def _replicas_gate(roll: Mapping[str, Any]) -> list[Step]:
    """Return the gate of a broker's cluster; none of another service."""
    if not roll["replicas"]:
        return []
    arguments = {**roll["replicas"], "seconds": roll["rollout"]["replicas_seconds"]}
    label = "see every replica in sync"
    return [{"label": label, "module": "kafka_replicas_gate", "host": _HERE, "arguments": arguments}]


def _balancer_step(
    roll: Mapping[str, Any],
    one: Mapping[str, Any],
    host: str,
    at: Mapping[str, Any],
    does: str,
    **more: Any,
) -> Step:
    arguments = {
        "server": f"{roll['backend']}/{host}:{one['port']}",
        "service": roll["service"],
        "instance": one["name"],
        "host": host,
        **more,
    }
    label = f"{one['name']}: {does} at {at['host']}"
    return {"label": label, "module": "haproxy_drain", "host": at["host"], "arguments": arguments}


def _drain(
    roll: Mapping[str, Any], one: Mapping[str, Any], host: str, at: Mapping[str, Any], **more: Any
) -> Step:
    """Return the step that drains an instance at a balancer."""
    step = _balancer_step(
        roll,
        one,
        host,
        at,
        "drain",
        state="drain",
        proxy=roll["ready"].get(one["name"], {}).get("url", ""),
        drain_seconds=at["drain"],
        seconds=at["finish"],
        **more,
    )
    step["takes"] = _MEMBERS if roll["members_stay"] else {}
    return step


def _put_back(roll: Mapping[str, Any], one: Mapping[str, Any], host: str, at: Mapping[str, Any]) -> Step:
    """Return the step that puts an instance back at a balancer."""
    return _balancer_step(roll, one, host, at, "put back", state="ready")


def _own_balancer(
    roll: Mapping[str, Any], one: Mapping[str, Any], host: str, does: Literal["drain", "undrain"]
) -> list[Step]:
    """Return the command of a balancer that is not Kedge's, which no shell runs; none without one."""
    words = own_balancer_words(roll[f"own_{does}"], host, roll["address"], one["port"])
    label = f"{one['name']}: {'drain' if does == 'drain' else 'put back'} at a balancer that is not Kedge's"
    step: Step = {"label": label, "module": _COMMAND, "host": _HERE, "arguments": {"argv": words}}
    return [step] if words else []


def own_balancer_words(words: Iterable[str], host: str, address: str, port: Any) -> list[str]:
    """Return the words of a command with an instance's host, address and port in them."""
    of = {"{host}": host, "{address}": address, "{port}": str(port)}
    return [reduce(lambda word, mark: word.replace(mark, of[mark]), of, str(word)) for word in words]


def _instances_step(roll: Mapping[str, Any], label: str, **more: Any) -> Step:
    """Return a step of kedge_instance."""
    keys = ("unit", "service", "ready", "secrets", "controls", "foreign")
    step: Step = {
        "label": label,
        "module": "kedge_instance",
        "host": None,
        "arguments": {**{key: roll[key] for key in keys}, **more},
    }
    step["takes"] = _MEMBERS if roll["members_stay"] else {}
    return step
