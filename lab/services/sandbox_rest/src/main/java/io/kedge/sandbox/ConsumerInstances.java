package io.kedge.sandbox;

import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BiConsumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The consumer instances of this process: made, found, read from, expired and closed. */
final class ConsumerInstances {
  private static final Logger LOG = LoggerFactory.getLogger(ConsumerInstances.class);

  private final ProxyConfig config;
  private final Map<Id, ConsumerInstance> instances = new ConcurrentHashMap<>();
  private final Readers readers;
  private final ScheduledExecutorService expiry;
  private final AtomicBoolean stopping = new AtomicBoolean();

  private record Id(String group, String name) {}

  /** What a client asks for when it makes an instance; null where it leaves the choice. */
  record Wish(
      String name,
      Format format,
      String autoOffsetReset,
      String autoCommit,
      Integer minBytes,
      Integer requestTimeoutMs) {}

  ConsumerInstances(ProxyConfig config) {
    this.config = config;
    this.readers = new Readers(config.consumerThreads(), named("consumer-reader-"));
    this.expiry = Executors.newSingleThreadScheduledExecutor(named("consumer-expiry-"));
    expiry.scheduleWithFixedDelay(this::expire, 1, 1, TimeUnit.SECONDS);
  }

  private static ThreadFactory named(String prefix) {
    AtomicInteger next = new AtomicInteger();
    return work -> {
      Thread thread = new Thread(work, prefix + next.getAndIncrement());
      thread.setDaemon(true);
      return thread;
    };
  }

  /** Makes an instance in a group and returns its name; throws 40902 for a name in use, 42204 for bad settings. */
  String create(String group, Wish wish) {
    String name = wish.name() != null ? wish.name() : generatedName();
    Id id = new Id(group, name);
    if (instances.containsKey(id)) {
      throw RestError.instanceExists();
    }
    Map<String, Object> settings = new HashMap<>(config.consumer());
    settings.put("group.id", group);
    if (wish.autoCommit() != null) {
      settings.put("enable.auto.commit", wish.autoCommit());
    }
    if (wish.autoOffsetReset() != null) {
      settings.put("auto.offset.reset", wish.autoOffsetReset());
    }
    ConsumerInstance.Options options =
        new ConsumerInstance.Options(
            wish.format(),
            Boolean.parseBoolean(String.valueOf(settings.getOrDefault("enable.auto.commit", "true"))),
            config.commitPolled(),
            wish.requestTimeoutMs() != null ? wish.requestTimeoutMs() : config.consumerRequestTimeoutMs(),
            wish.minBytes() != null ? wish.minBytes() : config.fetchMinBytes());
    ConsumerInstance instance =
        new ConsumerInstance(name, options, consumer(settings), config.consumerInstanceTimeoutMs());
    if (instances.putIfAbsent(id, instance) != null) {
      instance.close();
      throw RestError.instanceExists();
    }
    if (stopping.get()) {
      delete(group, name);
      throw RestError.stopping();
    }
    return name;
  }

  private String generatedName() {
    return "rest-consumer-" + (config.id().isEmpty() ? "" : config.id() + "-") + UUID.randomUUID();
  }

  private static KafkaConsumer<byte[], byte[]> consumer(Map<String, Object> settings) {
    try {
      return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    } catch (KafkaException e) {
      // A ConfigException directly, or as the cause of a failed construction.
      String because = e.getCause() == null ? e.getMessage() : e.getCause().getMessage();
      throw RestError.invalidConsumerConfig(because);
    }
  }

  /** The instance; throws 40403 when this process does not have it. Asking keeps it from expiring. */
  ConsumerInstance get(String group, String name) {
    ConsumerInstance instance = instances.get(new Id(group, name));
    if (instance == null) {
      throw RestError.instanceNotFound();
    }
    instance.touch();
    return instance;
  }

  void delete(String group, String name) {
    ConsumerInstance instance = instances.remove(new Id(group, name));
    if (instance == null) {
      throw RestError.instanceNotFound();
    }
    instance.close();
  }

  /** Reads from an instance; times and sizes at or under 0 leave the choice to the configuration. */
  void read(
      ConsumerInstance instance,
      long timeoutMs,
      long maxBytes,
      BiConsumer<List<ConsumerRecord<byte[], byte[]>>, Throwable> whenDone) {
    long most = instance.options().requestTimeoutMs();
    readers.execute(
        new Read(
            instance,
            timeoutMs <= 0 ? most : Math.min(timeoutMs, most),
            maxBytes <= 0 ? config.consumerRequestMaxBytes() : Math.min(maxBytes, config.consumerRequestMaxBytes()),
            config.consumerIteratorBackoffMs(),
            readers,
            stopping,
            whenDone));
  }

  private void expire() {
    for (Iterator<ConsumerInstance> all = instances.values().iterator(); all.hasNext(); ) {
      ConsumerInstance instance = all.next();
      if (instance.expired()) {
        all.remove();
        LOG.info("Instance {} was idle for too long and is closed", instance.name());
        readers.execute(instance::close);
      }
    }
  }

  /** Lets reads under way end with what they have. */
  void endReads() {
    stopping.set(true);
  }

  /** Closes every instance, all at once, so that their groups rebalance now; waits up to the limit. */
  void close(long limitMs) throws InterruptedException {
    endReads();
    expiry.shutdownNow();
    ExecutorService closers = Executors.newCachedThreadPool(named("consumer-closer-"));
    instances.values().forEach(instance -> closers.execute(instance::close));
    closers.shutdown();
    if (!closers.awaitTermination(limitMs, TimeUnit.MILLISECONDS)) {
      LOG.warn("Some consumer instances were not closed within {} ms", limitMs);
    }
    readers.shutdown();
  }
}
