"""Folds over evidence: what is folded, why it is exact, how it grows.

One record, from the ledger to its verdict, in four files:

1. ``engine/folds.py``: in a task, the record's row becomes part of a sum: two 64-bit hashes of its identity,
   place and checksum are added to those of its block (65,536 sequence numbers of one producer). The same is
   done with the row that was found in the topic, and with the delivery, by blocks of 65,536 offsets.
2. ``engine/one_pass.py``: tasks fold ledger, records and deliveries, each read once, and what they return is
   added up. Evidence on this machine is folded by processes of it (``engine/workers.py``), by Spark's tasks
   where the master is a cluster.
3. ``delivery/producer_to_topic.py`` (and ``topic_to_group.py`` for the second hop): sums of both sides are
   compared, block by block. Where they differ, parts of 64 records are folded, and only the rows of parts
   that differ are brought together, by which each record is named (``delivery/record_anomalies.py``,
   ``delivery/positions.py``).
4. ``delivery/check.py``: counts and examples become the verdict.

What else is folded. Any check may add its sums to the pass (``engine/facts.py``): rows by second, times of
acknowledgements and deliveries in grains of 10 ms, latencies by value of three digits. They are made by Arrow
(``engine/aggregates.py``) of the batches that are in memory for the sums anyway. Order within a partition is
kept as stretches: where sequence numbers go down along the offsets, and where positions go back along the
time (``delivery/order.py``, ``topic_to_group.rewinds``). A mirror's partition becomes one number that depends
on the order of its records (``mirror/sequences.py``).

What is read again. An application's outputs are held against its input one by one, since a sum does not
tell when the last of them came. A task takes a range of sequence numbers and reads those parts of the
files that may hold them by their statistics (``one_pass.by_identity``): as topics lie nearly in that
order, all records of one identity meet in one task without a shuffle (``engine/applied.py``). Mirrors'
topics are read for their sequences, for bytes by millisecond (``mirror/fill.py``), and, where the ends of
topics were sampled, for delays (``mirror/lag.py``).

Why it is exact. Equal sums of both hashes, and equal counts, mean equal sets of rows, but for chance: one of
2^128 a block. Sums do not depend on the order of rows, nor on how files and batches cut them, so that they
can be added up in any order; what does depend on it (a stretch's ends, a sequence) is kept with its offsets
and put together by these. Different sums prove a difference, but do not name it: that is left to the exact
comparison, which sees all rows of the parts that differ. So a verdict never rests on a sample, and none of
its counts is an estimate. Latencies are counted by value, and rounded up to three digits.

How it grows. Work grows with the rows: each is read once and folded once, those of an application's
topics twice, those of mirrors up to four times. What is collected grows with producers times blocks, and
with seconds times partitions (of mirrors: milliseconds): some bytes for thousands of rows. Grains become
wider where a long run of many partitions would have more than eight million of them. Rows are brought
together only where sums differ, by tasks where they are many (``MANY`` and ``SMALL`` say from where on).
What is sampled rather than recorded (states of groups, ends of topics, processes, settings) grows with time
alone: it is read by Arrow where the audit runs, 256 MiB of files at most, and Spark plans nothing for it.

What needs Spark. It starts when something first asks for it: many rows that have to be brought together,
damaged records, mirrors that differ or whose batches were compressed, evidence that lies elsewhere. Most
audits on one machine need none of that, and no JVM. Their topics are read without it as well
(``topics.py``): each worker takes ranges of offsets with as many records, librdkafka fetches, and numpy
decodes some thousands of records at a time.

Evidence on a store that Spark reads and Python does not comes to the same functions by ``mapInArrow``.
"""
