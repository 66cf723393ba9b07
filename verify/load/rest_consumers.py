"""Consumers through REST proxies: they create an instance at the balancer, then follow its base_uri.

Offsets are committed, one by one and not as "whatever was read", when the deliveries are on disk. An instance
that answers anything but what was asked is given up: what it had read and not delivered would be skipped. The
consumer then makes itself a new one through the balancer, in the same group, and reads on from what was
committed; the audit counts what it got twice. A commit that fails is the exception: a member that left for it
would start the next rebalance, in which the others' commits are refused.

With ``auto_commit`` it commits nothing by itself, and an empty 200 has no records to it, as to many clients.
What the proxy committed and the answer did not bring is lost to the group, and the audit finds it.

With ``come_home`` a consumer that lost its instance goes back to that proxy when it answers again: it
commits, deletes the instance that it has, and makes one at home.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx
import numpy as np

from kedge.evidence.border.proxy import (
    ANSWER_BYTES,
    StrangePlaceError,
    may_log_in,
    most_bytes,
    place,
    records,
    refusal,
)
from kedge.evidence.border.untrusted import UntrustedError, shown
from kedge.evidence.load_options import LoadSpec, RestLoad
from kedge.evidence.record import identities, run_tag
from kedge.evidence.writing import EvidenceWriter
from verify.load.board import ActorState, Board, Cell, Head
from verify.load.rest_connections import instance_of
from verify.load.rest_login import session_options
from verify.process import Ending, cpu_us, now_us

_V2: Final = {"Content-Type": "application/vnd.kafka.v2+json", "Accept": "application/vnd.kafka.v2+json"}
_BINARY: Final = {"Accept": "application/vnd.kafka.binary.v2+json"}
_BACKOFF_S: Final = (0.1, 0.2, 0.5, 1.0, 2.0)
_GOODBYE_S: Final = 5.0
#: A proxy that answers byte after byte is not waited for any longer, beyond what a read may take.
_WHOLE_S: Final = 60.0
#: How often a consumer that is elsewhere looks for its home, and for how long.
_LOOK_S: Final = 1.0
#: How often a consumer notes where it is at home.
_HOME_US: Final = 1_000_000
#: Letters of what a proxy answers; a validation may list all that it would have taken.
_SAID: Final = 300
#: A member of a REST group cannot commit when its partitions go, for it is not told; what it got since its
#: last commit is delivered again. Hence commits, and files of evidence before them, come oftener here.
ROTATE_S: Final = 0.5
#: A request that is as wrong the next time: its form, its login, its path's method, its kind of body.
_NEVER: Final = frozenset({400, 401, 403, 405, 406, 415, 422})
#: In a row, until an instance is given up. A rebalance refuses few commits: the next read joins it.
_REFUSALS: Final = 20

#: What Kafka's client says of a group that has moved on, by the classic and by the consumer protocol.
_MOVED_ON: Final = ("rebalanc", "not part of an active group", "member epoch", "not aware of this member")


class InstanceGoneError(Exception):
    """The consumer's instance did not do as asked; text and ``status`` say what was answered."""

    def __init__(self, said: str, status: int = 0) -> None:
        super().__init__(said)
        self.status = status


class ConsumerRefusedError(Exception):
    """The proxy does not take what a consumer begins with, and will not later; the text says what it said."""


class CommitRefusedError(InstanceGoneError):
    """The instance is there, and tried in vain to commit."""

    @property
    def rebalanced(self) -> bool:
        """Whether the group has moved on; every proxy passes on what Kafka's client says of that."""
        return any(said in str(self) for said in _MOVED_ON)


async def run(load: LoadSpec, actors: Sequence[str], board: Board, evidence: Path, ending: Ending) -> None:
    """Run these consumers until the board says end; their deliveries are on disk when this returns.

    Raises ConsumerRefusedError when a proxy refuses how the first instance of a consumer is asked for.
    """
    if load.rest is None:
        raise ValueError("the load has no part through REST")
    deliveries = EvidenceWriter(evidence, "deliveries", "rest-consumers", ROTATE_S)
    homes = EvidenceWriter(evidence, "homes", "rest-consumers")
    consumers = [_Consumer(load, load.rest, actor, board, deliveries, homes, ending) for actor in actors]
    for actor in actors:
        board.cells(actor)[Cell.STATE] = ActorState.READY
    await asyncio.gather(*(consumer.run() for consumer in consumers))
    deliveries.close()
    homes.close()
    # One process, several consumers: the first tells the CPU time of all.
    board.cells(actors[0])[Cell.CPU_US] = cpu_us()
    for actor in actors:
        board.cells(actor)[Cell.STATE] = ActorState.DONE


class _Consumer:
    """One consumer with its session, its present instance, and what it has not committed yet."""

    def __init__(
        self,
        load: LoadSpec,
        rest: RestLoad,
        actor: str,
        board: Board,
        deliveries: EvidenceWriter,
        homes: EvidenceWriter,
        ending: Ending,
    ) -> None:
        self._rest = rest
        self._actor = actor
        self._board = board
        self._ending = ending
        self._cells = board.cells(actor)
        self._tag = run_tag(load.run_id)
        self._create_url = f"{rest.url.rstrip('/')}/consumers/{rest.group}"
        self._login: tuple[str, str] | None = None
        self._most = most_bytes(rest.read_max_bytes)
        self._whole_s = rest.read_timeout_ms / 1000 + _WHOLE_S
        self._deliveries = deliveries
        self._homes = homes
        #: Where its first instance was, and when to look next whether that is there again.
        self._home = ""
        self._look_at = 0.0
        self._goes_home = False
        self._home_us = 0
        self._heard: set[int] = set()
        self._instances = 0
        self._began = False
        self._positions: dict[int, int] = {}
        self._writing: dict[int, int] = {}
        self._file = 0
        self._refused = 0

    def _ended(self) -> bool:
        return bool(self._board.head[Head.END]) or bool(self._ending)

    async def run(self) -> None:
        """Read until the end, with a new instance whenever one goes; delete the last one."""
        failures = 0
        timeout = httpx.Timeout(self._rest.read_timeout_ms / 1000 + 10, connect=2)
        options = session_options(self._rest)
        self._login = options.pop("auth", None)
        async with httpx.AsyncClient(timeout=timeout, **options) as session:
            while not self._ended():
                base_uri = None
                try:
                    base_uri = await self._create(session)
                    self._began = True
                    while not self._ended() and not await self._is_called_home(session, base_uri):
                        await self._read(session, base_uri)
                        failures = 0
                    await self._write_and_commit(session, base_uri)
                    self._positions, self._writing = {}, {}
                except (httpx.HTTPError, InstanceGoneError, UntrustedError) as error:
                    never = error.status in _NEVER if isinstance(error, InstanceGoneError) else False
                    if not self._began and (never or isinstance(error, StrangePlaceError)):
                        raise ConsumerRefusedError(f"no consumer can begin: {error}") from error
                    self._gone(error)
                finally:
                    if base_uri:
                        await self._delete(session, base_uri)
                if not self._ended() and not self._goes_home:
                    await asyncio.sleep(_BACKOFF_S[min(failures, len(_BACKOFF_S) - 1)])
                    failures += 1

    async def _is_called_home(self, session: httpx.AsyncClient, base_uri: str) -> bool:
        """Return whether its first instance's proxy is there again, and this instance is elsewhere."""
        now = time.monotonic()
        if not self._rest.come_home or base_uri.startswith(f"{self._home}/") or now < self._look_at:
            return False
        self._look_at = now + _LOOK_S
        with contextlib.suppress(httpx.HTTPError, InstanceGoneError):
            answer = await self._asked(session, "GET", f"{self._home}/", timeout=_LOOK_S)
            self._goes_home = answer.status < httpx.codes.INTERNAL_SERVER_ERROR
        return self._goes_home

    def _gone(self, error: Exception) -> None:
        self._positions, self._writing, self._refused = {}, {}, 0
        if not self._ended():
            self._cells[Cell.RECREATED] += 1
            text = f"{type(error).__name__}: {shown(error, _SAID)}"
            print(f"{now_us()} {self._actor}: a new instance, because {text}", file=sys.stderr, flush=True)

    async def _create(self, session: httpx.AsyncClient) -> str:
        self._instances += 1
        goes_home = self._goes_home
        body = {
            "name": f"{self._actor}-{now_us()}-{self._instances}",
            "format": "binary",
            "auto.offset.reset": "earliest",
            **self._commits(),
        }
        url, self._goes_home = self._create_url, False
        if goes_home:
            url = f"{self._home}/consumers/{self._rest.group}"
        answer = await self._ask(session, "POST", url, body)
        base_uri = place(answer.body, self._rest.url, self._rest.proxies)
        self._home = self._home or base_uri.partition("/consumers/")[0]
        self._look_at = time.monotonic() + _LOOK_S
        try:
            await self._ask(session, "POST", f"{base_uri}/subscription", {"topics": [self._rest.topic]})
        except (httpx.HTTPError, InstanceGoneError):
            await self._delete(session, base_uri)
            raise
        return base_uri

    def _commits(self) -> dict[str, str | bool]:
        """Return what says at an instance's creation who commits."""
        own = self._rest.dialect.own_commits
        if not self._rest.auto_commit:
            return own
        return {key: "true" if isinstance(value, str) else True for key, value in own.items()}

    async def _read(self, session: httpx.AsyncClient, base_uri: str) -> None:
        limits = {"timeout": str(self._rest.read_timeout_ms)}
        if self._rest.dialect.max_bytes:
            limits["max_bytes"] = str(self._rest.read_max_bytes)
        answer = await self._asked(
            session, "GET", f"{base_uri}/records", self._most, params=limits, headers=_BINARY
        )
        at_us = now_us()
        if answer.status != httpx.codes.OK:
            raise InstanceGoneError(answer.said(), answer.status)
        body = b"[]" if self._rest.auto_commit and not answer.body else answer.body
        partitions, offsets, values = records(body)
        self._note_home(answer.instance, at_us, partitions)
        if values:
            self._note(partitions, offsets, values, at_us)
            self._deliveries.tick()
        else:
            self._deliveries.rotate()
        await self._commit_written(session, base_uri)
        self._cells[Cell.CPU_US] = cpu_us() if self._actor.endswith("-0") else 0

    def _note_home(self, instance: str, at_us: int, partitions: list[int]) -> None:
        self._heard |= set(partitions)
        if at_us < self._home_us + _HOME_US:
            return
        self._homes.append(
            {
                "group": self._rest.group,
                "consumer": self._actor,
                "instance": instance,
                "at_us": at_us,
                "partitions": [len(self._heard)],
            }
        )
        self._home_us, self._heard = at_us, set()

    def _note(
        self, partitions: list[int], offsets: list[int], values: list[bytes | None], at_us: int
    ) -> None:
        who = identities(self._tag, values)
        if not self._rest.auto_commit:
            self._positions |= dict(zip(partitions, offsets, strict=True))
        self._cells[Cell.DELIVERED] += len(values)
        self._deliveries.append(
            {
                "group": self._rest.group,
                "consumer": self._actor,
                "topic": self._rest.topic,
                "partition": np.array(partitions, np.int32),
                "offset": np.array(offsets, np.int64),
                "producer": who.producer,
                "seq": who.seq,
                "intended_us": who.intended_us,
                "received_us": at_us,
                "via": "rest",
            }
        )

    async def _commit_written(self, session: httpx.AsyncClient, base_uri: str) -> None:
        if self._writing and self._deliveries.durable(self._file):
            try:
                await self._commit(session, base_uri, self._writing)
                self._refused = 0
            except CommitRefusedError as error:
                self._refused += 1
                if self._refused >= _REFUSALS:
                    raise
                print(f"{now_us()} {self._actor}: reads on, though {error}", file=sys.stderr, flush=True)
                if not error.rebalanced:
                    return  # asked again after the next read
                # Who has a partition now reads on from its last commit, also where that is this member: what
                # was read since then is no longer its to commit.
                self._positions = {}
            self._writing = {}
        if self._positions and not self._writing:
            self._writing, self._positions = self._positions, {}
            self._file = self._deliveries.newest()

    async def _write_and_commit(self, session: httpx.AsyncClient, base_uri: str) -> None:
        self._deliveries.flush()
        await self._commit(session, base_uri, self._writing | self._positions)

    async def _commit(self, session: httpx.AsyncClient, base_uri: str, positions: dict[int, int]) -> None:
        """Commit the last offset read of each partition, as the proxy's dialect names it."""
        if not positions:
            return
        committed = self._rest.dialect.committed
        offsets = [
            {"topic": self._rest.topic, "partition": partition, "offset": committed(offset)}
            for partition, offset in positions.items()
        ]
        await self._ask(session, "POST", f"{base_uri}/offsets", {"offsets": offsets}, CommitRefusedError)

    async def _delete(self, session: httpx.AsyncClient, base_uri: str) -> None:
        """Leave the group in order where that is still possible; else the proxy's time-out does it."""
        with contextlib.suppress(httpx.HTTPError, InstanceGoneError):
            await self._asked(session, "DELETE", base_uri, headers=_V2, timeout=_GOODBYE_S)

    async def _ask(
        self,
        session: httpx.AsyncClient,
        method: str,
        url: str,
        body: dict[str, Any],
        failed: type[InstanceGoneError] = InstanceGoneError,
    ) -> ConsumerResponse:
        """Return a successful answer; raises InstanceGoneError, ``failed`` when the proxy tried in vain."""
        answer = await self._asked(session, method, url, json=body, headers=_V2)
        if answer.status == httpx.codes.INTERNAL_SERVER_ERROR:
            raise failed(answer.said(), answer.status)
        # A kafka-rest that stops answers what is in flight with 200 and no body, whatever became of it.
        emptied = answer.status == httpx.codes.OK and not answer.body
        if emptied or not httpx.codes.is_success(answer.status):
            raise InstanceGoneError(answer.said(), answer.status)
        return answer

    async def _asked(
        self, session: httpx.AsyncClient, method: str, url: str, most: int = ANSWER_BYTES, **options: Any
    ) -> ConsumerResponse:
        """Return what came back, within bounds on size and time; the login goes to places of ours alone."""
        login = self._login if may_log_in(url, self._rest.url, self._rest.proxies) else None
        withheld = self._login is not None and login is None
        body = bytearray()
        try:
            async with (
                asyncio.timeout(self._whole_s),
                session.stream(method, url, auth=login, **options) as response,
            ):
                async for chunk in response.aiter_bytes():
                    body += chunk
                    if len(body) > most:
                        raise InstanceGoneError(f"{method} {url}: an answer of more than {most:,} bytes")
        except TimeoutError:
            raise InstanceGoneError(f"{method} {url}: no whole answer within {self._whole_s:g} s") from None
        except httpx.InvalidURL as error:
            raise InstanceGoneError(f"{method} {url}: {error}") from None
        asked = f"{method} {response.request.url.path}"
        told = instance_of(response.headers.get) or response.request.url.netloc.decode()
        return ConsumerResponse(asked, response.status_code, bytes(body), told, withheld)


class ConsumerResponse(NamedTuple):
    """What was asked, and what came back from which instance; ``withheld`` tells that no login was sent."""

    asked: str
    status: int
    body: bytes
    instance: str
    withheld: bool

    def said(self) -> str:
        """Say it in one line: status, and code and message where there are any."""
        text = f"{self.asked}: HTTP {self.status} {refusal(self.body, _SAID)}".rstrip()
        if self.withheld and self.status == httpx.codes.UNAUTHORIZED:
            text += "; the login goes to verify.rest.url and .proxies alone, and never from https to http"
        return text
