package io.kedge.sample;

import java.io.IOException;
import java.io.Reader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;

/** Runs the joins with the properties file that the first argument names; ends with 1 when they fail. */
public final class SampleStreamsMain {
    /** Closing flushes the stores; a unit's own limit for stopping is longer. */
    private static final Duration CLOSE = Duration.ofSeconds(100);

    private SampleStreamsMain() {}

    /** Runs until SIGTERM, on which it closes its stores, or until a thread fails. */
    public static void main(String[] arguments) throws IOException, InterruptedException {
        if (arguments.length != 1) {
            System.err.println("usage: SampleStreamsMain streams.properties (and the SAMPLE_ variables)");
            System.exit(2);
        }
        Properties properties = new Properties();
        try (Reader reader = Files.newBufferedReader(Path.of(arguments[0]))) {
            properties.load(reader);
        }
        KafkaStreams streams = new KafkaStreams(Joins.topology(Joins.Shape.of(System.getenv())), properties);
        CountDownLatch ended = new CountDownLatch(1);
        streams.setUncaughtExceptionHandler(failure -> {
            failure.printStackTrace();
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.setStateListener((now, before) -> {
            System.out.println("state " + before + " -> " + now);
            if (now == KafkaStreams.State.ERROR || now == KafkaStreams.State.NOT_RUNNING) {
                ended.countDown();
            }
        });
        Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(CLOSE), "close"));
        streams.start();
        ended.await();
        if (streams.state() == KafkaStreams.State.ERROR) {
            // The hook closes what is left; the status tells the unit that this was a failure.
            System.exit(1);
        }
    }
}
