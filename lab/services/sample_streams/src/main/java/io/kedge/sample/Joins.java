package io.kedge.sample;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.Map;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.StreamJoined;

/**
 * Windowed joins of two streams, or of one with itself. Each join passes on the pairs whose values begin with the
 * same 36 bytes, a record's identity, so that each record (of a pair) comes out once a join: its value as it came
 * in, its key followed by '#' and the number of the join.
 */
final class Joins {
    private static final int IDENTITY_BYTES = 36;

    private Joins() {}

    /** What is joined, how often, and over which time. */
    record Shape(
            String left, String right, String output, int joins, Duration window, Duration grace, boolean changelogs) {
        /** Reads SAMPLE_LEFT, SAMPLE_RIGHT (the left without it), _OUTPUT, _JOINS, _CHANGELOGS and the times. */
        static Shape of(Map<String, String> environment) {
            String left = environment.getOrDefault("SAMPLE_LEFT", "sample-input");
            return new Shape(
                    left,
                    environment.getOrDefault("SAMPLE_RIGHT", left),
                    environment.getOrDefault("SAMPLE_OUTPUT", "sample-output"),
                    Integer.parseInt(environment.getOrDefault("SAMPLE_JOINS", "8")),
                    Duration.ofMillis(Long.parseLong(environment.getOrDefault("SAMPLE_WINDOW_MS", "60000"))),
                    Duration.ofMillis(Long.parseLong(environment.getOrDefault("SAMPLE_GRACE_MS", "60000"))),
                    Boolean.parseBoolean(environment.getOrDefault("SAMPLE_CHANGELOGS", "true")));
        }
    }

    static Topology topology(Shape shape) {
        StreamsBuilder builder = new StreamsBuilder();
        Consumed<byte[], byte[]> bytes = Consumed.with(Serdes.ByteArray(), Serdes.ByteArray());
        KStream<byte[], byte[]> left = builder.stream(shape.left(), bytes);
        // A topic can be read once; a join of a stream with itself uses it twice.
        KStream<byte[], byte[]> right =
                shape.left().equals(shape.right()) ? left : builder.stream(shape.right(), bytes);
        JoinWindows windows = JoinWindows.ofTimeDifferenceAndGrace(shape.window(), shape.grace());
        for (int number = 0; number < shape.joins(); number++) {
            String name = "join-" + number;
            byte[] suffix = ("#" + number).getBytes(StandardCharsets.US_ASCII);
            StreamJoined<byte[], byte[], byte[]> stores = StreamJoined.with(
                            Serdes.ByteArray(), Serdes.ByteArray(), Serdes.ByteArray())
                    .withName(name)
                    .withStoreName(name);
            left.join(
                            right,
                            (one, other) -> sameIdentity(one, other) ? one : null,
                            windows,
                            shape.changelogs() ? stores : stores.withLoggingDisabled())
                    .filter((key, value) -> value != null)
                    .map((key, value) -> KeyValue.pair(joined(key, suffix), value))
                    .to(shape.output(), Produced.with(Serdes.ByteArray(), Serdes.ByteArray()));
        }
        return builder.build();
    }

    private static boolean sameIdentity(byte[] one, byte[] other) {
        return one.length >= IDENTITY_BYTES
                && other.length >= IDENTITY_BYTES
                && Arrays.equals(one, 0, IDENTITY_BYTES, other, 0, IDENTITY_BYTES);
    }

    private static byte[] joined(byte[] key, byte[] suffix) {
        byte[] all = Arrays.copyOf(key, key.length + suffix.length);
        System.arraycopy(suffix, 0, all, key.length, suffix.length);
        return all;
    }
}
