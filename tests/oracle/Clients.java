import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.StringReader;
import java.time.Duration;
import java.util.Base64;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Answers for each line, "producer BASE64" or "consumer BASE64" of a properties file, whether Kafka's client takes it. */
public final class Clients {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] parts = line.split(" ");
            Properties given = new Properties();
            given.load(new StringReader(new String(Base64.getDecoder().decode(parts[1]))));
            String said = "takes";
            try {
                if (parts[0].equals("producer")) {
                    new KafkaProducer<>(given, new ByteArraySerializer(), new ByteArraySerializer()).close(Duration.ZERO);
                } else {
                    new KafkaConsumer<>(given, new ByteArrayDeserializer(), new ByteArrayDeserializer()).close(Duration.ZERO);
                }
            } catch (Exception refused) {
                Throwable first = refused;
                while (first.getCause() != null) {
                    first = first.getCause();
                }
                said = "refuses " + first.getMessage().replace('\n', ' ');
            }
            System.out.println(said);
        }
    }
}
