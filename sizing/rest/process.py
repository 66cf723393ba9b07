"""One REST process to plan, and how many of them a host gets."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from sizing.clients.groups import Coordinator
from sizing.core.settings import Advice, Sheet
from sizing.host.variables import HostFacts
from sizing.inventory.security import Security
from sizing.rest.capacity import instances_for
from sizing.rest.jetty import Requests, requests_of
from sizing.rest.memory import (
    HEAP_LIMIT_MIB,
    MEASURED,
    MOST_INSTANCES,
    Connection,
    Load,
    documented_heap,
    instances_for_heap,
    load_of,
    measured_heap,
)
from sizing.rest.record import Distribution
from sizing.rest.variables import KafkaRest

SERVICE: Final = "kafka_rest"

#: Measurements, Producing: records in a request -> records/s of one process on two cores, warm.
_PRODUCED: Final = {1: 2_006, 10: 56_400, 100: 193_000, 1000: 227_000}
#: The same, Producing: a JVM that has just started does half.
_COLD: Final = 2
_CORES_MEASURED: Final = 2


@dataclass(frozen=True, slots=True)
class Process:
    """One instance of a host, with all that its settings follow from.

    ``number`` counts from 0 on the host; ``small_fetch`` says that its readers' fetches are bounded to keep
    the heap within its limit; ``stall_s`` is the service level for a group that gets nothing; ``coordinator``
    is what its groups find at the brokers; ``security`` is what its cluster asks of clients.
    """

    distribution: Distribution
    host: str
    address: str
    number: int
    instances: int
    servers: str
    balancer_url: str | None
    stall_s: float | None
    variables: KafkaRest
    facts: HostFacts
    small_fetch: bool
    coordinator: Coordinator
    security: Security | None = None

    @property
    def scheme(self) -> str:
        """What its URLs begin with."""
        return "https" if self.variables.tls else "http"

    @property
    def port(self) -> int:
        """The port on which it listens."""
        return self.variables.first_port + self.number

    @property
    def id(self) -> str:
        """The name that tells it from all others, whatever hosts come and go."""
        return f"{self.host}-{self.port}"

    @property
    def load(self) -> Load:
        """Its share of what its host carries."""
        connection = self.distribution.connection
        return load_of(self.variables, self.instances, connection, small_fetch=self.small_fetch)

    @property
    def requests(self) -> Requests:
        """Its share of the requests that reach its host."""
        return requests_of(self.variables.workload, self.instances)


def instance_count(
    sheet: Sheet,
    distribution: Distribution,
    variables: KafkaRest,
    facts: HostFacts,
    advice: Advice,
    *,
    dedicated: bool,
) -> tuple[int, bool]:
    """Return the number of processes of a host, and whether their readers' fetches are bounded.

    From cores and load, then as many more as keep every heap within 8 GiB; a person's number stands, and is
    held against the same limit.
    """
    documented = advice == "documented"
    given = variables.instances_per_host
    if variables.heap_mib is not None or distribution.jvm is None:
        return given or _from_cores(sheet, variables, facts, advice, dedicated=dedicated), False
    count = given or _from_cores(sheet, variables, facts, advice, dedicated=dedicated)
    connection = distribution.connection
    needed, small_fetch = instances_for_heap(variables, count, connection, documented=documented)
    most = _heap_mib(variables, needed, connection, advice)
    if needed > MOST_INSTANCES or (not documented and most > HEAP_LIMIT_MIB):
        sheet.error(
            "rest.heap.split",
            f"the workload of the host needs more than {MOST_INSTANCES} processes of {HEAP_LIMIT_MIB} MiB "
            "heap",
            "spread kafka_rest_workload over more hosts, or correct it",
        )
        return count, small_fetch
    if needed == count:
        return count, small_fetch
    one = _heap_mib(variables, count, connection, advice, small_fetch=small_fetch)
    if given:
        sheet.error(
            "rest.heap.split",
            f"kafka_rest_instances_per_host is {given}, and each of them would need {one} MiB of heap, above "
            f"{HEAP_LIMIT_MIB}; a process is split over more instances, never grown",
            f"set kafka_rest_instances_per_host to {needed} or more, or take it out",
        )
        return count, small_fetch
    sheet.note(
        "rest.heap.split",
        f"{needed} instances instead of {count}: {variables.workload.consumers} consumer instances on "
        f"{count} would need {one} MiB of heap each, above {HEAP_LIMIT_MIB}",
        "nothing; spread the consumers over more hosts to have fewer",
    )
    return needed, small_fetch


def _from_cores(
    sheet: Sheet, variables: KafkaRest, facts: HostFacts, advice: Advice, *, dedicated: bool
) -> int:
    load = _from_load(sheet, variables, facts)
    if not dedicated:
        sheet.note(
            "rest.dedicated",
            "the host runs other services as well, so it gets one proxy; a dedicated host has the best "
            "performance (MapR article, Run the Proxy on dedicated server(s))",
            "give the proxies hosts of their own, or set kafka_rest_instances_per_host",
        )
        return load
    cores = max(2, facts.cores // 16)
    if advice == "measured" and facts.cores < 2 * _CORES_MEASURED:
        sheet.note(
            "rest.instances",
            f"one instance on {facts.cores} cores by measurement (two processes did 0.85 to 0.99 of one "
            f"where no core is idle; {MEASURED}, Producing), where MapR article, Cluster Architecture says "
            "two or more",
            "set kafka_rest_instances_per_host to 2 where one has to serve while the other restarts",
        )
        cores = 1
    return max(cores, load)


def produced_per_s(records_per_request: int) -> tuple[int, int]:
    """Return the records a second that a process carries on two cores, just started, and the measured size.

    The size is that of the requests that were measured, in records: the next smaller one.
    """
    size = max(n for n in _PRODUCED if n <= records_per_request)
    return _PRODUCED[size] // _COLD, size


def processes_with_cores(facts: HostFacts) -> int:
    """Return how many processes of a host have the cores with which one was measured."""
    return max(1, facts.cores // _CORES_MEASURED)


def _from_load(sheet: Sheet, variables: KafkaRest, facts: HostFacts) -> int:
    workload = variables.workload
    by_measurement = instances_for(sheet, variables, facts)
    if workload.records_per_s is None:
        return 1
    if by_measurement is not None:
        return by_measurement
    each, size = produced_per_s(workload.records_per_request)
    wanted = math.ceil(workload.records_per_s / each)
    room = processes_with_cores(facts)
    if wanted > room:
        sheet.warning(
            "rest.load",
            f"{workload.records_per_s} records/s in requests of {workload.records_per_request} ask for "
            f"{wanted} processes of {_CORES_MEASURED} cores ({each} records/s each: half of what {size} "
            f"records a request did warm; {MEASURED}, Producing), and {facts.cores} cores have room for "
            f"{room}",
            "send more records in a request, or spread the load over more hosts",
        )
    return min(wanted, room)


def _heap_mib(
    variables: KafkaRest, count: int, connection: Connection, advice: Advice, *, small_fetch: bool = True
) -> int:
    if advice == "documented":
        return int(documented_heap(math.ceil(variables.workload.consumers / count)).value or 0)
    return int(measured_heap(load_of(variables, count, connection, small_fetch=small_fetch)).value or 0)
