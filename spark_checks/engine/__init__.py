"""How an audit computes on Spark: what is aggregated, why it is exact, how it grows.

One record, from the ledger to its verdict, in four files:

1. ``engine/readers.py``: Spark reads the evidence, wherever it lies, held against the contract
   (``engine/contract.py``).
2. ``engine/facts.py``: the record's row becomes part of a digest of its block (65,536 sequence numbers of one
   producer): a count and two sums of 64-bit hashes of identity, place and checksum. The same is done with the
   row that was found in the topic. For deliveries identity and offset alone are hashed, by blocks of 65,536
   offsets (``engine/blocks.py``).
   Other facts are counts by second, times in grains of 10 ms, latencies by value of three digits.
3. ``delivery/producer_to_topic.py`` (and ``topic_to_group.py`` for the second hop): digests of both sides are
   compared, block by block. Only the rows of blocks that differ are joined, by which each record is named.
4. ``delivery/check.py``: counts and examples become the verdict.

Why it is exact. Equal digests mean equal sets of rows, but for chance: about one of 2^64 a block. Digests do
not depend on the order of rows, nor on how files cut them. Different digests prove a difference, but do not
name it: that is left to the join, which sees all rows of the blocks that differ. So a verdict never rests on
a sample, and none of its counts is an estimate. Latencies are rounded up to three digits.

Order within a partition is a matter of neighbours. A window would shuffle and sort every record, though files
hold them nearly in order already. So each Arrow batch is reduced to its stretches in order
(``engine/ordered_runs.py``), and a window looks at these. It is the one function of the checks in Python.

How it grows. Work grows with the rows. Digests are joined by Spark, and counts rolled up by it; what is
collected grows with the seconds of a run, and with its partitions. Events in grains, by which the gaps
around restarts are found, stay with Spark too: a row a partition and 10 ms, eight million at most. Rows are
shuffled only where digests differ, of an application's topics, and of a mirror whose partitions are not its
source's one for one.

Where the line is. Whatever grows with the records or with the time of a run, Spark's tasks aggregate: also
what is sampled (states of groups, ends of topics, processes, memory). The driver holds what that comes to,
some thousands of rows, and two tables that grow with neither: actions and settings (``readers.SMALL``).
"""
