package io.kedge.sandbox;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.clients.producer.MockProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.TopicAuthorizationException;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.junit.jupiter.api.Test;

class ProduceTest {
  private final MockProducer<byte[], byte[]> producer =
      new MockProducer<>(false, null, new ByteArraySerializer(), new ByteArraySerializer());
  private final List<Produce> done = new ArrayList<>();

  private void send(int records) {
    List<ProducerRecord<byte[], byte[]>> all = new ArrayList<>();
    for (int i = 0; i < records; i++) {
      all.add(new ProducerRecord<>("t", 0, null, new byte[] {(byte) i}));
    }
    Produce.send(producer, all, done::add);
  }

  private String answer() {
    return new String(Wire.bytes(done.get(0)::write), UTF_8);
  }

  @Test
  void answersOnceTheLastOutcomeIsKnown() {
    send(2);
    producer.completeNext();
    assertEquals(0, done.size());
    producer.completeNext();
    assertEquals(1, done.size());
    assertEquals(
        "{\"offsets\":[{\"partition\":0,\"offset\":0,\"error_code\":null,\"error\":null},"
            + "{\"partition\":0,\"offset\":1,\"error_code\":null,\"error\":null}],"
            + "\"key_schema_id\":null,\"value_schema_id\":null}",
        answer());
  }

  @Test
  void failureStandsInItsRecordsPlace() {
    send(2);
    producer.completeNext();
    producer.errorNext(new RecordTooLargeException("big"));
    assertEquals(200, done.get(0).status(503));
    assertEquals(
        "{\"offsets\":[{\"partition\":0,\"offset\":0,\"error_code\":null,\"error\":null},"
            + "{\"partition\":null,\"offset\":null,\"error_code\":50002,\"error\":\"big\"}],"
            + "\"key_schema_id\":null,\"value_schema_id\":null}",
        answer());
  }

  @Test
  void statusIsTheConfiguredOneWhereEveryRecordFailed() {
    send(1);
    producer.errorNext(new TimeoutException("late"));
    assertEquals(200, done.get(0).status(200));
    assertEquals(503, done.get(0).status(503));
  }

  @Test
  void refusedProxyIsForbidden() {
    send(1);
    producer.errorNext(new TopicAuthorizationException("no"));
    assertEquals(403, done.get(0).status(200));
  }
}
