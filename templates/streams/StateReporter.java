package kedge;

import java.io.IOException;
import java.lang.management.BufferPoolMXBean;
import java.lang.management.ManagementFactory;
import java.lang.management.MemoryMXBean;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.MetricsContext;
import org.apache.kafka.common.metrics.MetricsReporter;

/**
 * Tells what a Kafka Streams application does, in files and without a port: KEDGE_STATE_FILE always holds its
 * present state, KEDGE_SAMPLES_FILE gets a line each second. Both are JSON with the same keys.
 */
public final class StateReporter implements MetricsReporter {
    private static final long STATE_MS = 200;
    private static final int STATES_A_SAMPLE = 5;
    private static final long SAMPLES_BYTES = 16L << 20;
    private static final Path STATM = Path.of("/proc/self/statm");
    private static final long PAGE_BYTES = 4096;
    private static final Set<String> WANTED = Set.of(
            "state", "alive-stream-threads", "failed-stream-threads", "block-cache-usage", "block-cache-pinned-usage",
            "size-all-mem-tables", "estimate-table-readers-mem", "restore-remaining-records-total", "active-process-ratio");

    private final Map<MetricName, KafkaMetric> metrics = new ConcurrentHashMap<>();
    private final Path state = file("KEDGE_STATE_FILE");
    private final Path samples = file("KEDGE_SAMPLES_FILE");
    private ScheduledExecutorService clock;
    private int ticks;

    private static Path file(String variable) {
        String value = System.getenv(variable);
        return value == null || value.isBlank() ? null : Path.of(value);
    }

    @Override
    public void configure(Map<String, ?> configs) {
        // All that it needs to know is where to write, which the environment says.
    }

    @Override
    public synchronized void contextChange(MetricsContext context) {
        // The application's clients have a reporter each as well; only that of the application itself tells.
        if ("kafka.streams".equals(context.contextLabels().get(MetricsContext.NAMESPACE)) && clock == null) {
            clock = Executors.newSingleThreadScheduledExecutor(task -> {
                Thread thread = new Thread(task, "kedge-state-reporter");
                thread.setDaemon(true);
                return thread;
            });
            clock.scheduleWithFixedDelay(this::tell, 0, STATE_MS, TimeUnit.MILLISECONDS);
        }
    }

    @Override
    public void init(List<KafkaMetric> known) {
        known.forEach(this::metricChange);
    }

    @Override
    public void metricChange(KafkaMetric metric) {
        if (WANTED.contains(metric.metricName().name())) {
            metrics.put(metric.metricName(), metric);
        }
    }

    @Override
    public void metricRemoval(KafkaMetric metric) {
        metrics.remove(metric.metricName());
    }

    @Override
    public synchronized void close() {
        if (clock != null) {
            clock.shutdown();
            tell();
        }
    }

    private synchronized void tell() {
        try {
            boolean sample = ticks++ % STATES_A_SAMPLE == 0;
            if (state != null) {
                Path next = state.resolveSibling("." + state.getFileName() + ".new");
                Files.writeString(next, line(false));
                Files.move(next, state, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
            }
            if (samples != null && sample) {
                if (Files.exists(samples) && Files.size(samples) > SAMPLES_BYTES) {
                    Path old = samples.resolveSibling(samples.getFileName() + ".1");
                    Files.move(samples, old, StandardCopyOption.REPLACE_EXISTING);
                }
                Files.writeString(samples, line(true), StandardCharsets.UTF_8,
                        StandardOpenOption.CREATE, StandardOpenOption.APPEND);
            }
        } catch (IOException | RuntimeException failure) {
            // A full disk must not end the application; that the file grows old says it to who reads it.
            return;
        }
    }

    private String line(boolean whole) {
        StringBuilder text = new StringBuilder(512);
        long now = System.currentTimeMillis() * 1000;
        text.append("{\"at_us\":").append(now).append(",\"pid\":").append(ProcessHandle.current().pid());
        text.append(",\"state\":\"").append(one("state", "UNKNOWN")).append('"');
        text.append(",\"threads\":").append(number(one("alive-stream-threads", 0)));
        text.append(",\"failed_threads\":").append(number(one("failed-stream-threads", 0)));
        text.append(",\"restoring_records\":").append(sum("restore-remaining-records-total"));
        if (whole) {
            MemoryMXBean memory = ManagementFactory.getMemoryMXBean();
            long direct = ManagementFactory.getPlatformMXBeans(BufferPoolMXBean.class).stream()
                    .mapToLong(BufferPoolMXBean::getMemoryUsed).filter(used -> used > 0).sum();
            text.append(",\"rss_bytes\":").append(rss());
            text.append(",\"heap_bytes\":").append(memory.getHeapMemoryUsage().getCommitted());
            text.append(",\"heap_used_bytes\":").append(memory.getHeapMemoryUsage().getUsed());
            text.append(",\"non_heap_bytes\":").append(memory.getNonHeapMemoryUsage().getCommitted());
            text.append(",\"direct_bytes\":").append(direct);
            text.append(",\"stores\":").append(count("size-all-mem-tables"));
            // Where stores share a cache, each reports the whole of it; where they do not, the sum is the truth.
            text.append(",\"block_cache_most_bytes\":").append(most("block-cache-usage"));
            text.append(",\"block_cache_sum_bytes\":").append(sum("block-cache-usage"));
            text.append(",\"pinned_most_bytes\":").append(most("block-cache-pinned-usage"));
            text.append(",\"pinned_sum_bytes\":").append(sum("block-cache-pinned-usage"));
            text.append(",\"memtables_bytes\":").append(sum("size-all-mem-tables"));
            text.append(",\"table_readers_bytes\":").append(sum("estimate-table-readers-mem"));
        }
        return text.append("}\n").toString();
    }

    private static long rss() {
        try {
            return Long.parseLong(Files.readString(STATM).split(" ")[1]) * PAGE_BYTES;
        } catch (IOException | RuntimeException unreadable) {
            return 0;
        }
    }

    private Object one(String name, Object otherwise) {
        for (Map.Entry<MetricName, KafkaMetric> entry : metrics.entrySet()) {
            if (entry.getKey().name().equals(name) && entry.getKey().group().equals("stream-metrics")) {
                return entry.getValue().metricValue();
            }
        }
        return otherwise;
    }

    private long count(String name) {
        return metrics.keySet().stream().filter(metric -> metric.name().equals(name)).count();
    }

    private long sum(String name) {
        return metrics.values().stream().filter(metric -> metric.metricName().name().equals(name))
                .mapToLong(metric -> number(metric.metricValue())).sum();
    }

    private long most(String name) {
        return metrics.values().stream().filter(metric -> metric.metricName().name().equals(name))
                .mapToLong(metric -> number(metric.metricValue())).max().orElse(0);
    }

    private static long number(Object value) {
        return value instanceof Number found ? Math.max(0, found.longValue()) : 0;
    }
}
