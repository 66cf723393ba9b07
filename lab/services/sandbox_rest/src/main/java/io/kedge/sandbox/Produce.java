package io.kedge.sandbox;

import com.fasterxml.jackson.core.JsonGenerator;
import java.io.IOException;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.errors.TimeoutException;

/** One produce request on its way: sends its records and reports when the outcome of the last is known. */
final class Produce {
  private final int[] partitions;
  private final long[] offsets;
  private final Exception[] failures;
  private final AtomicInteger open;
  private final Consumer<Produce> whenDone;

  private Produce(int count, Consumer<Produce> whenDone) {
    this.partitions = new int[count];
    this.offsets = new long[count];
    this.failures = new Exception[count];
    this.open = new AtomicInteger(count);
    this.whenDone = whenDone;
  }

  /**
   * Sends the records in their order. {@code whenDone} is called once, on the thread that learnt the last outcome.
   *
   * <p>A send that blocked for max.block.ms in vain fails the rest of the request too: waiting again for each
   * record would hold a request of a hundred for a hundred times as long.
   */
  static void send(
      Producer<byte[], byte[]> producer,
      List<ProducerRecord<byte[], byte[]>> records,
      Consumer<Produce> whenDone) {
    Produce request = new Produce(records.size(), whenDone);
    Exception blocked = null;
    for (int i = 0; i < records.size(); i++) {
      int index = i;
      if (blocked != null) {
        request.settle(index, null, blocked);
        continue;
      }
      long before = System.nanoTime();
      try {
        producer.send(records.get(i), (metadata, failure) -> request.settle(index, metadata, failure));
      } catch (RuntimeException e) {
        request.settle(index, null, e);
      }
      // Only a failure that was there when send came back after a wait is one of waiting.
      boolean waited = System.nanoTime() - before > 100_000_000L;
      if (waited && request.failures[index] instanceof TimeoutException timeout) {
        blocked = timeout;
      }
    }
  }

  private void settle(int index, RecordMetadata metadata, Exception failure) {
    if (failure == null) {
      partitions[index] = metadata.partition();
      offsets[index] = metadata.offset();
    } else {
      failures[index] = failure;
    }
    if (open.decrementAndGet() == 0) {
      whenDone.accept(this);
    }
  }

  /**
   * The HTTP status: 200 whatever happened to single records, 401 or 403 where the broker refused the proxy, and
   * {@code failedStatus} where every record failed.
   */
  int status(int failedStatus) {
    boolean allFailed = true;
    for (Exception failure : failures) {
      if (failure == null) {
        allFailed = false;
      } else if (RestError.codeOf(failure) < 50000) {
        return RestError.codeOf(failure) / 100;
      }
    }
    return allFailed ? failedStatus : 200;
  }

  void write(JsonGenerator out) throws IOException {
    out.writeStartObject();
    out.writeArrayFieldStart("offsets");
    for (int i = 0; i < offsets.length; i++) {
      out.writeStartObject();
      if (failures[i] == null) {
        out.writeNumberField("partition", partitions[i]);
        out.writeNumberField("offset", offsets[i]);
        out.writeNullField("error_code");
        out.writeNullField("error");
      } else {
        out.writeNullField("partition");
        out.writeNullField("offset");
        out.writeNumberField("error_code", RestError.codeOf(failures[i]));
        out.writeStringField("error", String.valueOf(failures[i].getMessage()));
      }
      out.writeEndObject();
    }
    out.writeEndArray();
    out.writeNullField("key_schema_id");
    out.writeNullField("value_schema_id");
    out.writeEndObject();
  }
}
