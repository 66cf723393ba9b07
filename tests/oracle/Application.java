import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.StringReader;
import java.time.Duration;
import java.util.Base64;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Produced;

/** Answers for each line, "streams BASE64" of a properties file, whether an application can be made with it. */
public final class Application {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            Properties given = new Properties();
            given.load(new StringReader(new String(Base64.getDecoder().decode(line.split(" ")[1]))));
            String said = "takes";
            try {
                StreamsBuilder builder = new StreamsBuilder();
                builder.stream("in", Consumed.with(Serdes.ByteArray(), Serdes.ByteArray()))
                    .to("out", Produced.with(Serdes.ByteArray(), Serdes.ByteArray()));
                new KafkaStreams(builder.build(), given).close(Duration.ZERO);
            } catch (Exception refused) {
                Throwable first = refused;
                while (first.getCause() != null) {
                    first = first.getCause();
                }
                said = "refuses " + String.valueOf(first.getMessage()).replace('\n', ' ');
            }
            System.out.println(said);
        }
        System.exit(0); // threads of applications that were never started
    }
}
