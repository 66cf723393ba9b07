package io.kedge.sandbox;

import com.fasterxml.jackson.core.Base64Variants;
import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.core.util.ByteArrayBuilder;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.json.JsonMapper;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerRecord;

/** The JSON of the v2 API, streamed: each record is decoded once on its way in and encoded once on its way out. */
final class Wire {
  static final JsonMapper MAPPER = JsonMapper.builder().build();

  /** Fields of a produce request that say nothing about records without a schema. */
  private static final Set<String> SCHEMAS =
      Set.of("key_schema", "key_schema_id", "value_schema", "value_schema_id");

  private Wire() {}

  /** Writes JSON through a generator. */
  interface Writing {
    void write(JsonGenerator out) throws IOException;
  }

  /** The bytes of what is written. */
  static byte[] bytes(Writing writing) {
    try (ByteArrayBuilder buffer = new ByteArrayBuilder(1024)) {
      try (JsonGenerator out = MAPPER.getFactory().createGenerator(buffer)) {
        writing.write(out);
      }
      return buffer.toByteArray();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** The records of a produce request; throws 400 for what is no record, 422 for none and for a field that is not known. */
  static List<ProducerRecord<byte[], byte[]>> readProduce(InputStream body, String topic, Format format)
      throws IOException {
    List<ProducerRecord<byte[], byte[]>> records = new ArrayList<>();
    try (JsonParser in = MAPPER.getFactory().createParser(body)) {
      if (in.nextToken() != JsonToken.START_OBJECT) {
        throw RestError.badRequest("The body must be an object with records.");
      }
      while (in.nextToken() != JsonToken.END_OBJECT) {
        String field = in.currentName();
        JsonToken value = in.nextToken();
        if (SCHEMAS.contains(field)) {
          in.skipChildren();
        } else if (!field.equals("records")) {
          throw RestError.unprocessable("Unrecognized field: " + field);
        } else if (value == JsonToken.START_ARRAY) {
          while (in.nextToken() != JsonToken.END_ARRAY) {
            records.add(readRecord(in, topic, format));
          }
        } else {
          throw RestError.badRequest("records must be a list.");
        }
      }
    } catch (JsonProcessingException e) {
      throw RestError.badRequest(e.getOriginalMessage());
    }
    if (records.isEmpty()) {
      throw RestError.unprocessable("records may not be empty");
    }
    return records;
  }

  private static ProducerRecord<byte[], byte[]> readRecord(JsonParser in, String topic, Format format)
      throws IOException {
    if (in.currentToken() != JsonToken.START_OBJECT) {
      throw RestError.badRequest("A record must be an object.");
    }
    byte[] key = null;
    byte[] value = null;
    Integer partition = null;
    while (in.nextToken() != JsonToken.END_OBJECT) {
      String field = in.currentName();
      in.nextToken();
      switch (field) {
        case "key" -> key = readEmbedded(in, format, "key");
        case "value" -> value = readEmbedded(in, format, "value");
        case "partition" -> partition = readPartition(in);
        default -> throw RestError.unprocessable("Unrecognized field: " + field);
      }
    }
    return new ProducerRecord<>(topic, partition, key, value);
  }

  private static Integer readPartition(JsonParser in) throws IOException {
    if (in.currentToken() == JsonToken.VALUE_NULL) {
      return null;
    }
    try {
      return Integer.valueOf(in.getText());
    } catch (NumberFormatException e) {
      throw RestError.badRequest("A record's partition must be a whole number.");
    }
  }

  private static byte[] readEmbedded(JsonParser in, Format format, String what) throws IOException {
    if (in.currentToken() == JsonToken.VALUE_NULL) {
      return null;
    }
    if (format == Format.JSON) {
      return bytes(out -> out.copyCurrentStructureExact(in));
    }
    if (in.currentToken() != JsonToken.VALUE_STRING) {
      throw RestError.badRequest("A record's " + what + " must be a base64 string.");
    }
    try {
      return in.getBinaryValue(Base64Variants.MIME_NO_LINEFEEDS);
    } catch (JsonProcessingException e) {
      throw RestError.badRequest("Record " + what + " contains invalid base64 encoding");
    }
  }

  /** The answer to a read: records with their embedded keys and values. */
  static byte[] writeRecords(List<ConsumerRecord<byte[], byte[]>> records, Format format) {
    return bytes(
        out -> {
          out.writeStartArray();
          for (ConsumerRecord<byte[], byte[]> record : records) {
            out.writeStartObject();
            out.writeStringField("topic", record.topic());
            out.writeFieldName("key");
            writeEmbedded(out, record.key(), format);
            out.writeFieldName("value");
            writeEmbedded(out, record.value(), format);
            out.writeNumberField("partition", record.partition());
            out.writeNumberField("offset", record.offset());
            out.writeEndObject();
          }
          out.writeEndArray();
        });
  }

  private static void writeEmbedded(JsonGenerator out, byte[] bytes, Format format) throws IOException {
    if (bytes == null) {
      out.writeNull();
    } else if (format == Format.BINARY) {
      out.writeBinary(Base64Variants.MIME_NO_LINEFEEDS, bytes, 0, bytes.length);
    } else {
      out.writeTree(MAPPER.readTree(bytes));
    }
  }

  /** An error's body. */
  static byte[] writeError(RestError error) {
    return bytes(
        out -> {
          out.writeStartObject();
          out.writeNumberField("error_code", error.code());
          out.writeStringField("message", String.valueOf(error.getMessage()));
          out.writeEndObject();
        });
  }

  /** The object in a body, or null for an empty one; throws 400 for anything else. */
  static JsonNode readObject(InputStream body) throws IOException {
    JsonNode node;
    try {
      node = MAPPER.readTree(body);
    } catch (JsonProcessingException e) {
      throw RestError.badRequest(e.getOriginalMessage());
    }
    if (node == null || node.isMissingNode() || node.isNull()) {
      return null;
    }
    if (!node.isObject()) {
      throw RestError.badRequest("The body must be an object.");
    }
    return node;
  }
}
