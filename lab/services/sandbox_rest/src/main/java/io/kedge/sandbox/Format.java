package io.kedge.sandbox;

import java.util.Locale;
import java.util.Optional;

/** How keys and values are embedded in JSON. */
enum Format {
  BINARY,
  JSON;

  static final String V2 = "application/vnd.kafka.v2+json";

  String mediaType() {
    return "application/vnd.kafka." + name().toLowerCase(Locale.ROOT) + ".v2+json";
  }

  /** The format of a request's Content-Type; throws 415 for any other. */
  static Format ofContent(String contentType) {
    String type = bare(contentType);
    for (Format format : values()) {
      if (format.mediaType().equals(type)) {
        return format;
      }
    }
    throw RestError.unsupportedMediaType();
  }

  /** The format that an Accept header asks records in; binary when it leaves the choice. Throws 406. */
  static Format ofAccept(String accept) {
    if (accept == null || accept.isBlank()) {
      return BINARY;
    }
    Optional<Format> wildcard = Optional.empty();
    for (String part : accept.split(",")) {
      String type = bare(part);
      if (type.equals(JSON.mediaType())) {
        return JSON;
      }
      if (type.equals(BINARY.mediaType())) {
        return BINARY;
      }
      if (type.equals(V2) || type.equals("*/*") || type.equals("application/*")) {
        wildcard = Optional.of(BINARY);
      }
    }
    return wildcard.orElseThrow(RestError::notAcceptable);
  }

  /** A media type in lower case without its parameters. */
  static String bare(String mediaType) {
    if (mediaType == null) {
      return "";
    }
    int parameters = mediaType.indexOf(';');
    String type = parameters < 0 ? mediaType : mediaType.substring(0, parameters);
    return type.trim().toLowerCase(Locale.ROOT);
  }
}
