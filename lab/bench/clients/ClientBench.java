import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.sun.management.OperatingSystemMXBean;
import com.sun.tools.attach.VirtualMachine;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import javax.management.MBeanServerConnection;
import javax.management.ObjectName;
import javax.management.remote.JMXConnector;
import javax.management.remote.JMXConnectorFactory;
import javax.management.remote.JMXServiceURL;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * The clients of the bench: one process, so that every case runs on the same compiled code. A line of JSON on
 * stdin is a phase ("do": produce, consume, find, requests); its result is a line of JSON on stdout.
 *
 * <p>A record's value begins with the microseconds since the epoch at which it was to be sent and its number;
 * the rest is text of a fixed vocabulary from a fixed seed, so that all cases send the same.
 */
final class ClientBench {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final int PREFIX = 16;
  private static final int PAYLOADS = 1000;
  /** Latencies that are kept of a phase: more than it can bring in its seconds here. */
  private static final int MOST_LATENCIES = 5_000_000;
  private static final OperatingSystemMXBean SYSTEM =
      ManagementFactory.getPlatformMXBean(OperatingSystemMXBean.class);

  /** By process id. */
  private static final Map<String, JMXConnector> CONNECTORS = new HashMap<>();

  /** Records of the last produce phase that were acknowledged, for "find". */
  private static BitSet acknowledged = new BitSet();

  private ClientBench() {}

  public static void main(String[] arguments) throws Exception {
    BufferedReader orders = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = orders.readLine(); line != null; line = orders.readLine()) {
      JsonNode order = JSON.readTree(line);
      ObjectNode answer =
          switch (order.get("do").asText()) {
            case "produce" -> produce(order);
            case "consume" -> consume(order);
            case "find" -> find(order);
            case "requests" -> requests(order);
            default -> throw new IllegalArgumentException(line);
          };
      say(answer);
    }
    // Connections to brokers that are gone would hold it up.
    System.exit(0);
  }

  private static void say(ObjectNode answer) {
    System.out.println(answer);
    System.out.flush();
  }

  /** Microseconds that only ever grow, from one origin: a difference of two is a duration. */
  private static long steadyUs() {
    return System.nanoTime() / 1000;
  }

  private static Properties config(JsonNode order) {
    Properties found = new Properties();
    order.get("config").properties().forEach(f -> found.put(f.getKey(), f.getValue().asText()));
    return found;
  }

  private static byte[][] payloads(int bytes) {
    String[] words =
        "status 200 404 GET POST /cart /search user session region eu-west us-east latency_ms true false null"
            .split(" ");
    Random random = new Random(7);
    byte[][] made = new byte[PAYLOADS][];
    for (int n = 0; n < PAYLOADS; n++) {
      StringBuilder text = new StringBuilder();
      while (text.length() < bytes) {
        text.append(words[random.nextInt(words.length)]).append(random.nextInt(100_000)).append(' ');
      }
      made[n] = Arrays.copyOf(text.toString().getBytes(StandardCharsets.US_ASCII), bytes);
    }
    return made;
  }

  /**
   * Sends for warm_up_s + seconds: as fast as the producer takes records, or records_per_s by a clock. Rates and
   * CPU are those of what was acknowledged in the seconds after the warm-up; a record's latency runs from when it
   * was to be sent to its acknowledgement. With "tell", a line says when the warm-up is over.
   */
  private static ObjectNode produce(JsonNode order) throws Exception {
    Properties config = config(order);
    config.put("key.serializer", ByteArraySerializer.class.getName());
    config.put("value.serializer", ByteArraySerializer.class.getName());
    String topic = order.get("topic").asText();
    double rate = order.path("records_per_s").asDouble(0);
    byte[][] payloads = payloads(order.get("record_bytes").asInt());
    AtomicLong failed = new AtomicLong();
    AtomicInteger taken = new AtomicInteger();
    int[] latencies = new int[MOST_LATENCIES];
    BitSet acked = new BitSet();
    long sent = 0;
    Window window;
    try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(config)) {
      producer.partitionsFor(topic);
      long begin = steadyUs();
      long from = begin + Math.round(order.get("warm_up_s").asDouble() * 1e6);
      long until = from + Math.round(order.get("seconds").asDouble() * 1e6);
      window = new Window(from, until, order.path("broker_pids"));
      boolean told = !order.path("tell").asBoolean();
      for (long now = begin; now < until; now = steadyUs()) {
        window.tick(now);
        if (!told && now >= from) {
          say(JSON.createObjectNode().put("steady", true));
          told = true;
        }
        long due = rate > 0 ? begin + Math.round(sent * 1e6 / rate) : now;
        if (due > now) {
          LockSupport.parkNanos(Math.min(due - now, 1000) * 1000);
          continue;
        }
        int number = (int) sent++;
        byte[] value = payloads[number % PAYLOADS].clone();
        ByteBuffer.wrap(value).putLong(due).putLong(number);
        producer.send(
            new ProducerRecord<>(topic, value),
            (metadata, error) -> {
              long at = steadyUs();
              if (error != null) {
                failed.incrementAndGet();
                return;
              }
              // Callbacks come from the producer's one sender thread.
              acked.set(number);
              if (at >= from && at < until) {
                int slot = taken.getAndIncrement();
                if (slot < latencies.length) {
                  latencies[slot] = (int) Math.min(Integer.MAX_VALUE, at - due);
                }
              }
            });
      }
      window.end(steadyUs());
      producer.flush();
    }
    acknowledged = acked;
    ObjectNode answer = window.answer(taken.get(), order.get("record_bytes").asInt());
    answer.put("sent", sent).put("acked", acked.cardinality()).put("failed", failed.get());
    return latency(answer, latencies, Math.min(taken.get(), latencies.length));
  }

  /**
   * Reads for warm_up_s + seconds. Without records_per_s it reads what is there, from the start again at each end;
   * with it, a producer without linger sends meanwhile, and a record's latency runs from when it was to be sent to
   * the return of the poll that brought it.
   */
  private static ObjectNode consume(JsonNode order) throws Exception {
    Properties config = config(order);
    config.put("key.deserializer", ByteArrayDeserializer.class.getName());
    config.put("value.deserializer", ByteArrayDeserializer.class.getName());
    String topic = order.get("topic").asText();
    double rate = order.path("records_per_s").asDouble(0);
    AtomicBoolean ended = new AtomicBoolean();
    Thread sender = rate > 0 ? sender(order, config.getProperty("bootstrap.servers"), ended) : null;
    int[] latencies = new int[MOST_LATENCIES];
    int taken = 0;
    long bytes = 0;
    long records = 0;
    long polls = 0;
    Window window;
    try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(config)) {
      List<TopicPartition> mine =
          consumer.partitionsFor(topic).stream().map(p -> new TopicPartition(topic, p.partition())).toList();
      consumer.assign(mine);
      if (rate > 0) {
        consumer.seekToEnd(mine);
        mine.forEach(consumer::position);
        sender.start();
      } else {
        consumer.seekToBeginning(mine);
      }
      var ends = consumer.endOffsets(mine);
      long begin = steadyUs();
      long from = begin + Math.round(order.get("warm_up_s").asDouble() * 1e6);
      long until = from + Math.round(order.get("seconds").asDouble() * 1e6);
      window = new Window(from, until, order.path("broker_pids"));
      for (long now = begin; now < until; now = steadyUs()) {
        window.tick(now);
        ConsumerRecords<byte[], byte[]> found = consumer.poll(Duration.ofMillis(100));
        long at = steadyUs();
        boolean counts = now >= from && at < until;
        polls += counts ? 1 : 0;
        for (ConsumerRecord<byte[], byte[]> record : found) {
          if (counts) {
            records++;
            bytes += record.value().length;
            if (rate > 0 && taken < latencies.length) {
              long due = ByteBuffer.wrap(record.value()).getLong();
              latencies[taken++] = (int) Math.min(Integer.MAX_VALUE, at - due);
            }
          }
        }
        if (rate == 0) {
          for (TopicPartition partition : found.partitions()) {
            List<ConsumerRecord<byte[], byte[]>> rows = found.records(partition);
            if (rows.get(rows.size() - 1).offset() >= ends.get(partition) - 1) {
              consumer.seekToBeginning(List.of(partition));
            }
          }
        }
      }
      window.end(steadyUs());
    } finally {
      ended.set(true);
      if (sender != null) {
        sender.join();
      }
    }
    ObjectNode answer = window.answer(records, records == 0 ? 0 : (double) bytes / records);
    answer.put("polls", polls);
    return latency(answer, latencies, taken);
  }

  private static Thread sender(JsonNode order, String servers, AtomicBoolean ended) {
    Properties config = new Properties();
    config.put("bootstrap.servers", servers);
    config.put("linger.ms", "0");
    config.put("key.serializer", ByteArraySerializer.class.getName());
    config.put("value.serializer", ByteArraySerializer.class.getName());
    double rate = order.get("records_per_s").asDouble();
    String topic = order.get("topic").asText();
    byte[][] payloads = payloads(order.get("record_bytes").asInt());
    Thread thread =
        new Thread(
            () -> {
              try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(config)) {
                producer.partitionsFor(topic);
                long begin = steadyUs();
                for (long sent = 0; !ended.get(); ) {
                  long due = begin + Math.round(sent * 1e6 / rate);
                  long now = steadyUs();
                  if (due > now) {
                    LockSupport.parkNanos(Math.min(due - now, 1000) * 1000);
                    continue;
                  }
                  byte[] value = payloads[(int) (sent % PAYLOADS)].clone();
                  ByteBuffer.wrap(value).putLong(due).putLong(sent++);
                  producer.send(new ProducerRecord<>(topic, value));
                }
              }
            },
            "sender");
    thread.setDaemon(true);
    return thread;
  }

  /** Reads a topic to its end and says which acknowledged records of the last produce phase are not in it. */
  private static ObjectNode find(JsonNode order) {
    Properties config = config(order);
    config.put("key.deserializer", ByteArrayDeserializer.class.getName());
    config.put("value.deserializer", ByteArrayDeserializer.class.getName());
    String topic = order.get("topic").asText();
    BitSet found = new BitSet();
    long records = 0;
    try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(config)) {
      List<TopicPartition> all =
          consumer.partitionsFor(topic).stream().map(p -> new TopicPartition(topic, p.partition())).toList();
      consumer.assign(all);
      consumer.seekToBeginning(all);
      var ends = consumer.endOffsets(all);
      while (all.stream().anyMatch(p -> consumer.position(p) < ends.get(p))) {
        for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
          found.set((int) ByteBuffer.wrap(record.value()).getLong(8));
          records++;
        }
      }
    }
    BitSet lost = (BitSet) acknowledged.clone();
    lost.andNot(found);
    ObjectNode answer = JSON.createObjectNode().put("found", found.cardinality());
    return answer.put("lost", lost.cardinality()).put("doubled", records - found.cardinality());
  }

  /** Counts the requests that brokers (process ids) have taken so far, by kind, from their own metrics. */
  private static ObjectNode requests(JsonNode order) throws Exception {
    ObjectNode answer = JSON.createObjectNode();
    for (JsonNode pid : order.get("pids")) {
      MBeanServerConnection server = asked(pid.asText());
      var pattern = new ObjectName("kafka.network:type=RequestMetrics,name=RequestsPerSec,*");
      for (ObjectName name : server.queryNames(pattern, null)) {
        String kind = name.getKeyProperty("request");
        long count = ((Number) server.getAttribute(name, "Count")).longValue();
        answer.put(kind, answer.path(kind).asLong(0) + count);
      }
    }
    return answer;
  }

  /** A broker is attached to once: each time costs it CPU, beside the load that is measured. */
  private static MBeanServerConnection asked(String pid) throws Exception {
    JMXConnector connector = CONNECTORS.get(pid);
    if (connector == null) {
      VirtualMachine machine = VirtualMachine.attach(pid);
      String url = machine.startLocalManagementAgent();
      machine.detach();
      connector = JMXConnectorFactory.connect(new JMXServiceURL(url));
      CONNECTORS.put(pid, connector);
    }
    return connector.getMBeanServerConnection();
  }

  private static ObjectNode latency(ObjectNode answer, int[] latencies, int taken) {
    int[] sorted = Arrays.copyOf(latencies, taken);
    Arrays.sort(sorted);
    ObjectNode found = answer.putObject("latency_ms");
    for (var point : List.of(List.of("p50", 0.5), List.of("p99", 0.99), List.of("p99.9", 0.999))) {
      int at = (int) Math.max(0, Math.ceil((double) point.get(1) * taken) - 1);
      if (taken > 0) {
        found.put((String) point.get(0), sorted[at] / 1000.0);
      }
    }
    return answer;
  }

  /** The measured seconds, and the CPU time in them: of this process, and of the brokers' processes. */
  private static final class Window {
    private final long from;
    private final long until;
    private final List<ProcessHandle> brokers = new ArrayList<>();
    private double clientBegin = -1;
    private double clientCpu;
    private double brokersBegin;
    private double brokersCpu;

    Window(long from, long until, JsonNode pids) {
      this.from = from;
      this.until = until;
      pids.forEach(pid -> ProcessHandle.of(pid.asLong()).ifPresent(brokers::add));
    }

    void tick(long now) {
      if (clientBegin < 0 && now >= from) {
        clientBegin = SYSTEM.getProcessCpuTime() / 1e9;
        brokersBegin = brokersNow();
      }
    }

    void end(long now) {
      tick(now);
      clientCpu = SYSTEM.getProcessCpuTime() / 1e9 - clientBegin;
      brokersCpu = brokersNow() - brokersBegin;
    }

    private double brokersNow() {
      return brokers.stream()
          .mapToDouble(b -> b.info().totalCpuDuration().orElse(Duration.ZERO).toMillis() / 1e3)
          .sum();
    }

    ObjectNode answer(long records, double recordBytes) {
      double seconds = (until - from) / 1e6;
      ObjectNode answer = JSON.createObjectNode().put("records", records);
      answer.put("records_per_s", records / seconds);
      answer.put("mb_per_s", records * recordBytes / seconds / 1e6);
      return answer.put("client_cpu_s", clientCpu).put("brokers_cpu_s", brokersCpu);
    }
  }
}
