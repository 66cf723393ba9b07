package io.kedge.sample;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.stream.Collectors;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.TestOutputTopic;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.test.TestRecord;
import org.junit.jupiter.api.Test;

class JoinsTest {
    private static final byte[] KEY = "0-7".getBytes(StandardCharsets.US_ASCII);

    @Test
    void a_record_joined_with_its_own_stream_comes_out_once_a_join() {
        try (TopologyTestDriver driver = driver(Map.of("SAMPLE_JOINS", "3"))) {
            input(driver, "sample-input").pipeInput(KEY, value('a'));
            List<TestRecord<byte[], byte[]>> out = output(driver).readRecordsToList();
            assertEquals(List.of("0-7#0", "0-7#1", "0-7#2"), keys(out));
            out.forEach(record -> assertArrayEquals(value('a'), record.value()));
        }
    }

    @Test
    void another_record_with_the_same_key_is_no_pair() {
        try (TopologyTestDriver driver = driver(Map.of("SAMPLE_JOINS", "1"))) {
            input(driver, "sample-input").pipeInput(KEY, value('a'));
            input(driver, "sample-input").pipeInput(KEY, value('b'));
            assertEquals(2, output(driver).readRecordsToList().size());
        }
    }

    @Test
    void a_pair_of_two_streams_comes_out_within_the_window_and_not_after_it() {
        Map<String, String> shape = Map.of("SAMPLE_JOINS", "1", "SAMPLE_RIGHT", "right", "SAMPLE_WINDOW_MS", "1000");
        try (TopologyTestDriver driver = driver(shape)) {
            input(driver, "sample-input").pipeInput(KEY, value('a'), 10_000);
            assertTrue(output(driver).isEmpty());
            input(driver, "right").pipeInput(KEY, value('a'), 11_001);
            assertTrue(output(driver).isEmpty());
            input(driver, "right").pipeInput(KEY, value('a'), 11_000);
            assertEquals(1, output(driver).readRecordsToList().size());
        }
    }

    @Test
    void stores_have_changelogs_unless_told_otherwise() {
        for (boolean changelogs : new boolean[] {true, false}) {
            Map<String, String> shape = Map.of("SAMPLE_JOINS", "1", "SAMPLE_CHANGELOGS", String.valueOf(changelogs));
            try (TopologyTestDriver driver = driver(shape)) {
                input(driver, "sample-input").pipeInput(KEY, value('a'));
                boolean logged = driver.producedTopicNames().stream().anyMatch(name -> name.endsWith("-changelog"));
                assertEquals(changelogs, logged);
            }
        }
    }

    private static TopologyTestDriver driver(Map<String, String> shape) {
        Properties properties = new Properties();
        properties.put("application.id", "test");
        properties.put("bootstrap.servers", "nowhere:0");
        return new TopologyTestDriver(Joins.topology(Joins.Shape.of(shape)), properties);
    }

    private static TestInputTopic<byte[], byte[]> input(TopologyTestDriver driver, String topic) {
        return driver.createInputTopic(topic, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private static TestOutputTopic<byte[], byte[]> output(TopologyTestDriver driver) {
        return driver.createOutputTopic("sample-output", new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private static List<String> keys(List<TestRecord<byte[], byte[]>> records) {
        return records.stream().map(r -> new String(r.key(), StandardCharsets.US_ASCII)).collect(Collectors.toList());
    }

    private static byte[] value(char filler) {
        return String.valueOf(filler).repeat(100).getBytes(StandardCharsets.US_ASCII);
    }
}
