package io.kedge.sandbox;

import java.util.Arrays;
import java.util.Locale;
import java.util.Optional;
import java.util.Set;

/** How keys and values are embedded in JSON. */
enum Format {
  BINARY,
  JSON;

  static final String V2 = "application/vnd.kafka.v2+json";

  String mediaType() {
    return "application/vnd.kafka." + name().toLowerCase(Locale.ROOT) + ".v2+json";
  }

  /** The format of a request's Content-Type, empty for any other. */
  static Optional<Format> ofContent(String contentType) {
    String type = bare(contentType);
    return Arrays.stream(values()).filter(format -> format.mediaType().equals(type)).findFirst();
  }

  /** Whether an Accept header takes any of these types. */
  static boolean takes(String accept, Set<String> types) {
    return accept == null
        || accept.isBlank()
        || Arrays.stream(accept.split(","))
            .map(Format::bare)
            .anyMatch(type -> types.contains(type) || type.equals("*/*") || type.equals("application/*"));
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
