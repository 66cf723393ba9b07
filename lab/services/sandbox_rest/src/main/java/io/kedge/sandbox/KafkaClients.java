package io.kedge.sandbox;

import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** The process's one producer and one admin client, made when first needed as the real proxy does. */
final class KafkaClients {
  private static final Duration ADMIN_CLOSE = Duration.ofSeconds(1);

  private final ProxyConfig config;
  private Producer<byte[], byte[]> producer;
  private Admin admin;

  KafkaClients(ProxyConfig config) {
    this.config = config;
  }

  synchronized Producer<byte[], byte[]> producer() {
    if (producer == null) {
      Map<String, Object> settings = new HashMap<>(config.producer());
      producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }
    return producer;
  }

  synchronized Admin admin() {
    if (admin == null) {
      admin = Admin.create(config.admin());
    }
    return admin;
  }

  /** Closes both; what the producer has not got rid of within the limit fails. */
  synchronized void close(Duration producerLimit) {
    if (producer != null) {
      producer.close(producerLimit);
    }
    if (admin != null) {
      admin.close(ADMIN_CLOSE);
    }
  }
}
