"""Checks of a client's settings: what loses records, what is refused, and what keeps it from starting."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from kedge.plan.settings import Sheet
from kedge.plan.values import int_or_zero, value_of
from kedge.plan.version_numbers import numbers
from kedge.services.clients.profiles import default_value

_DELIVERY: Final = "delivery.timeout.ms"
_NOTHING: Final[Mapping[str, str]] = {}


def check_batch(sheet: Sheet, what: str, key: str, takes: int, taker: str, rule: str) -> None:
    """Report a person's own batch.size that grows beyond what it is sent to takes."""
    batch = int_or_zero(value_of(sheet, key))
    if batch > takes and any(s.key == key and s.by == "person" for s in sheet.settings):
        sheet.warning(
            rule,
            f"{key}{sheet.of(what)} is {batch}, and {taker} takes {takes} bytes: a full batch that does "
            "not compress is refused, and sent again in parts",
            f"set {key} to {takes} or less, or leave it out",
            key,
        )


def check_acks(
    sheet: Sheet,
    what: str,
    acks: str,
    levels: Mapping[str, Any],
    mend: str,
    rule: str = "clients.acks",
    *,
    key: str,
) -> bool:
    """Report a producer whose acknowledged records can be lost where no loss is allowed; tell if it is so.

    ``acks`` is what is in force; ``what`` names the client, ``mend`` says what to do beside allowing loss.
    """
    delivery = levels.get("delivery") or {}
    if acks in ("all", "-1") or delivery.get("lost", 0) != 0:
        return False
    sheet.error(
        rule,
        f"{what} has acks={acks}{unwanted(sheet, 'lost')}: what only the leader has is lost when it fails",
        f"{mend}, or {allowed(sheet, 'lost')}",
        key,
    )
    return True


def allowed(sheet: Sheet, *kinds: str) -> str:
    """Return what its reader does who allows that records are lost, duplicated or reordered."""
    levels = " and ".join(f"service_levels.delivery.{kind}" for kind in kinds)
    given = f"give --allow {' '.join(kinds)} if records may be {' or '.join(kinds)}"
    return sheet.either(f"set {levels} to null", given)


def unwanted(sheet: Sheet, kind: str) -> str:
    """Return that no record may be lost, duplicated or reordered, to be read after what does it."""
    return sheet.either(f", and service_levels.delivery.{kind} is 0", f" where no record may be {kind}")


def check_producer(
    sheet: Sheet,
    what: str,
    prefix: str,
    version: str,
    refuses: str = "its producer refuses to start",
    *,
    shared: tuple[str, ...] = (),
    given: Mapping[str, str] = _NOTHING,
    forced: Mapping[str, str] = _NOTHING,
) -> None:
    """Report a Java producer that Kafka's own classes refuse, and one that cannot send.

    To be called when all keys of the producer, under ``prefix``, are put. ``refuses`` says what becomes of
    it; its program gives it ``given`` where nobody says otherwise, and ``forced`` whatever they say. What
    begins with one of ``shared`` goes to it as well.
    """
    of = _Client(sheet, prefix, version, shared, given, forced)
    _check_delivery(of, sheet.of(what), refuses)
    _check_idempotence(of, sheet.of(what), refuses)
    batch, buffer = of.number("batch.size"), of.number("buffer.memory")
    if batch > buffer and of.own("batch.size", "buffer.memory"):
        fixes = [
            f"set {prefix}batch.size to {buffer // 2} or less",
            f"set {prefix}buffer.memory to {2 * batch} or more",
        ]
        of.error(
            "clients.buffer",
            f"{prefix}batch.size{sheet.of(what)} is {batch}, above buffer.memory of {buffer}: no batch fits, "
            "so each send fails",
            # What a person has chosen comes first.
            ", or ".join(fixes if of.own("batch.size") else reversed(fixes)),
            "batch.size",
            "buffer.memory",
        )
    timeout = of.number("transaction.timeout.ms")
    if timeout > _TRANSACTION_MOST_MS and of.own("transaction.timeout.ms") and of.value("transactional.id"):
        of.warning(
            "clients.transactions",
            f"{prefix}transaction.timeout.ms{sheet.of(what)} is {timeout}, and brokers take "
            f"{_TRANSACTION_MOST_MS} at most unless their transaction.max.timeout.ms says otherwise: "
            "transactions are refused",
            f"set {prefix}transaction.timeout.ms to {_TRANSACTION_MOST_MS} or less, or take it out",
            "transaction.timeout.ms",
        )


#: transaction.max.timeout.ms, group.min.session.timeout.ms and group.max.session.timeout.ms of brokers.
_TRANSACTION_MOST_MS: Final = 900_000
_SESSION_LEAST_MS: Final = 6_000
_SESSION_MOST_MS: Final = 1_800_000
#: Requests in flight with which an idempotent producer keeps order: ProducerConfig.
_IN_FLIGHT: Final = 5
#: Less time for a record than a call over a network takes.
_RECORD_MS: Final = 10


@dataclass(frozen=True)
class _Client:
    """A client's values and defaults, and findings about its keys; the keys here have no prefix.

    To be made when all keys of the client are put: who set what is looked at once.

    ``shared`` are what keys begin with that go to it and to others.
    """

    sheet: Sheet
    prefix: str
    version: str
    shared: tuple[str, ...] = ()
    given: Mapping[str, str] = field(default_factory=dict)
    forced: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def _put(self) -> Mapping[str, str]:
        return {s.key: s.value for s in reversed(self.sheet.settings)}

    @cached_property
    def _theirs(self) -> frozenset[str]:
        return frozenset(s.key for s in self.sheet.settings if s.by == "person")

    def default(self, key: str) -> str:
        """Return what the client itself has for a key."""
        return default_value("java", self.version, key) or ""

    def value(self, key: str) -> str:
        """Return what holds of a key."""
        named = (f"{begin}{key}" for begin in (self.prefix, *self.shared))
        unset = self.sheet.reader.unset
        own = next((v for k in named if (v := self._put[k] if k in self._put else unset(k))), "")
        return self.forced.get(key) or own or self.given.get(key) or self.default(key)

    def number(self, key: str) -> int:
        """Return what holds of a key that takes a number."""
        return int_or_zero(self.value(key))

    def set(self, key: str) -> bool:
        """Return whether the client is given a value of the key, by whomever."""
        return (
            f"{self.prefix}{key}" in self._put or key in self.forced or self.value(key) != self.default(key)
        )

    def own(self, *keys: str) -> list[str]:
        """Return those of the keys that a person sets, with the prefix."""
        named = ([f"{begin}{key}" for begin in (self.prefix, *self.shared)] for key in keys)
        return [found for one in named if (found := next((key for key in one if key in self._theirs), None))]

    def name(self, key: str) -> str:
        """Return the key as a person has it, or would."""
        return next(iter(self.own(key)), f"{self.prefix}{key}")

    def error(self, rule: str, message: str, fix: str, *keys: str) -> None:
        """Add an error about keys, first those that a person sets."""
        own = self.own(*keys)
        others = [f"{self.prefix}{key}" for key in keys if not self.own(key)]
        self.sheet.error(rule, message, fix, *own, *others)

    def warning(self, rule: str, message: str, fix: str, *keys: str) -> None:
        """Add a warning about keys."""
        others = [f"{self.prefix}{key}" for key in keys if not self.own(key)]
        self.sheet.warning(rule, message, fix, *self.own(*keys), named=others)


def _check_idempotence(of: _Client, named: str, refuses: str) -> None:
    """Report what ProducerConfig refuses of an idempotent producer, and where 3.x turns idempotence off."""
    idempotent = of.value("enable.idempotence") == "true"
    asked = of.set("enable.idempotence")
    transactions = of.own("transactional.id")
    wrong = {
        "acks": (of.value("acks") not in ("all", "-1"), "acks=all", "all"),
        "retries": (of.value("retries") == "0", "retries", "1 or more"),
        "max.in.flight.requests.per.connection": (
            of.number("max.in.flight.requests.per.connection") > _IN_FLIGHT,
            f"{_IN_FLIGHT} at most",
            f"{_IN_FLIGHT} or less",
        ),
    }
    found = [key for key, (is_wrong, _, _) in wrong.items() if is_wrong]
    for key in found if idempotent else ():
        own = of.own(key, "enable.idempotence", "transactional.id")
        value, (_, needs, fix) = of.value(key), wrong[key]
        said = f"{of.prefix}{key}{named} is {value}, and idempotence"
        always = key.startswith("max.in") and numbers(of.version) >= (4,)
        if not own:
            continue
        if asked or transactions or always:
            why = "" if asked or always else ", without which there are no transactions,"
            of.error("clients.idempotence", f"{said}{why} asks for {needs}: {refuses}",
                     f"set {of.prefix}{key} to {fix}, or take it out", key)  # fmt: skip
        elif key.startswith("max.in"):
            of.warning(
                "clients.idempotence",
                f"{said} asks for {needs}: it is turned off without a word, so that a retry can double and "
                "reorder records; clients of 4.x refuse to start",
                f"set {of.prefix}{key} to {fix}, or take it out",
                key,
            )
    if transactions and not idempotent:
        of.error(
            "clients.idempotence",
            f"{transactions[0]}{named} is set, and enable.idempotence is false: {refuses}",
            f"take {of.prefix}enable.idempotence out",
            "enable.idempotence",
            "transactional.id",
        )


def check_consumer(sheet: Sheet, what: str, prefix: str, version: str, *shared: str) -> None:
    """Report a Java consumer that would refuse to start, that brokers refuse, or whose group never settles.

    To be called when all keys of the consumer, under ``prefix``, are put; ``shared`` as of a producer.
    """
    of, named = _Client(sheet, prefix, version, shared), sheet.of(what)
    if of.value("group.protocol").lower() == "consumer":
        return
    _check_heartbeat(of, named)
    session = of.number("session.timeout.ms")
    if of.own("session.timeout.ms") and not _SESSION_LEAST_MS <= session <= _SESSION_MOST_MS:
        low = session < _SESSION_LEAST_MS
        bound, side = (
            (f"{_SESSION_LEAST_MS} at least", "min") if low else (f"{_SESSION_MOST_MS} at most", "max")
        )
        of.warning(
            "clients.session",
            f"{of.name('session.timeout.ms')}{named} is {session}, and brokers take {bound} unless their "
            f"group.{side}.session.timeout.ms says otherwise: they refuse the member",
            f"take {of.name('session.timeout.ms')} out, for its default, {of.default('session.timeout.ms')}",
            "session.timeout.ms",
        )
    records, interval = of.number("max.poll.records"), of.number("max.poll.interval.ms")
    if of.own("max.poll.records", "max.poll.interval.ms") and interval < _RECORD_MS * records:
        of.warning(
            "clients.poll",
            f"{records} records{named} may come with a poll, and the next one is due within {interval} ms: "
            f"where a record takes more than {interval / records:g} ms, the member leaves its group, and the "
            "group rebalances again and again",
            f"set {of.name('max.poll.records')} to {max(1, interval // 100)} or less, or "
            f"{of.name('max.poll.interval.ms')} to {100 * records} or more",
            "max.poll.interval.ms",
            "max.poll.records",
        )


def _check_delivery(of: _Client, named: str, refuses: str) -> None:
    """Report a Java producer that would refuse to start: it gives a record up before it was sent once.

    KafkaProducer throws where delivery.timeout.ms is set below linger.ms + request.timeout.ms; where it is
    not set, it raises it by itself.
    """
    keys = (_DELIVERY, "linger.ms", "request.timeout.ms")
    delivery, linger, request = map(of.number, keys)
    if not of.set(_DELIVERY) or delivery >= linger + request:
        return
    first, last = f"{of.prefix}{_DELIVERY}", f"{of.prefix}{keys[2]}"
    by = {s.key: s.by for s in of.sheet.settings}
    own = of.own(*keys)
    fix = f"take {' and '.join(own)} out"
    # A time of a request that is planned may follow that of the delivery, and grow with it.
    if first in own and by.get(last) != "plan":
        fix = f"set {first} to {linger + request} or more, or {fix}"
    of.error(
        "clients.delivery",
        f"{first}{named} is {delivery}, below linger.ms and request.timeout.ms together, {linger} + "
        f"{request} ms: {refuses}",
        fix,
        *keys,
    )


def _check_heartbeat(of: _Client, named: str) -> None:
    """Report a session that ends before its next heartbeat, which Heartbeat refuses, or soon after it."""
    keys = ("heartbeat.interval.ms", "session.timeout.ms")
    beat, session = map(of.number, keys)
    own = of.own(*keys)
    subject = (*own, *(key for key in keys if key not in own))
    said = f"{of.name(keys[0])}{named} is {beat}, and the session of its group {session} ms: "
    fix = f"take {' and '.join(own)} out"
    if own and beat >= session:
        why = "where a heartbeat is no sooner, consumers refuse to start"
        of.sheet.error("clients.heartbeat", said + why, fix, *subject)
    elif own and 2 * beat > session >= _SESSION_LEAST_MS:  # a shorter one is refused, whatever the heartbeat
        of.sheet.warning("clients.heartbeat", f"{said}one that is late ends it", fix, *subject)
