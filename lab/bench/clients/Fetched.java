import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.stream.IntStream;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * What a consumer holds of its fetches: it takes one record a poll of a backlog, so that all that it may fetch
 * lies in it, and tells how much of its heap lives then, beyond what lived before.
 *
 * <p>Arguments: bootstrap servers, topic, partitions, fetch.max.bytes, max.partition.fetch.bytes, polls.
 */
final class Fetched {
  private Fetched() {}

  public static void main(String[] arguments) throws InterruptedException {
    int partitions = Integer.parseInt(arguments[2]);
    Properties properties = new Properties();
    properties.put("bootstrap.servers", arguments[0]);
    properties.put("fetch.max.bytes", arguments[3]);
    properties.put("max.partition.fetch.bytes", arguments[4]);
    properties.put("receive.buffer.bytes", "-1");
    properties.put("max.poll.records", "1");
    properties.put("enable.auto.commit", "false");
    List<TopicPartition> all =
        IntStream.range(0, partitions).mapToObj(n -> new TopicPartition(arguments[1], n)).toList();
    try (KafkaConsumer<byte[], byte[]> consumer =
        new KafkaConsumer<>(
            properties, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
      consumer.assign(all);
      consumer.pause(all);
      consumer.poll(Duration.ofSeconds(1));
      long before = live();
      consumer.seekToBeginning(all);
      consumer.resume(all);
      long most = 0;
      int polls = Integer.parseInt(arguments[5]);
      for (int poll = 1; poll <= polls; poll++) {
        consumer.poll(Duration.ofMillis(200));
        // What is on its way arrives between two polls.
        Thread.sleep(20);
        if (poll % (polls / 5) == 0) {
          most = Math.max(most, live() - before);
        }
      }
      System.out.println("{\"held_bytes\": " + most + "}");
    }
  }

  private static long live() {
    for (int time = 0; time < 3; time++) {
      System.gc();
    }
    Runtime runtime = Runtime.getRuntime();
    return runtime.totalMemory() - runtime.freeMemory();
  }
}
