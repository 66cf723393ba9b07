package io.kedge.sandbox;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.MissingNode;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.util.Locale;
import java.util.Set;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;
import org.apache.kafka.common.TopicPartition;
import org.eclipse.jetty.http.HttpHeader;
import org.eclipse.jetty.io.Content;
import org.eclipse.jetty.server.Request;
import org.eclipse.jetty.server.Response;
import org.eclipse.jetty.util.Callback;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** A request with its answer: the first one given is the one that the client gets. */
final class Exchange {
  private static final Logger LOG = LoggerFactory.getLogger(Exchange.class);

  private final Request request;
  private final Response response;
  private final Callback callback;
  private final AtomicBoolean answered = new AtomicBoolean();
  private String type = Format.V2;

  /** Takes what Jetty gives, and what is to be told when the answer is written. */
  Exchange(Request request, Response response, Callback callback, Consumer<Exchange> written) {
    this.request = request;
    this.response = response;
    this.callback = Callback.from(callback, () -> written.accept(this));
  }

  Request request() {
    return request;
  }

  String method() {
    return request.getMethod().toUpperCase(Locale.ROOT);
  }

  InputStream body() {
    return Content.Source.asInputStream(request);
  }

  String header(HttpHeader header) {
    return request.getHeaders().get(header);
  }

  /** From now on answers are of this type, errors among them. */
  void speaks(String mediaType) {
    type = mediaType;
  }

  /** Answers; {@code mediaType} may be null, for a body without one. */
  void answer(int status, String mediaType, byte[] body) {
    if (!answered.compareAndSet(false, true)) {
      return;
    }
    response.setStatus(status);
    if (mediaType != null) {
      response.getHeaders().put(HttpHeader.CONTENT_TYPE, mediaType);
    }
    response.write(true, ByteBuffer.wrap(body), callback);
  }

  void answer(byte[] body) {
    answer(200, type, body);
  }

  void noContent() {
    empty(204);
  }

  /** Answers with a status alone. */
  void empty(int status) {
    if (answered.compareAndSet(false, true)) {
      response.setStatus(status);
      response.write(true, null, callback);
    }
  }

  void fail(Throwable failure) {
    RestError error = RestError.of(failure);
    if (error.status() == 500) {
      LOG.warn("{} {} failed: {}", request.getMethod(), request.getHttpURI().getPath(), failure.toString());
    }
    answer(error.status(), error.unrouted() ? null : type, Wire.writeError(error));
  }

  /** The body as an object, a missing node when it is empty; throws 415 for a body of another type. */
  JsonNode object() throws IOException {
    String type = Format.bare(header(HttpHeader.CONTENT_TYPE));
    boolean known = type.startsWith("application/vnd.kafka.") && type.endsWith("v2+json");
    JsonNode body;
    if (known || type.isEmpty()) {
      body = Wire.readObject(body());
    } else if (request.getLength() == 0) {
      body = null;
    } else {
      throw unsupported();
    }
    return body == null ? MissingNode.getInstance() : body;
  }

  /** The error for a body of a type that is not taken, in JSON where the client named no type of its own. */
  RestError unsupported() {
    if (header(HttpHeader.ACCEPT) == null) {
      speaks("application/json");
    }
    return RestError.unsupportedMediaType();
  }

  /** Throws 422 where an object has a field that is none of these. */
  static void fields(JsonNode body, Set<String> known) {
    body.fieldNames()
        .forEachRemaining(
            name -> {
              if (!known.contains(name)) {
                throw RestError.unprocessable("Unrecognized field: " + name);
              }
            });
  }

  static String text(JsonNode body, String field) {
    JsonNode value = body.path(field);
    return value.isMissingNode() || value.isNull() ? null : value.asText();
  }

  static Integer number(JsonNode body, String field) {
    String value = text(body, field);
    try {
      return value == null ? null : Integer.valueOf(value);
    } catch (NumberFormatException e) {
      throw RestError.unprocessable(field + " must be a whole number.");
    }
  }

  static JsonNode required(JsonNode body, String field) {
    JsonNode value = body.path(field);
    if (value.isMissingNode() || value.isNull()) {
      throw RestError.unprocessable(field + " may not be null");
    }
    return value;
  }

  static TopicPartition partition(JsonNode pair) {
    return new TopicPartition(required(pair, "topic").asText(), required(pair, "partition").asInt());
  }
}
