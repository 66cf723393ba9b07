import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.StringReader;
import java.lang.reflect.Method;
import java.time.Duration;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.config.ConfigValue;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.connect.connector.Connector;
import org.apache.kafka.connect.connector.policy.AllConnectorClientConfigOverridePolicy;
import org.apache.kafka.connect.mirror.MirrorCheckpointConnector;
import org.apache.kafka.connect.mirror.MirrorMaker;
import org.apache.kafka.connect.mirror.MirrorMakerConfig;
import org.apache.kafka.connect.mirror.MirrorSourceConfig;
import org.apache.kafka.connect.mirror.MirrorSourceConnector;
import org.apache.kafka.connect.mirror.SourceAndTarget;
import org.apache.kafka.connect.runtime.ConnectorConfig;
import org.apache.kafka.connect.runtime.Worker;
import org.apache.kafka.connect.runtime.WorkerConfig;
import org.apache.kafka.connect.runtime.distributed.DistributedConfig;

/** Answers for each line, "mm2 BASE64" of a properties file, whether MirrorMaker 2 could copy by it. */
public final class Mirror {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            Properties given = new Properties();
            given.load(new StringReader(new String(Base64.getDecoder().decode(line.split(" ")[1]))));
            String said = "takes";
            try {
                Map<String, String> values = new HashMap<>();
                values.put("plugin.discovery", "service_load"); // or each file would scan all classes
                given.forEach((key, value) -> values.put((String) key, (String) value));
                check(new MirrorMakerConfig(values));
            } catch (Throwable refused) {
                Throwable first = refused;
                while (first.getCause() != null) {
                    first = first.getCause();
                }
                said = "refuses " + String.valueOf(first.getMessage()).replace('\n', ' ');
            }
            System.out.println(said);
        }
        System.exit(0);
    }

    /** Does what the start of MirrorMaker 2 does with its values, without a broker. */
    private static void check(MirrorMakerConfig config) throws Exception {
        for (SourceAndTarget flow : config.clusterPairs()) {
            if (!"true".equals(config.originalsStrings().get(flow + ".enabled"))) {
                continue;
            }
            WorkerConfig worker = new DistributedConfig(config.workerConfig(flow));
            for (Class<?> type : MirrorMaker.CONNECTOR_CLASSES) {
                Connector connector = (Connector) type.getConstructor().newInstance();
                Map<String, String> of = config.connectorBaseConfig(flow, type);
                // Without checkpoints, which nobody asked for, records are copied all the same.
                if (type == MirrorCheckpointConnector.class && !"true".equals(of.get("sync.group.offsets.enabled"))) {
                    continue;
                }
                for (ConfigValue value : connector.validate(of).configValues()) {
                    if (!value.errorMessages().isEmpty()) {
                        throw new IllegalArgumentException(value.errorMessages().get(0));
                    }
                }
            }
            Map<String, String> of = config.connectorBaseConfig(flow, MirrorSourceConnector.class);
            MirrorSourceConfig source = new MirrorSourceConfig(of);
            named(MirrorSourceConfig.class, "topicFilter", 0).invoke(source);
            if (((Duration) named(MirrorSourceConfig.class, "refreshTopicsInterval", 0).invoke(source)).isZero()) {
                throw new IllegalArgumentException("period of 0"); // of scheduleAtFixedRate
            }
            ConnectorConfig connector = new ConnectorConfig(null, of) { };
            produce(worker, connector);
            consume(named(source.getClass().getSuperclass(), "sourceConsumerConfig", 1).invoke(source, "replication-consumer"));
        }
    }

    @SuppressWarnings("unchecked")
    private static void produce(WorkerConfig worker, ConnectorConfig connector) throws Exception {
        Map<String, Object> values = (Map<String, Object>) named(Worker.class, "baseProducerConfigs", 7).invoke(
            null, "m", "m", worker, connector, MirrorSourceConnector.class,
            new AllConnectorClientConfigOverridePolicy(), "c");
        new KafkaProducer<>(values, new ByteArraySerializer(), new ByteArraySerializer()).close(Duration.ZERO);
    }

    @SuppressWarnings("unchecked")
    private static void consume(Object values) {
        new KafkaConsumer<>((Map<String, Object>) values, new ByteArrayDeserializer(), new ByteArrayDeserializer())
            .close(Duration.ZERO);
    }

    private static Method named(Class<?> of, String name, int parameters) throws Exception {
        for (Method method : of.getDeclaredMethods()) {
            Class<?>[] takes = method.getParameterTypes();
            if (method.getName().equals(name) && takes.length == parameters
                && (parameters != 1 || takes[0] == String.class)) {
                method.setAccessible(true);
                return method;
            }
        }
        throw new NoSuchMethodException(name);
    }
}
