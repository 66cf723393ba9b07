package io.kedge.sandbox;

import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Supplier;
import java.util.regex.Pattern;
import java.util.regex.PatternSyntaxException;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** One consumer of one client: a KafkaConsumer, what it has fetched, and what the client was given. */
final class ConsumerInstance implements ConsumerRebalanceListener {
  private static final Logger LOG = LoggerFactory.getLogger(ConsumerInstance.class);
  private static final Duration CLOSE_LIMIT = Duration.ofSeconds(5);

  private final String name;
  private final Options options;
  private final KafkaConsumer<byte[], byte[]> consumer;
  private final long idleLimitNanos;

  /** A KafkaConsumer serves one thread at a time; fair, so that a delete is not starved by polls. */
  private final ReentrantLock lock = new ReentrantLock(true);

  private final ArrayDeque<ConsumerRecord<byte[], byte[]>> fetched = new ArrayDeque<>();
  private final Map<TopicPartition, OffsetAndMetadata> returned = new HashMap<>();
  private boolean closed;

  /** Readable without the lock, so that asking who owns what does not wait for a poll. */
  private volatile Set<TopicPartition> assignment = Set.of();

  private volatile long lastUse = System.nanoTime();

  /**
   * How a client wanted its instance.
   *
   * @param autoCommit whether the Kafka client commits by itself
   * @param commitPolled whether a commit without offsets covers what was fetched but not yet returned
   * @param requestTimeoutMs the longest that a read may wait
   * @param minBytes the bytes from which a read returns at once; negative when only time and size end it
   */
  record Options(
      Format format, boolean autoCommit, boolean commitPolled, long requestTimeoutMs, long minBytes) {}

  ConsumerInstance(String name, Options options, KafkaConsumer<byte[], byte[]> consumer, long idleLimitMs) {
    this.name = name;
    this.options = options;
    this.consumer = consumer;
    this.idleLimitNanos = Duration.ofMillis(idleLimitMs).toNanos();
  }

  String name() {
    return name;
  }

  Options options() {
    return options;
  }

  void touch() {
    lastUse = System.nanoTime();
  }

  boolean expired() {
    return System.nanoTime() - lastUse > idleLimitNanos;
  }

  Set<TopicPartition> assignment() {
    return assignment;
  }

  void subscribe(Collection<String> topics) {
    locked(() -> consumer.subscribe(topics, this));
  }

  void subscribe(String topicPattern) {
    Pattern pattern;
    try {
      pattern = Pattern.compile(topicPattern);
    } catch (PatternSyntaxException e) {
      throw RestError.unprocessable("topic_pattern: " + e.getDescription());
    }
    locked(() -> consumer.subscribe(pattern, this));
  }

  void unsubscribe() {
    locked(
        () -> {
          consumer.unsubscribe();
          fetched.clear();
          returned.clear();
          assignment = Set.of();
        });
  }

  Set<String> subscription() {
    return locked(() -> new TreeSet<>(consumer.subscription()));
  }

  /**
   * Gives what is there to {@code taking} and polls once for more, for up to {@code limit}.
   *
   * <p>{@code taking} answers whether it took the record; one that it did not take is kept for the next read.
   */
  void poll(Duration limit, Taking taking) {
    locked(
        () -> {
          touch();
          if (drain(taking) && !taking.enough()) {
            consumer.poll(limit).forEach(fetched::add);
            drain(taking);
          }
        });
  }

  /** Receives records one by one. */
  interface Taking {
    boolean take(ConsumerRecord<byte[], byte[]> record);

    boolean enough();
  }

  private boolean drain(Taking taking) {
    while (!fetched.isEmpty()) {
      ConsumerRecord<byte[], byte[]> record = fetched.peek();
      if (!taking.take(record)) {
        return false;
      }
      fetched.remove();
      TopicPartition partition = new TopicPartition(record.topic(), record.partition());
      if (assignment.contains(partition)) {
        returned.put(partition, new OffsetAndMetadata(record.offset() + 1));
      }
    }
    return true;
  }

  /** Commits what the client was given, without waiting for the broker, as the real proxy does. */
  void commitReturned() {
    locked(
        () -> {
          if (options.commitPolled()) {
            consumer.commitAsync();
          } else if (!returned.isEmpty()) {
            consumer.commitAsync(
                Map.copyOf(returned),
                (offsets, failure) -> {
                  if (failure != null) {
                    LOG.warn("Instance {} could not commit {}: {}", name, offsets, failure.toString());
                  }
                });
          }
        });
  }

  void commit(Map<TopicPartition, OffsetAndMetadata> offsets) {
    locked(() -> consumer.commitSync(offsets));
  }

  Map<TopicPartition, OffsetAndMetadata> committed(Set<TopicPartition> partitions) {
    return locked(() -> consumer.committed(partitions));
  }

  /** Leaves the group and closes; a second call does nothing. */
  void close() {
    lock.lock();
    try {
      if (!closed) {
        closed = true;
        consumer.close(CloseOptions.timeout(CLOSE_LIMIT));
      }
    } finally {
      lock.unlock();
    }
  }

  private void locked(Runnable action) {
    locked(
        () -> {
          action.run();
          return null;
        });
  }

  private <T> T locked(Supplier<T> action) {
    lock.lock();
    try {
      if (closed) {
        throw RestError.instanceNotFound();
      }
      return action.get();
    } finally {
      touch();
      lock.unlock();
    }
  }

  @Override
  public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
    assignment = Set.copyOf(consumer.assignment());
  }

  @Override
  public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
    returned.keySet().removeAll(partitions);
    // What the next owner gets anyway is not given to this client too. With automatic commits it would be lost
    // instead, because the Kafka client has committed it as fetched.
    if (!options.autoCommit()) {
      fetched.removeIf(record -> partitions.contains(new TopicPartition(record.topic(), record.partition())));
    }
    Set<TopicPartition> left = new HashSet<>(assignment);
    left.removeAll(partitions);
    assignment = Set.copyOf(left);
  }

  @Override
  public void onPartitionsLost(Collection<TopicPartition> partitions) {
    onPartitionsRevoked(partitions);
  }
}
