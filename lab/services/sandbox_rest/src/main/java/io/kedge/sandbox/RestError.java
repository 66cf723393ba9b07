package io.kedge.sandbox;

import org.apache.kafka.common.errors.AuthenticationException;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;

/** An answer that is an error: HTTP status, error_code and message, as the real proxy gives them. */
final class RestError extends RuntimeException {
  private static final long serialVersionUID = 1L;

  private final int status;
  private final int code;

  RestError(int status, int code, String message) {
    super(message, null, false, false);
    this.status = status;
    this.code = code;
  }

  int status() {
    return status;
  }

  int code() {
    return code;
  }

  /** Whether nothing was found that could answer; such an error has a body without a media type. */
  boolean unrouted() {
    return code == 404 || code == 405 || code == 406;
  }

  static RestError notFound() {
    return new RestError(404, 404, "HTTP 404 Not Found");
  }

  static RestError methodNotAllowed() {
    return new RestError(405, 405, "HTTP 405 Method Not Allowed");
  }

  static RestError notAcceptable() {
    return new RestError(406, 406, "HTTP 406 Not Acceptable");
  }

  static RestError unsupportedMediaType() {
    return new RestError(415, 415, "HTTP 415 Unsupported Media Type");
  }

  static RestError badRequest(String message) {
    return new RestError(400, 400, "Bad Request: " + message);
  }

  static RestError unprocessable(String message) {
    return new RestError(422, 422, message);
  }

  static RestError internal() {
    return new RestError(500, 500, "Internal Server Error");
  }

  static RestError stopping() {
    return new RestError(503, 503, "The proxy is stopping.");
  }

  static RestError topicNotFound() {
    return new RestError(404, 40403, "This server does not host this topic-partition.");
  }

  static RestError instanceNotFound() {
    return new RestError(404, 40403, "Consumer instance not found.");
  }

  static RestError formatMismatch() {
    return new RestError(
        406,
        40601,
        "The requested embedded data format does not match the deserializer for this consumer instance");
  }

  static RestError instanceExists() {
    return new RestError(
        409, 40902, "Consumer with specified consumer ID already exists in the specified consumer group.");
  }

  static RestError illegalState(String message) {
    return new RestError(409, 40903, "Illegal state: " + message);
  }

  static RestError invalidConsumerConfig(String message) {
    return new RestError(422, 42204, "Invalid consumer configuration: " + message);
  }

  /** The code that stands for a failure of the client, in a record's place or in an error's body. */
  static int codeOf(Throwable failure) {
    if (failure instanceof AuthenticationException) {
      return 40101;
    }
    if (failure instanceof AuthorizationException) {
      return 40301;
    }
    return failure instanceof RetriableException ? 50003 : 50002;
  }

  /** The answer to a request that a client's failure ended as a whole. */
  static RestError of(Throwable failure) {
    if (failure instanceof RestError error) {
      return error;
    }
    if (failure instanceof UnknownTopicOrPartitionException) {
      return topicNotFound();
    }
    // Not Kafka's: a read without a subscription, a partition of -1.
    if (failure instanceof IllegalStateException || failure instanceof IllegalArgumentException) {
      return internal();
    }
    int code = codeOf(failure);
    int status = code < 50000 ? code / 100 : 500;
    return new RestError(status, code, "Kafka error: " + failure.getMessage());
  }
}
