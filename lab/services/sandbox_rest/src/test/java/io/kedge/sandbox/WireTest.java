package io.kedge.sandbox;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.util.List;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class WireTest {

  private static List<ProducerRecord<byte[], byte[]>> read(String body, Format format) throws IOException {
    return Wire.readProduce(new ByteArrayInputStream(body.getBytes(UTF_8)), "t", format);
  }

  @Test
  void binaryRecordsAreDecodedInTheirOrder() throws IOException {
    var records =
        read("{\"key_schema_id\":1,\"records\":[{\"key\":\"AP8=\",\"value\":\"YQ==\",\"partition\":3},{\"value\":null}]}",
            Format.BINARY);
    assertEquals(2, records.size());
    assertArrayEquals(new byte[] {0, -1}, records.get(0).key());
    assertArrayEquals(new byte[] {'a'}, records.get(0).value());
    assertEquals(3, records.get(0).partition());
    assertNull(records.get(1).key());
    assertNull(records.get(1).value());
    assertNull(records.get(1).partition());
  }

  @Test
  void jsonValuesKeepTheirNumbers() throws IOException {
    var records = read("{\"records\":[{\"value\":{\"a\": 0.10000000000000000001}},{\"value\":\"s\"}]}", Format.JSON);
    assertEquals("{\"a\":0.10000000000000000001}", new String(records.get(0).value(), UTF_8));
    assertEquals("\"s\"", new String(records.get(1).value(), UTF_8));
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "{\"records\":[|400",
        "|400",
        "[]|400",
        "{\"records\":[]}|422",
        "{\"records\":{}}|400",
        "{}|422",
        "{\"other\":{}}|422",
        "{\"records\":[1]}|400",
        "{\"records\":[{\"value\":1}]}|400",
        "{\"records\":[{\"value\":\"*\"}]}|400",
        "{\"records\":[{\"partition\":\"x\"}]}|400",
        "{\"records\":[{\"other\":1}]}|422",
      })
  void malformedRequestIsRefused(String body, int status) {
    String given = body == null ? "" : body;
    assertEquals(status, assertThrows(RestError.class, () -> read(given, Format.BINARY)).status());
  }

  @Test
  void recordsAreWrittenInTheirFormat() {
    var binary = new ConsumerRecord<>("t", 1, 7L, new byte[] {0, -1}, new byte[] {'a'});
    assertEquals(
        "[{\"topic\":\"t\",\"key\":\"AP8=\",\"value\":\"YQ==\",\"partition\":1,\"offset\":7}]",
        new String(Wire.writeRecords(List.of(binary), Format.BINARY), UTF_8));
    var json = new ConsumerRecord<>("t", 1, 8L, (byte[]) null, "{\"a\":[1]}".getBytes(UTF_8));
    assertEquals(
        "[{\"topic\":\"t\",\"key\":null,\"value\":{\"a\":[1]},\"partition\":1,\"offset\":8}]",
        new String(Wire.writeRecords(List.of(json), Format.JSON), UTF_8));
  }

  @Test
  void errorHasCodeAndMessage() {
    assertEquals(
        "{\"error_code\":40403,\"message\":\"Consumer instance not found.\"}",
        new String(Wire.writeError(RestError.instanceNotFound()), UTF_8));
  }
}
