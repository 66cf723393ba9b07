package io.kedge.sandbox;

import java.net.URLDecoder;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/** A URL's path as decoded segments, so that an encoded slash stays inside its segment. */
final class Paths {
  private Paths() {}

  /** The decoded segments; throws 400 for an escape that is none. */
  static List<String> segments(String rawPath) {
    List<String> segments = new ArrayList<>();
    for (String raw : rawPath.split("/")) {
      if (!raw.isEmpty()) {
        segments.add(decode(raw));
      }
    }
    return segments;
  }

  private static String decode(String raw) {
    try {
      // In a path a plus is a plus.
      return URLDecoder.decode(raw.replace("+", "%2B"), StandardCharsets.UTF_8);
    } catch (IllegalArgumentException e) {
      throw RestError.badRequest(e.getMessage());
    }
  }

  /** A segment that decodes to the text. */
  static String encode(String text) {
    return URLEncoder.encode(text, StandardCharsets.UTF_8).replace("+", "%20");
  }
}
