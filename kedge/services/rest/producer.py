"""Rules for the producer of a REST proxy: its buffer, how long it waits for more records, and for brokers."""

from __future__ import annotations

from typing import Final

from kedge.plan.settings import KIB, MIB, Choice, Sheet
from kedge.plan.values import int_or_none
from kedge.services.clients.profiles import JAVA_DEFAULTS
from kedge.services.rest.source_names import GUIDE, MEASURED, REAL
from kedge.services.rest.traffic import ProcessTraffic, buffer_for, request_bytes
from kedge.services.rest.variables import RestWorkload

BUFFER_BYTES: Final = int(JAVA_DEFAULTS["buffer.memory"])
#: A buffer grows so far by itself to hold a request whole.
LARGEST_PLANNED_BUFFER: Final = 256 * MIB
#: The shortest round trip over which larger batches were measured to help.
_FAR_MS: Final = 20
#: What was in flight then: 32 requests of 100 records of 100 bytes. With an eighth of it the rate fell.
_FAR_IN_FLIGHT_BYTES: Final = 320_000
#: The size that was measured.
_FAR_BATCH_BYTES: Final = 128 * KIB


def plan_buffer(sheet: Sheet, file: str, workload: RestWorkload, heap_mib: int) -> int:
    """Plan the buffer of the one producer of a process so that it holds a request; return it in bytes."""
    most = max(BUFFER_BYTES, min(LARGEST_PLANNED_BUFFER, heap_mib * MIB // 2))
    chosen = buffer_for(workload, BUFFER_BYTES, most)
    default = Choice(
        BUFFER_BYTES,
        f"the default, {BUFFER_BYTES // MIB} MiB for the one producer of a process, "
        f"{100 * BUFFER_BYTES // MIB // heap_mib} percent of its heap of {heap_mib} MiB",
        "MapR article, How to increase the memory buffer",
        "documented",
    )
    larger = Choice(
        chosen,
        f"a request of {request_bytes(workload)} bytes fits into it whole; {LARGEST_PLANNED_BUFFER // MIB} "
        "MiB and half of the heap at most",
        "MapR article, How to increase the memory buffer",
        "estimate",
    )
    key = "producer.buffer.memory"
    value = sheet.put(file, key, "rest.producer.buffer", default, larger if chosen > BUFFER_BYTES else None)
    return int_or_none(value) or BUFFER_BYTES


def plan_linger(sheet: Sheet, file: str, workload: RestWorkload) -> None:
    """Plan what the producer of a client of 4.0 or later waits for: single records gain nothing by it."""
    if workload.records_per_request > 1:
        return
    key = "producer.linger.ms"
    sheet.put(
        file,
        key,
        "rest.producer.linger",
        _unnamed(key),
        Choice(
            0,
            "a request of one record waits out the linger of 5 ms that clients have since 4.0: 0 gave 2.6 "
            "times the records with 16 clients, 4.9 times with one",
            f"{MEASURED}, Producing",
            "measured",
        ),
    )


def plan_batch(
    sheet: Sheet, file: str, requests: ProcessTraffic, path_ms: float | None, buffer_bytes: int
) -> None:
    """Plan larger batches on a long network path, for many requests in flight.

    ``path_ms`` is the round trip of the host's longest path, which is taken for the one to the brokers. With
    few requests in flight larger batches are slower: records wait out the linger that smaller ones cut short.
    """
    in_flight = requests.concurrent * requests.bytes_each
    if path_ms is None or path_ms < _FAR_MS or not requests.told or in_flight < _FAR_IN_FLIGHT_BYTES:
        return
    key = "producer.batch.size"
    because = (
        f"the host's longest network path takes {path_ms:g} ms: with 20 and 60 ms to the brokers, batches of "
        f"{_FAR_BATCH_BYTES // KIB} KiB gave 1.1 and 1.2 times the records/s of the default of 16 KiB, and "
        f"the p99 of answers fell from 51 ms to 43 and from 131 to 90, with {_FAR_IN_FLIGHT_BYTES} bytes in "
        f"flight (here {in_flight}); the price: each partition that is written to takes a whole batch of the "
        f"buffer, so {buffer_bytes // MIB} MiB are enough for {buffer_bytes // _FAR_BATCH_BYTES}"
    )
    measured = Choice(_FAR_BATCH_BYTES, because, f"{REAL}, What producing gains", "measured")
    sheet.put(file, key, "rest.producer.batch", _unnamed(key), measured)


def plan_waits(sheet: Sheet, file: str, prefix: str, workload: RestWorkload) -> None:
    """Plan for how long records wait that cannot be delivered: no longer than a client does.

    A record may wait for its topic and then for its delivery: a third of the time, then two. ``prefix``
    stands before a key of the producer. What a profile has put stays as it is.
    """
    wait = workload.produce_wait_ms
    third = f"a third of the {wait} ms for which a client waits for its answer"
    put = {setting.key: setting.value for setting in sheet.settings}

    def choose(name: str, value: int, because: str) -> int | None:
        key = f"{prefix}{name}"
        if key in put:
            return int_or_none(put[key])
        measured = Choice(value, because, f"{REAL}, Produce requests that cannot succeed", "measured")
        return int_or_none(sheet.put(file, key, "rest.producer.waits", _unnamed(key), measured))

    choose(
        "max.block.ms",
        wait // 3,
        f"{third}: each record of a topic that does not exist waits this long, one after the other; three "
        "took 180 s at the default of 60 s, 30 s with 10",
    )
    delivery = choose(
        "delivery.timeout.ms",
        wait * 2 // 3,
        f"two thirds of the {wait} ms for which a client waits for its answer: records whose broker was gone "
        "took 120 s at the default, 20 with 20",
    )
    choose(
        "request.timeout.ms",
        min(wait // 3, (delivery or wait) // 2),
        f"{third}, half of the delivery's at most: a record that a broker did not take is sent again in time",
    )


def _unnamed(key: str) -> Choice:
    """Return the documented form of a key that the documents do not name: it is left out."""
    return Choice(None, f"the guide does not name {key}", GUIDE, "documented")
