"""The evidence tables: one contract for those who write evidence and for the checks that read it.

Every ``*_us`` column is microseconds, times since the epoch in UTC. A folder under ``evidence/`` holds the
Parquet files of one table. Writers take their Arrow schema from here (:func:`arrow_schema`).
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

_TYPES: Final = {
    "string": pa.string(),
    "int": pa.int32(),
    "long": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
}
#: Marks a column that evidence may lack: it is judged all the same, and what the column tells is unknown.
_OPTIONAL: Final = {"optional": "true"}


def _table(columns: str) -> pa.Schema:
    """Build a schema from ``name:type`` words.

    A trailing ``?`` marks a column that may be null, ``??`` one that may be absent as well.
    """
    fields = []
    for word in columns.split():
        name, kind = word.split(":")
        metadata = _OPTIONAL if kind.endswith("??") else None
        fields.append(pa.field(name, _TYPES[kind.rstrip("?")], kind.endswith("?"), metadata))
    return pa.schema(fields)


#: A record that a generator meant to send. ``outcome`` is acked, failed or unknown; partition, offset and
#: acked_us are null unless acked. ``crc`` is the checksum of the value (kedge.evidence.record). ``instance``
#: is the REST instance (host:port) that answered, or was sent to directly; null by the Kafka protocol.
LEDGER: Final = _table(
    "producer:int seq:long topic:string partition:int? offset:long? crc:long bytes:int intended_us:long "
    "sent_us:long? acked_us:long? outcome:string error:string?? via:string instance:string?"
)

#: A record found in a topic. producer, seq, crc and intended_us are null when the value carries no identity
#: of the run. ``key_ok`` says whether the key is the one that the generator gave the record, null where
#: run.json does not say how keys were made.
#: ``timestamp_type`` says what ``timestamp_us`` is: create (the client's clock, before sending) or append
#: (the broker's clock); only the latter is a time of append. The hashes are of 64 bits,
#: all of a table by one function.
RECORDS: Final = _table(
    "cluster:string topic:string partition:int offset:long timestamp_us:long timestamp_type:string?? "
    "producer:int? seq:long? intended_us:long?? crc:long? crc_ok:boolean? key_ok:boolean?? key_hash:long? "
    "value_hash:long?? headers_hash:long? bytes:int"
)

#: A record that a consumer got; ``intended_us`` is read from its value, as producer and seq are.
DELIVERIES: Final = _table(
    "group:string consumer:string topic:string partition:int offset:long producer:int? seq:long? "
    "intended_us:long?? received_us:long via:string"
)

#: One sample of a group: its state, the number of members and of assigned partitions.
GROUP_STATES: Final = _table("group:string at_us:long state:string members:int assigned:int")

#: One change of ownership; ``event`` is assigned, revoked or lost.
ASSIGNMENTS: Final = _table("group:string consumer:string topic:string partition:int event:string at_us:long")

#: Where a consumer through REST is at home, about once a second: the instance (host:port) that answers its
#: reads, and of how many partitions it got records since the row before.
HOMES: Final = _table("group:string consumer:string instance:string at_us:long partitions:int")

#: Something done to an instance; ``action`` is drain, stop, start, reload, ready, undrain, kill, or what is
#: waited for around that: gate, hold.
ACTIONS: Final = _table(
    "host:string service:string instance:string action:string started_us:long ended_us:long ok:boolean"
)

#: One pause of a garbage collector.
GC_PAUSES: Final = _table("host:string service:string instance:string at_us:long pause_us:long kind:string")

#: One sample of a process.
PROCESSES: Final = _table(
    "host:string service:string instance:string at_us:long rss_bytes:long heap_bytes:long?? "
    "cpu_us:long fds:int"
)

#: One sample of a host. Times since it started: of all its processors, used, idle, and taken by a hypervisor
#: for other machines (part of what was used); in which some process had to wait for memory (its reclaim, its
#: pages) or for a disk, as the kernel tells (PSI), null where it does not. A row for each network interface
#: of the host's own, and what it carried; ``link_bytes_per_s`` is what it can, null where nobody tells. A
#: host without one has a row without one.
PRESSURE: Final = _table(
    "host:string at_us:long cpu_used_us:long? cpu_idle_us:long? cpu_stolen_us:long?? memory_waited_us:long? "
    "io_waited_us:long? interface:string? received_bytes:long? sent_bytes:long? link_bytes_per_s:long?"
)

#: One planned setting beside what runs; ``running`` is null when it could not be read.
SETTINGS: Final = _table(
    "host:string service:string instance:string file:string key:string planned:string running:string?"
)

#: One sample of a Streams application's process and of all its RocksDB stores. ``block_cache_bytes`` counts a
#: cache that stores share once, and holds the memtables where they are charged to it. Null: it was not told.
ROCKSDB: Final = _table(
    "host:string service:string instance:string at_us:long state:string? rss_bytes:long heap_bytes:long? "
    "heap_used_bytes:long? non_heap_bytes:long? direct_bytes:long? stores:int? block_cache_bytes:long? "
    "pinned_bytes:long? memtable_bytes:long? table_readers_bytes:long? restoring_records:long?"
)

#: The end of a partition at a moment; ``record_bytes`` is the mean size of the records before it, null when
#: none came or it is not known.
END_OFFSETS: Final = _table(
    "cluster:string topic:string partition:int at_us:long end_offset:long record_bytes:long?"
)

#: Where a watched group of others stands in a partition, asked at one moment: the offset that it has
#: committed, null before its first commit, and the partition's end. ``group`` is its key in run.json's watch.
GROUP_OFFSETS: Final = _table(
    "group:string topic:string partition:int at_us:long committed:long? end_offset:long?"
)

#: One sample of a balancer's server, counters since the balancer's process began, as HAProxy has them: its
#: answers, those of 4xx and of 5xx, connections that failed, answers that broke off, and requests that wait.
#: Server ``clients`` is the balancer's front: all that clients got, its own answers as well. Of these,
#: ``own_errors`` are what it answers by itself (503) to consumers of a proxy that stopped.
BALANCER: Final = _table(
    "host:string server:string at_us:long status:string requests:long client_errors:long server_errors:long "
    "connection_errors:long response_errors:long queued:long own_errors:long??"
)

#: One sample of what an instance tells Prometheus, where it has an agent for it (kedge.plan.metrics).
METRICS: Final = _table("host:string service:string instance:string at_us:long name:string value:double")

#: A batch of a mirror's source as its producer would fill it, made and compressed while the topic was read.
BATCHES: Final = _table(
    "cluster:string topic:string partition:int codec:string first_offset:long records:int raw_bytes:long "
    "compressed_bytes:long"
)

TABLES: Final[dict[str, pa.Schema]] = {
    "ledger": LEDGER,
    "records": RECORDS,
    "deliveries": DELIVERIES,
    "group_states": GROUP_STATES,
    "assignments": ASSIGNMENTS,
    "homes": HOMES,
    "actions": ACTIONS,
    "gc_pauses": GC_PAUSES,
    "processes": PROCESSES,
    "pressure": PRESSURE,
    "settings": SETTINGS,
    "rocksdb": ROCKSDB,
    "end_offsets": END_OFFSETS,
    "group_offsets": GROUP_OFFSETS,
    "balancer": BALANCER,
    "metrics": METRICS,
    "batches": BATCHES,
}


#: The column that tells when a row came about, by table: rows of another run are known by it. The records
#: are left out: they bear the mark of their run; and the settings: they bear no time.
TIMES: Final[dict[str, str]] = {
    "ledger": "intended_us",
    "deliveries": "received_us",
    "group_states": "at_us",
    "assignments": "at_us",
    "homes": "at_us",
    "actions": "started_us",
    "gc_pauses": "at_us",
    "processes": "at_us",
    "pressure": "at_us",
    "end_offsets": "at_us",
    "group_offsets": "at_us",
    "balancer": "at_us",
    "metrics": "at_us",
    "rocksdb": "at_us",
}


def arrow_schema(table: str) -> pa.Schema:
    """Return the Arrow schema of an evidence table as it stands in files, without marks of ours.

    Raises:
        KeyError: when there is no such table.
    """
    return pa.schema([field.remove_metadata() for field in TABLES[table]])
