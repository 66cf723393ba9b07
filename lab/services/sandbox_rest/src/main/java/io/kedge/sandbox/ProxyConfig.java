package io.kedge.sandbox;

import java.io.IOException;
import java.io.Reader;
import java.net.URI;
import java.net.URISyntaxException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;

/**
 * What a kafka-rest.properties file says, with the defaults of kafka-rest 8.3.1.
 *
 * <p>Times are milliseconds, sizes bytes. Traits ({@code sandbox.*}) are read from the file, or from the system
 * property of the same name, which wins.
 */
record ProxyConfig(
    List<URI> listeners,
    List<URI> advertisedListeners,
    String hostName,
    String id,
    int consumerThreads,
    int consumerRequestTimeoutMs,
    long consumerRequestMaxBytes,
    int consumerInstanceTimeoutMs,
    int consumerIteratorBackoffMs,
    int fetchMinBytes,
    int threadPoolMin,
    int threadPoolMax,
    int requestQueueCapacity,
    int idleTimeoutMs,
    int shutdownGracefulMs,
    int acceptBacklog,
    int requestHeaderBytes,
    int responseHeaderBytes,
    boolean compression,
    boolean http2,
    Sigterm sigterm,
    int failedProduceStatus,
    boolean commitPolled,
    Optional<Tls> tls,
    Optional<Login> login,
    Map<String, Object> producer,
    Map<String, Object> consumer,
    Map<String, Object> admin,
    Collection<String> withoutEffect,
    Collection<String> unknown) {

  /** A file that cannot be run with; the message is one line: what, where, how to mend. */
  static final class Problem extends Exception {
    private static final long serialVersionUID = 1L;

    Problem(String message) {
      super(message);
    }
  }

  /**
   * How https listeners prove who they are, and which clients they take; {@code trust} may be empty, {@code
   * hostCheck} refuses requests for a host that the certificate does not name.
   */
  record Tls(Path keystore, Optional<Path> trust, ClientAuthentication clients, boolean hostCheck) {}

  /** Whether a client of an https listener has to show a certificate. */
  enum ClientAuthentication {
    NONE,
    REQUESTED,
    REQUIRED
  }

  /** HTTP basic authentication: the section of the JAAS file, and the roles that may come in, * for all. */
  record Login(String realm, List<String> roles) {}

  /** What happens on SIGTERM. */
  enum Sigterm {
    /** The listener stays while requests in flight finish. */
    DRAIN,
    /** As 8.3.1: requests are taken while connections are open; what is in flight then gets 200 without a body. */
    EMPTY,
    /** As 7.9: the listener is gone at once, requests in flight have shutdown.graceful.ms. */
    CLOSE,
    /** As Strimzi's bridge: requests in flight are dropped. */
    DROP
  }

  /** Java's own for a backlog of 0, which is what the real proxy listens with; no key of it changes that. */
  private static final int ACCEPT_BACKLOG = 50;

  private static final Set<String> SCHEMES = Set.of("http", "https");
  private static final String FETCH_MIN_BYTES = "fetch.min.bytes";
  private static final int MAX_FETCH_MIN_BYTES = 10_000_000;
  private static final String KEYSTORE = "ssl.keystore.location";
  private static final String TRUSTSTORE = "ssl.truststore.location";
  private static final String CLIENT_AUTHENTICATION = "ssl.client.authentication";
  private static final String HOST_CHECK = "sni.host.check.enabled";
  private static final String METHOD = "authentication.method";

  /** The proxy's own keys under the consumer prefix, which are no consumer's. */
  private static final Set<String> PROXY_CONSUMER_KEYS =
      Set.of(
          "consumer.threads",
          "consumer.request.timeout.ms",
          "consumer.request.max.bytes",
          "consumer.instance.timeout.ms",
          "consumer.iterator.backoff.ms",
          "consumer.iterator.timeout.ms");

  private static final Set<String> PROXY_PRODUCER_KEYS = Set.of("producer.threads");

  private static final Set<String> PROXY_CLIENT_KEYS = Set.of("client.timeout.ms", "client.init.timeout.ms");

  private static final Set<String> HONOURED =
      Set.of(
          "bootstrap.servers",
          "listeners",
          "port",
          "advertised.listeners",
          "host.name",
          "id",
          FETCH_MIN_BYTES,
          "thread.pool.min",
          "thread.pool.max",
          "request.queue.capacity",
          "idle.timeout.ms",
          "shutdown.graceful.ms",
          "max.request.header.size",
          "max.response.header.size",
          "compression.enable",
          "http2.enabled",
          "sandbox.backlog",
          "sandbox.sigterm",
          "sandbox.failed.produce.status",
          "sandbox.commit.polled",
          KEYSTORE,
          "ssl.keystore.type",
          TRUSTSTORE,
          "ssl.truststore.type",
          CLIENT_AUTHENTICATION,
          HOST_CHECK,
          METHOD,
          "authentication.realm",
          "authentication.roles",
          "consumer.threads",
          "consumer.request.timeout.ms",
          "consumer.request.max.bytes",
          "consumer.instance.timeout.ms",
          "consumer.iterator.backoff.ms");

  /** Keys of the real proxy that the sandbox takes in silence, because nothing it speaks depends on them. */
  private static final Set<String> REAL_BUT_WITHOUT_EFFECT =
      Set.of(
          "schema.registry.url",
          "zookeeper.connect",
          "api.v2.enable",
          "api.v3.enable",
          "api.endpoints.allowlist",
          "api.endpoints.blocklist",
          "kafka.rest.resource.extension.class",
          "streaming.connection.max.duration.ms",
          "producer.threads",
          "consumer.iterator.timeout.ms",
          "simpleconsumer.pool.size.max",
          "simpleconsumer.pool.timeout.ms",
          "client.timeout.ms",
          "client.init.timeout.ms",
          "request.queue.capacity.init",
          "request.queue.capacity.growby",
          "server.connection.limit",
          "connector.connection.limit",
          "dos.filter.enabled",
          "metrics.jmx.prefix",
          "metric.reporters",
          "request.logger.name",
          "rate.limit.enable",
          "rate.limit.permits.per.sec",
          "api.v3.produce.rate.limit.enabled",
          "api.v3.produce.rate.limit.max.requests.per.sec",
          "api.v3.produce.rate.limit.max.bytes.per.sec");

  /** Reads a properties file; throws Problem when it is not there or holds what cannot be run with. */
  static ProxyConfig read(Path file) throws Problem {
    Properties properties = new Properties();
    try (Reader reader = Files.newBufferedReader(file, StandardCharsets.UTF_8)) {
      properties.load(reader);
    } catch (NoSuchFileException e) {
      throw new Problem(file + ": no such file; name a kafka-rest.properties file");
    } catch (IOException | IllegalArgumentException e) {
      throw new Problem(file + ": cannot be read as properties: " + e.getMessage());
    }
    Map<String, String> values = new TreeMap<>();
    properties.stringPropertyNames().forEach(key -> values.put(key, properties.getProperty(key).trim()));
    System.getProperties().stringPropertyNames().stream()
        .filter(key -> key.startsWith("sandbox."))
        .forEach(key -> values.put(key, System.getProperty(key).trim()));
    return of(file.toString(), values);
  }

  /** Makes the configuration of already read keys; {@code source} is what messages name as the place. */
  static ProxyConfig of(String source, Map<String, String> values) throws Problem {
    Values in = new Values(source, values);
    String bootstrap = in.text("bootstrap.servers", "");
    if (bootstrap.isEmpty()) {
      throw new Problem(source + ": bootstrap.servers is blank, name at least one broker as host:port");
    }
    int minimum = in.number(FETCH_MIN_BYTES, -1);
    if (minimum < -1 || minimum > MAX_FETCH_MIN_BYTES) {
      throw in.wrong(FETCH_MIN_BYTES, "must be from -1 (off) to " + MAX_FETCH_MIN_BYTES);
    }
    List<URI> listeners = in.uris("listeners", "http://0.0.0.0:" + in.number("port", 8082));
    return new ProxyConfig(
        listeners,
        in.uris("advertised.listeners", ""),
        in.text("host.name", ""),
        in.text("id", ""),
        in.number("consumer.threads", 50),
        in.number("consumer.request.timeout.ms", 1000),
        in.number("consumer.request.max.bytes", 64 * 1024 * 1024),
        in.number("consumer.instance.timeout.ms", 300_000),
        in.number("consumer.iterator.backoff.ms", 50),
        minimum,
        in.positive("thread.pool.min", 8),
        in.positive("thread.pool.max", 200),
        in.positive("request.queue.capacity", Integer.MAX_VALUE),
        in.number("idle.timeout.ms", 30_000),
        in.number("shutdown.graceful.ms", 5000),
        in.positive("sandbox.backlog", ACCEPT_BACKLOG),
        in.positive("max.request.header.size", 8192),
        in.positive("max.response.header.size", 8192),
        Boolean.parseBoolean(in.text("compression.enable", "true")),
        Boolean.parseBoolean(in.text("http2.enabled", "true")),
        in.choice(Sigterm.class, "sandbox.sigterm", Sigterm.DRAIN),
        in.number("sandbox.failed.produce.status", 200),
        Boolean.parseBoolean(in.text("sandbox.commit.polled", "false")),
        tls(in, listeners),
        login(in),
        producerSettings(values, bootstrap),
        consumerSettings(values, bootstrap),
        clientSettings(values, bootstrap, "admin.", Set.of()),
        values.keySet().stream().filter(REAL_BUT_WITHOUT_EFFECT::contains).toList(),
        values.keySet().stream().filter(ProxyConfig::isUnknown).toList());
  }

  private static Optional<Tls> tls(Values in, List<URI> listeners) throws Problem {
    if (listeners.stream().noneMatch(listener -> "https".equals(listener.getScheme()))) {
      return Optional.empty();
    }
    String keystore = in.text(KEYSTORE, "");
    if (keystore.isEmpty()) {
      throw new Problem(in.source() + ": " + KEYSTORE + " is missing, which an https listener needs");
    }
    in.pem(KEYSTORE, "ssl.keystore.type");
    String trust = in.text(TRUSTSTORE, "");
    if (!trust.isEmpty()) {
      in.pem(TRUSTSTORE, "ssl.truststore.type");
    }
    ClientAuthentication clients =
        in.choice(ClientAuthentication.class, CLIENT_AUTHENTICATION, ClientAuthentication.NONE);
    return Optional.of(
        new Tls(
            Path.of(keystore),
            trust.isEmpty() ? Optional.empty() : Optional.of(Path.of(trust)),
            clients,
            Boolean.parseBoolean(in.text(HOST_CHECK, "true"))));
  }

  private static Optional<Login> login(Values in) throws Problem {
    String method = in.text(METHOD, "NONE");
    if (method.equals("NONE")) {
      return Optional.empty();
    }
    if (!method.equals("BASIC")) {
      throw in.wrong(METHOD, "must be NONE or BASIC; the sandbox knows no other");
    }
    String realm = in.text("authentication.realm", "");
    if (realm.isEmpty()) {
      throw new Problem(in.source() + ": authentication.realm is missing: the section of the JAAS file");
    }
    return Optional.of(new Login(realm, List.of(in.text("authentication.roles", "*").split(","))));
  }

  private static boolean isUnknown(String key) {
    if (HONOURED.contains(key) || REAL_BUT_WITHOUT_EFFECT.contains(key)) {
      return false;
    }
    String setting = key.substring(key.indexOf('.') + 1);
    boolean producers = ProducerConfig.configNames().contains(setting);
    boolean consumers = ConsumerConfig.configNames().contains(setting);
    boolean admins = AdminClientConfig.configNames().contains(setting);
    if (key.startsWith("client.")) {
      return !producers && !consumers && !admins;
    }
    return !(key.startsWith("producer.") && producers
        || key.startsWith("consumer.") && consumers
        || key.startsWith("admin.") && admins);
  }

  private static Map<String, Object> producerSettings(Map<String, String> values, String bootstrap) {
    Map<String, Object> settings = clientSettings(values, bootstrap, "producer.", PROXY_PRODUCER_KEYS);
    settings.put("enable.idempotence", "false");
    return settings;
  }

  private static Map<String, Object> consumerSettings(Map<String, String> values, String bootstrap) {
    Map<String, Object> settings = clientSettings(values, bootstrap, "consumer.", PROXY_CONSUMER_KEYS);
    settings.putIfAbsent("max.poll.records", "30");
    // consumer.request.timeout.ms is the proxy's; the client's own is fixed.
    settings.put("request.timeout.ms", "30000");
    return settings;
  }

  /** What {@code client.} says, overridden by what the narrower prefix says. */
  private static Map<String, Object> clientSettings(
      Map<String, String> values, String bootstrap, String prefix, Set<String> notTheClients) {
    Map<String, Object> settings = new HashMap<>();
    settings.put("bootstrap.servers", bootstrap);
    copyPrefixed(values, "client.", PROXY_CLIENT_KEYS, settings);
    copyPrefixed(values, prefix, notTheClients, settings);
    return settings;
  }

  private static void copyPrefixed(
      Map<String, String> values, String prefix, Set<String> except, Map<String, Object> into) {
    values.forEach(
        (key, value) -> {
          if (key.startsWith(prefix) && !except.contains(key)) {
            into.put(key.substring(prefix.length()), value);
          }
        });
  }

  /** Typed access with messages that name the place. */
  private record Values(String source, Map<String, String> values) {

    String text(String key, String otherwise) {
      return values.getOrDefault(key, otherwise);
    }

    int number(String key, int otherwise) throws Problem {
      String value = values.get(key);
      if (value == null) {
        return otherwise;
      }
      try {
        return Integer.parseInt(value);
      } catch (NumberFormatException e) {
        throw wrong(key, "must be a whole number");
      }
    }

    int positive(String key, int otherwise) throws Problem {
      int value = number(key, otherwise);
      if (value < 1) {
        throw wrong(key, "must be at least 1");
      }
      return value;
    }

    List<URI> uris(String key, String otherwise) throws Problem {
      List<URI> uris = new ArrayList<>();
      for (String each : text(key, otherwise).split(",")) {
        if (each.isBlank()) {
          continue;
        }
        try {
          URI uri = new URI(each.trim());
          if (!SCHEMES.contains(uri.getScheme()) || uri.getHost() == null || uri.getPort() < 0) {
            throw wrong(key, "must hold http://host:port or https://host:port addresses");
          }
          uris.add(uri);
        } catch (URISyntaxException e) {
          throw wrong(key, "must hold http://host:port or https://host:port addresses");
        }
      }
      return List.copyOf(uris);
    }

    <E extends Enum<E>> E choice(Class<E> kind, String key, E otherwise) throws Problem {
      try {
        return Enum.valueOf(kind, text(key, otherwise.name()).toUpperCase(Locale.ROOT));
      } catch (IllegalArgumentException e) {
        String known = String.join(", ", EnumSet.allOf(kind).stream().map(Enum::name).toList());
        throw wrong(key, "must be one of " + known);
      }
    }

    /** Refuses a store that is no PEM file, the one kind that the sandbox reads. */
    void pem(String location, String type) throws Problem {
      if (!text(type, "JKS").equals("PEM")) {
        throw new Problem(source + ": " + location + " needs " + type + "=PEM; the sandbox reads no other");
      }
    }

    Problem wrong(String key, String rule) {
      return new Problem(source + ": " + key + "=" + values.get(key) + " " + rule);
    }
  }
}
