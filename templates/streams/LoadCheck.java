package kedge;

import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.HashMap;
import java.util.Map;
import java.util.stream.Stream;
import org.apache.kafka.streams.state.internals.metrics.RocksDBMetricsRecorder;
import org.rocksdb.Cache;
import org.rocksdb.RocksDB;
import org.rocksdb.Statistics;

/**
 * Proves, with the application's own jars, that its main class is there and that a store of its Kafka Streams
 * opens with the rendered RocksDB class. Ends with 0, or prints one line that says what is wrong and ends with 1.
 */
public final class LoadCheck {
    private LoadCheck() {}

    /** Checks the main class named by the first argument and, if there is a second, that RocksDB class. */
    public static void main(String[] arguments) throws IOException {
        String wrong = mainClass(arguments[0]);
        if (wrong == null && arguments.length > 1) {
            Path folder = Files.createTempDirectory("kedge-load-check-");
            try {
                wrong = opensAStore(arguments[1], folder.toFile());
            } finally {
                remove(folder);
            }
        }
        if (wrong != null) {
            System.out.println(wrong);
            System.exit(1);
        }
    }

    private static String mainClass(String name) {
        try {
            Class.forName(name, false, LoadCheck.class.getClassLoader()).getMethod("main", String[].class);
            return null;
        } catch (ClassNotFoundException missing) {
            return "no jar holds the main class " + name;
        } catch (NoSuchMethodException missing) {
            return "class " + name + " has no method main(String[])";
        } catch (LinkageError broken) {
            return "class " + name + " cannot be loaded: " + broken;
        }
    }

    private static String opensAStore(String setter, File folder) {
        try {
            Class<?> type = Class.forName("org.apache.kafka.streams.state.internals.RocksDBStore");
            Constructor<?> make = type.getDeclaredConstructor(String.class, String.class, RocksDBMetricsRecorder.class);
            make.setAccessible(true);
            Object store = make.newInstance("kedge", "kedge", new QuietRecorder());
            Map<String, Object> configs = new HashMap<>();
            configs.put("rocksdb.config.setter", Class.forName(setter));
            configs.put("metrics.recording.level", "INFO");
            Method open = type.getDeclaredMethod("openDB", Map.class, File.class);
            open.setAccessible(true);
            open.invoke(store, configs, folder);
            type.getMethod("close").invoke(store);
            return null;
        } catch (InvocationTargetException failure) {
            return "a store does not open with " + setter + ": " + innermost(failure);
        } catch (ReflectiveOperationException | LinkageError failure) {
            return setter + " cannot be loaded: " + innermost(failure);
        }
    }

    /** The store's measurements have no application to go to here. */
    private static final class QuietRecorder extends RocksDBMetricsRecorder {
        QuietRecorder() {
            super("kedge", "kedge");
        }

        @Override
        public void addValueProviders(String segment, RocksDB database, Cache cache, Statistics statistics) {}

        @Override
        public void removeValueProviders(String segment) {}
    }

    private static Throwable innermost(Throwable failure) {
        Throwable found = failure;
        while (found.getCause() != null) {
            found = found.getCause();
        }
        return found;
    }

    private static void remove(Path folder) throws IOException {
        try (Stream<Path> paths = Files.walk(folder)) {
            for (Path path : (Iterable<Path>) paths.sorted(Comparator.reverseOrder())::iterator) {
                Files.delete(path);
            }
        } catch (UncheckedIOException failure) {
            throw failure.getCause();
        }
    }
}
