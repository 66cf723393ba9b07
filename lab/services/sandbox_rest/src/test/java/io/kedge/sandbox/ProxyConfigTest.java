package io.kedge.sandbox;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class ProxyConfigTest {

  private static ProxyConfig of(String... keysAndValues) throws ProxyConfig.Problem {
    Map<String, String> values = new HashMap<>(Map.of("bootstrap.servers", "broker:9092"));
    for (int i = 0; i < keysAndValues.length; i += 2) {
      values.put(keysAndValues[i], keysAndValues[i + 1]);
    }
    return ProxyConfig.of("f.properties", values);
  }

  @Test
  void defaultsAreThoseOfTheRealProxy() throws ProxyConfig.Problem {
    ProxyConfig config = of();
    assertEquals("[http://0.0.0.0:8082]", config.listeners().toString());
    assertEquals(50, config.consumerThreads());
    assertEquals(1000, config.consumerRequestTimeoutMs());
    assertEquals(64 * 1024 * 1024, config.consumerRequestMaxBytes());
    assertEquals(300_000, config.consumerInstanceTimeoutMs());
    assertEquals(-1, config.fetchMinBytes());
    assertEquals(5000, config.shutdownGracefulMs());
    assertEquals(ProxyConfig.Sigterm.DRAIN, config.sigterm());
    assertEquals(200, config.failedProduceStatus());
  }

  @Test
  void narrowerPrefixOverridesTheClientPrefix() throws ProxyConfig.Problem {
    ProxyConfig config = of("client.acks", "1", "client.linger.ms", "1", "producer.linger.ms", "9");
    assertEquals("1", config.producer().get("acks"));
    assertEquals("9", config.producer().get("linger.ms"));
    assertEquals("1", config.consumer().get("linger.ms"));
    assertEquals("1", config.admin().get("linger.ms"));
    assertEquals("broker:9092", config.admin().get("bootstrap.servers"));
  }

  @Test
  void producerIsNeverIdempotent() throws ProxyConfig.Problem {
    assertEquals("false", of("producer.enable.idempotence", "true").producer().get("enable.idempotence"));
  }

  @Test
  void consumerPollsThirtyRecordsUnlessToldOtherwise() throws ProxyConfig.Problem {
    assertEquals("30", of().consumer().get("max.poll.records"));
    assertEquals("500", of("consumer.max.poll.records", "500").consumer().get("max.poll.records"));
  }

  @Test
  void proxysOwnKeysDoNotReachTheConsumer() throws ProxyConfig.Problem {
    ProxyConfig config =
        of("consumer.request.timeout.ms", "77", "consumer.threads", "3", "consumer.fetch.min.bytes", "5");
    assertEquals(77, config.consumerRequestTimeoutMs());
    assertEquals("30000", config.consumer().get("request.timeout.ms"));
    assertEquals("5", config.consumer().get("fetch.min.bytes"));
    assertTrue(!config.consumer().containsKey("threads"));
    assertEquals(-1, config.fetchMinBytes());
  }

  @Test
  void unknownKeysAreToldFromThoseWithoutEffect() throws ProxyConfig.Problem {
    ProxyConfig config =
        of(
            "tread.pool.max", "1",
            "schema.registry.url", "",
            "producer.linger.ms", "1",
            "consumer.linger.ms", "1",
            "client.linger.ms", "1");
    assertEquals(List.of("consumer.linger.ms", "tread.pool.max"), sorted(config.unknown()));
    assertEquals(List.of("schema.registry.url"), sorted(config.withoutEffect()));
  }

  private static List<String> sorted(Collection<String> keys) {
    return keys.stream().sorted().toList();
  }

  @ParameterizedTest
  @CsvSource({
    "bootstrap.servers, '', bootstrap.servers is blank",
    "consumer.threads, many, consumer.threads=many must be a whole number",
    "fetch.min.bytes, 10000001, must be from -1",
    "listeners, ftp://h:1, must hold http://host:port",
    "listeners, http://h, must hold http://host:port",
    "request.queue.capacity, 0, must be at least 1",
    "authentication.method, BEARER, must be NONE or BASIC",
    "sandbox.sigterm, later, 'must be one of DRAIN, EMPTY, CLOSE, DROP'",
  })
  void unusableValueIsNamedWithItsPlace(String key, String value, String complaint) {
    String message = assertThrows(ProxyConfig.Problem.class, () -> of(key, value)).getMessage();
    assertTrue(message.startsWith("f.properties: " + key), message);
    assertTrue(message.contains(complaint), message);
  }

  @Test
  void httpsListenerNeedsAPemStore() throws ProxyConfig.Problem {
    String missing =
        assertThrows(ProxyConfig.Problem.class, () -> of("listeners", "https://h:1")).getMessage();
    assertTrue(missing.contains("ssl.keystore.location is missing"), missing);
    String[] store = {"listeners", "https://h:1", "ssl.keystore.location", "/k.pem"};
    String jks = assertThrows(ProxyConfig.Problem.class, () -> of(store)).getMessage();
    assertTrue(jks.contains("ssl.keystore.location needs ssl.keystore.type=PEM"), jks);
    ProxyConfig.Tls tls =
        of("listeners", "https://h:1", "ssl.keystore.location", "/k.pem", "ssl.keystore.type", "PEM")
            .tls()
            .orElseThrow();
    assertEquals(ProxyConfig.ClientAuthentication.NONE, tls.clients());
    assertTrue(tls.hostCheck());
  }

  @Test
  void missingFileIsNamed() {
    Path file = Path.of("no-such-file.properties");
    String message = assertThrows(ProxyConfig.Problem.class, () -> ProxyConfig.read(file)).getMessage();
    assertTrue(message.startsWith("no-such-file.properties: no such file"), message);
  }
}
