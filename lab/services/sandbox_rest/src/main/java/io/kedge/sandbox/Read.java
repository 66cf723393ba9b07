package io.kedge.sandbox;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.BiConsumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;

/**
 * One read on its way: polls in short turns until time, size or the wanted minimum ends it.
 *
 * <p>Between turns it gives way to other reads that wait for a thread, so that few threads slow many readers but
 * never lock one out.
 */
final class Read implements Runnable, ConsumerInstance.Taking {
  private static final Duration CROWDED_TURN = Duration.ofMillis(5);

  private final ConsumerInstance instance;
  private final long deadlineNanos;
  private final long maxBytes;
  private final long turnMs;
  private final Readers pool;
  private final AtomicBoolean stopping;
  private final BiConsumer<List<ConsumerRecord<byte[], byte[]>>, Throwable> whenDone;
  private final List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
  private long bytes;
  private boolean full;

  Read(
      ConsumerInstance instance,
      long timeoutMs,
      long maxBytes,
      long turnMs,
      Readers pool,
      AtomicBoolean stopping,
      BiConsumer<List<ConsumerRecord<byte[], byte[]>>, Throwable> whenDone) {
    this.instance = instance;
    this.deadlineNanos = System.nanoTime() + Duration.ofMillis(timeoutMs).toNanos();
    this.maxBytes = maxBytes;
    this.turnMs = Math.max(1, turnMs);
    this.pool = pool;
    this.stopping = stopping;
    this.whenDone = whenDone;
  }

  @Override
  public void run() {
    try {
      do {
        instance.poll(turn(), this);
        if (!finished() && pool.crowded()) {
          pool.execute(this);
          return;
        }
      } while (!finished());
    } catch (RuntimeException | OutOfMemoryError e) {
      // Too little memory for one answer must not leave its client waiting for ever.
      whenDone.accept(null, e);
      return;
    }
    whenDone.accept(records, null);
  }

  private Duration turn() {
    if (pool.crowded()) {
      return CROWDED_TURN;
    }
    Duration left = Duration.ofNanos(Math.max(0, deadlineNanos - System.nanoTime()));
    Duration turn = Duration.ofMillis(turnMs);
    return left.compareTo(turn) < 0 ? left : turn;
  }

  private boolean finished() {
    return enough() || stopping.get() || System.nanoTime() >= deadlineNanos;
  }

  @Override
  public boolean enough() {
    long minimum = instance.options().minBytes();
    return full || (minimum >= 0 && bytes > minimum);
  }

  @Override
  public boolean take(ConsumerRecord<byte[], byte[]> record) {
    int size = Math.max(0, record.serializedKeySize()) + Math.max(0, record.serializedValueSize());
    if (bytes + size >= maxBytes) {
      full = true;
      return false;
    }
    bytes += size;
    records.add(record);
    return true;
  }
}
