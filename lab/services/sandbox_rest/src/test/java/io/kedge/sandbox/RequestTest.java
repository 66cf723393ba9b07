package io.kedge.sandbox;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Test;

class RequestTest {

  @Test
  void contentTypeNamesTheFormat() {
    assertEquals(
        Optional.of(Format.BINARY), Format.ofContent("Application/vnd.kafka.binary.v2+json; charset=utf-8"));
    assertEquals(Optional.of(Format.JSON), Format.ofContent("application/vnd.kafka.json.v2+json"));
    assertEquals(Optional.empty(), Format.ofContent("application/json"));
    assertEquals(Optional.empty(), Format.ofContent(null));
  }

  @Test
  void acceptNamesTheFormatOrLeavesItBinary() {
    assertEquals(Format.JSON, Format.ofAccept("application/vnd.kafka.json.v2+json"));
    assertEquals(Format.JSON, Format.ofAccept("*/*;q=0.1, application/vnd.kafka.json.v2+json"));
    assertEquals(Format.BINARY, Format.ofAccept(Format.V2));
    assertEquals(Format.BINARY, Format.ofAccept(null));
    assertEquals(406, assertThrows(RestError.class, () -> Format.ofAccept("text/html")).status());
  }

  @Test
  void pathIsDecodedSegmentBySegment() {
    assertEquals(List.of(), Paths.segments("/"));
    assertEquals(List.of("topics", "/path:topic"), Paths.segments("/topics/%2Fpath%3Atopic"));
    assertEquals(List.of("topics", "a+b c"), Paths.segments("/topics/a+b%20c"));
    assertEquals(400, assertThrows(RestError.class, () -> Paths.segments("/a%zz")).status());
    assertEquals("a%2Fb%20c", Paths.encode("a/b c"));
  }
}
