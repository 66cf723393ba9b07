package io.kedge.sandbox;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.eclipse.jetty.http.HttpHeader;
import org.eclipse.jetty.http.HttpURI;
import org.eclipse.jetty.server.Handler;
import org.eclipse.jetty.server.Request;
import org.eclipse.jetty.server.Response;
import org.eclipse.jetty.util.Callback;
import org.eclipse.jetty.util.Fields;

/** The routes of the v2 API, and as much of v3 as readiness asks for. */
final class Api extends Handler.Abstract {
  private static final byte[] EMPTY_OBJECT = "{}".getBytes(StandardCharsets.UTF_8);
  private static final byte[] NO_OFFSETS = "[]".getBytes(StandardCharsets.UTF_8);
  private static final String PLAIN = "application/json";
  private static final Set<String> WISHES =
      Set.of(
          "id",
          "name",
          "format",
          "auto.offset.reset",
          "auto.commit.enable",
          "fetch.min.bytes",
          "responseMinBytes",
          "consumer.request.timeout.ms",
          "requestWaitMs");
  private static final Set<String> ACTIONS = Set.of("subscription", "records", "offsets", "assignments");

  /** What answers about consumers may be, though only records are in a format. */
  private static final Set<String> OF_CONSUMERS =
      Set.of(Format.V2, Format.BINARY.mediaType(), Format.JSON.mediaType());

  private final ProxyConfig config;
  private final KafkaClients clients;
  private final ConsumerInstances instances;
  private final ClusterInfo cluster;
  private final InFlight inFlight;

  Api(ProxyConfig config, KafkaClients clients, ConsumerInstances instances, InFlight inFlight) {
    this.config = config;
    this.clients = clients;
    this.instances = instances;
    this.cluster = new ClusterInfo(clients);
    this.inFlight = inFlight;
  }

  @Override
  public boolean handle(Request request, Response response, Callback callback) {
    if (inFlight.closingConnections()) {
      response.getHeaders().put(HttpHeader.CONNECTION, "close");
    }
    Exchange exchange = new Exchange(request, response, callback, inFlight::leave);
    if (!inFlight.enter(exchange)) {
      exchange.fail(RestError.stopping());
      return true;
    }
    try {
      route(exchange, Paths.segments(request.getHttpURI().getPath()));
    } catch (IOException | RuntimeException e) {
      exchange.fail(e);
    }
    return true;
  }

  private void route(Exchange exchange, List<String> path) throws IOException {
    switch (path.isEmpty() ? "" : path.get(0)) {
      case "" -> {
        only(exchange, "GET", "HEAD");
        exchange.answer(EMPTY_OBJECT);
      }
      case "topics" -> topics(exchange, path);
      case "brokers" -> {
        only(exchange, path.size() == 1, "GET");
        exchange.answer(cluster.brokers());
      }
      case "v3" -> {
        only(exchange, path.size() == 2 && path.get(1).equals("clusters"), "GET");
        exchange.answer(200, PLAIN, cluster.clusters(baseUrl(exchange)));
      }
      case "consumers" -> consumers(exchange, path);
      default -> throw RestError.notFound();
    }
  }

  private static void only(Exchange exchange, boolean known, String... methods) {
    if (!known) {
      throw RestError.notFound();
    }
    only(exchange, methods);
  }

  private static void only(Exchange exchange, String... methods) {
    method(exchange, methods);
    acceptable(exchange, Set.of(exchange.request().getHttpURI().getPath().startsWith("/v3/") ? PLAIN : Format.V2));
  }

  private static void method(Exchange exchange, String... methods) {
    if (!List.of(methods).contains(exchange.method())) {
      throw RestError.methodNotAllowed();
    }
  }

  /** Answers in the type of one of the formats where the client asks for that alone. */
  private static void negotiate(Exchange exchange) {
    acceptable(exchange, OF_CONSUMERS);
    String type = Format.bare(exchange.header(HttpHeader.ACCEPT));
    if (OF_CONSUMERS.contains(type)) {
      exchange.speaks(type);
    }
  }

  private static void acceptable(Exchange exchange, Set<String> types) {
    if (!Format.takes(exchange.header(HttpHeader.ACCEPT), types)) {
      throw RestError.notAcceptable();
    }
  }

  private void topics(Exchange exchange, List<String> path) throws IOException {
    if (path.size() == 1) {
      only(exchange, "GET");
      exchange.answer(cluster.topics());
    } else if (path.size() == 2 && exchange.method().equals("POST")) {
      produce(exchange, path.get(1));
    } else {
      only(exchange, path.size() == 2, "GET");
      exchange.answer(cluster.topic(path.get(1)));
    }
  }

  private void produce(Exchange exchange, String topic) throws IOException {
    Format format =
        Format.ofContent(exchange.header(HttpHeader.CONTENT_TYPE)).orElseThrow(exchange::unsupported);
    acceptable(exchange, Set.of(Format.V2));
    List<ProducerRecord<byte[], byte[]>> records = Wire.readProduce(exchange.body(), topic, format);
    Produce.send(
        clients.producer(),
        records,
        done -> exchange.answer(done.status(config.failedProduceStatus()), Format.V2, Wire.bytes(done::write)));
  }

  private void consumers(Exchange exchange, List<String> path) throws IOException {
    if (path.size() == 2) {
      method(exchange, "POST");
      negotiate(exchange);
      create(exchange, path.get(1));
      return;
    }
    if (path.size() < 4
        || path.size() > 5
        || !path.get(2).equals("instances")
        || path.size() == 5 && !ACTIONS.contains(path.get(4))) {
      throw RestError.notFound();
    }
    String group = path.get(1);
    String name = path.get(3);
    if (path.size() == 4) {
      method(exchange, "DELETE");
      negotiate(exchange);
      instances.delete(group, name);
      exchange.noContent();
      return;
    }
    String action = path.get(4) + " " + exchange.method();
    if (action.equals("records GET")) {
      exchange.speaks(Format.ofAccept(exchange.header(HttpHeader.ACCEPT)).mediaType());
    } else {
      negotiate(exchange);
    }
    ConsumerInstance instance = instances.get(group, name);
    switch (action) {
      case "subscription POST" -> subscribe(exchange, instance);
      case "subscription GET" -> subscription(exchange, instance);
      case "subscription DELETE" -> {
        instance.unsubscribe();
        exchange.noContent();
      }
      case "records GET" -> read(exchange, instance);
      case "offsets POST" -> commit(exchange, instance);
      case "offsets GET" -> committed(exchange, instance);
      case "assignments GET" -> assignments(exchange, instance);
      default -> throw RestError.methodNotAllowed();
    }
  }

  private void create(Exchange exchange, String group) throws IOException {
    JsonNode body = exchange.object();
    Exchange.fields(body, WISHES);
    String name = Exchange.text(body, "id") != null ? Exchange.text(body, "id") : Exchange.text(body, "name");
    ConsumerInstances.Wish wish =
        new ConsumerInstances.Wish(
            name,
            format(Exchange.text(body, "format")),
            Exchange.text(body, "auto.offset.reset"),
            Exchange.text(body, "auto.commit.enable"),
            Exchange.number(body, "fetch.min.bytes"),
            Exchange.number(body, "consumer.request.timeout.ms"));
    String instance = instances.create(group, wish);
    String uri =
        baseUrl(exchange) + "/consumers/" + Paths.encode(group) + "/instances/" + Paths.encode(instance);
    exchange.answer(
        Wire.bytes(
            out -> {
              out.writeStartObject();
              out.writeStringField("instance_id", instance);
              out.writeStringField("base_uri", uri);
              out.writeEndObject();
            }));
  }

  private static Format format(String wished) {
    if (wished == null) {
      return Format.BINARY;
    }
    for (Format format : Format.values()) {
      if (format.name().equalsIgnoreCase(wished)) {
        return format;
      }
    }
    throw RestError.unprocessable("Invalid format type.");
  }

  private void subscribe(Exchange exchange, ConsumerInstance instance) throws IOException {
    JsonNode body = exchange.object();
    JsonNode topics = body.path("topics");
    try {
      if (topics.isArray()) {
        List<String> names = new ArrayList<>();
        topics.forEach(topic -> names.add(topic.asText()));
        instance.subscribe(names);
      } else if (Exchange.text(body, "topic_pattern") != null) {
        instance.subscribe(Exchange.text(body, "topic_pattern"));
      }
    } catch (IllegalStateException e) {
      throw RestError.illegalState(e.getMessage());
    }
    exchange.noContent();
  }

  private static void subscription(Exchange exchange, ConsumerInstance instance) {
    Set<String> topics = instance.subscription();
    exchange.answer(Wire.bytes(out -> out.writePOJO(Map.of("topics", topics))));
  }

  private void read(Exchange exchange, ConsumerInstance instance) {
    Format format = Format.ofAccept(exchange.header(HttpHeader.ACCEPT));
    if (format != instance.options().format()) {
      throw RestError.formatMismatch();
    }
    Fields query = Request.extractQueryParameters(exchange.request());
    instances.read(
        instance,
        number(query, "timeout"),
        number(query, "max_bytes"),
        (records, failure) -> {
          if (failure != null) {
            exchange.fail(failure);
            return;
          }
          byte[] body;
          try {
            body = Wire.writeRecords(records, format);
          } catch (RuntimeException | OutOfMemoryError e) {
            exchange.fail(e);
            return;
          }
          exchange.answer(200, format.mediaType(), body);
        });
  }

  /**
   * Where this process is reached: the advertised listener, else host.name with the listener's port, else, as the
   * real proxy has it, whatever host the client asked.
   */
  private String baseUrl(Exchange exchange) {
    if (!config.advertisedListeners().isEmpty()) {
      URI advertised = config.advertisedListeners().get(0);
      return advertised.getScheme() + "://" + advertised.getAuthority();
    }
    if (!config.hostName().isEmpty()) {
      URI own = config.listeners().get(0);
      return own.getScheme() + "://" + config.hostName() + ":" + own.getPort();
    }
    HttpURI asked = exchange.request().getHttpURI();
    return asked.getScheme() + "://" + asked.getAuthority();
  }

  private static long number(Fields query, String name) {
    String value = query.getValue(name);
    try {
      return value == null ? -1 : Long.parseLong(value);
    } catch (NumberFormatException e) {
      throw RestError.notFound(); // what JAX-RS says of a query parameter that it cannot convert
    }
  }

  private static void commit(Exchange exchange, ConsumerInstance instance) throws IOException {
    JsonNode body = exchange.object();
    JsonNode offsets = body.path("offsets");
    if (body.isEmpty()) {
      instance.commitReturned();
    } else if (offsets.isArray()) {
      Map<TopicPartition, OffsetAndMetadata> wanted = new HashMap<>();
      for (JsonNode each : offsets) {
        // The API names the record that was processed; Kafka wants the one to read next.
        wanted.put(
            Exchange.partition(each),
            new OffsetAndMetadata(Exchange.required(each, "offset").asLong() + 1, each.path("metadata").asText("")));
      }
      instance.commit(wanted);
    } else {
      throw RestError.unprocessable("offsets must be a list.");
    }
    exchange.answer(NO_OFFSETS);
  }

  private static void committed(Exchange exchange, ConsumerInstance instance) throws IOException {
    Set<TopicPartition> partitions = new HashSet<>();
    exchange.object().path("partitions").forEach(each -> partitions.add(Exchange.partition(each)));
    Map<TopicPartition, OffsetAndMetadata> offsets = instance.committed(partitions);
    exchange.answer(
        Wire.bytes(
            out -> {
              out.writeStartObject();
              out.writeArrayFieldStart("offsets");
              for (Map.Entry<TopicPartition, OffsetAndMetadata> each : offsets.entrySet()) {
                if (each.getValue() != null) {
                  out.writeStartObject();
                  out.writeStringField("topic", each.getKey().topic());
                  out.writeNumberField("partition", each.getKey().partition());
                  out.writeNumberField("offset", each.getValue().offset());
                  out.writeStringField("metadata", each.getValue().metadata());
                  out.writeEndObject();
                }
              }
              out.writeEndArray();
              out.writeEndObject();
            }));
  }

  private static void assignments(Exchange exchange, ConsumerInstance instance) {
    exchange.answer(
        Wire.bytes(
            out -> {
              out.writeStartObject();
              out.writeArrayFieldStart("partitions");
              for (TopicPartition each : instance.assignment()) {
                out.writeStartObject();
                out.writeStringField("topic", each.topic());
                out.writeNumberField("partition", each.partition());
                out.writeEndObject();
              }
              out.writeEndArray();
              out.writeEndObject();
            }));
  }
}
