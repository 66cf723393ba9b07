package io.kedge.sandbox;

import java.io.IOException;
import java.net.URI;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.time.Duration;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.concurrent.LinkedBlockingQueue;
import org.eclipse.jetty.alpn.server.ALPNServerConnectionFactory;
import org.eclipse.jetty.http.HttpVersion;
import org.eclipse.jetty.http.UriCompliance;
import org.eclipse.jetty.http2.server.HTTP2CServerConnectionFactory;
import org.eclipse.jetty.http2.server.HTTP2ServerConnectionFactory;
import org.eclipse.jetty.server.ConnectionFactory;
import org.eclipse.jetty.server.Connector;
import org.eclipse.jetty.server.Handler;
import org.eclipse.jetty.server.HttpConfiguration;
import org.eclipse.jetty.server.HttpConnectionFactory;
import org.eclipse.jetty.server.SecureRequestCustomizer;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;
import org.eclipse.jetty.server.SslConnectionFactory;
import org.eclipse.jetty.server.handler.gzip.GzipHandler;
import org.eclipse.jetty.util.thread.QueuedThreadPool;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Runs a sandbox REST proxy: {@code SandboxRestMain kafka-rest.properties}. */
public final class SandboxRestMain {
  private static final Duration PRODUCER_CLOSE = Duration.ofSeconds(10);
  private static final long CONSUMERS_CLOSE_MS = 10_000;
  private static final long LAST_CALL_MS = 1000;
  private static final long CONNECTIONS_CHECK_MS = 20;

  private final ProxyConfig config;
  private final KafkaClients clients;
  private final ConsumerInstances instances;
  private final InFlight inFlight = new InFlight();
  private final Server server;

  private SandboxRestMain(ProxyConfig config) throws IOException, GeneralSecurityException {
    this.config = config;
    this.clients = new KafkaClients(config);
    this.instances = new ConsumerInstances(config);
    this.server = new Server(threadPool(config));
    for (URI listener : config.listeners()) {
      server.addConnector(connector(listener));
    }
    Api api = new Api(config, clients, instances, inFlight);
    Handler inside = config.login().map(login -> Doors.login(login, api)).orElse(api);
    server.setHandler(config.compression() ? compressing(inside) : inside);
  }

  /** As rest-utils has it. An answer of the real proxy has no length yet when it is compressed, so none is too small. */
  private static Handler compressing(Handler inside) {
    GzipHandler gzip = new GzipHandler();
    gzip.setIncludedMethods("GET", "POST");
    gzip.setMinGzipSize(1);
    gzip.setHandler(inside);
    return gzip;
  }

  /**
   * Serves until the process is told to end.
   *
   * @param arguments the properties file
   */
  public static void main(String[] arguments) throws InterruptedException {
    if (arguments.length != 1) {
      end("usage: kafka-rest-start PROPERTIES_FILE");
    }
    ProxyConfig config;
    try {
      config = ProxyConfig.read(Path.of(arguments[0]));
    } catch (ProxyConfig.Problem e) {
      end(e.getMessage());
      return;
    }
    Logger log = LoggerFactory.getLogger(SandboxRestMain.class);
    if (!config.unknown().isEmpty()) {
      log.warn("{}: unknown keys, ignored: {}", arguments[0], String.join(", ", config.unknown()));
    }
    if (!config.withoutEffect().isEmpty()) {
      log.info("Keys without effect in the sandbox: {}", String.join(", ", config.withoutEffect()));
    }
    SandboxRestMain proxy;
    try {
      proxy = new SandboxRestMain(config);
      proxy.server.start();
    } catch (Exception e) {
      end(arguments[0] + ": listeners: " + reason(e));
      return;
    }
    Runtime.getRuntime().addShutdownHook(new Thread(() -> proxy.stop(log), "stop"));
    log.info("Server started, listening for requests at {}", config.listeners());
    proxy.server.join();
  }

  private static String reason(Throwable failure) {
    Throwable root = failure;
    while (root.getCause() != null) {
      root = root.getCause();
    }
    return failure == root ? failure.toString() : failure.getMessage() + ": " + root.getMessage();
  }

  private static void end(String message) {
    System.err.println("kafka-rest: " + message);
    System.exit(1);
  }

  private static QueuedThreadPool threadPool(ProxyConfig config) {
    QueuedThreadPool pool =
        new QueuedThreadPool(
            config.threadPoolMax(),
            config.threadPoolMin(),
            60_000,
            new LinkedBlockingQueue<>(config.requestQueueCapacity()));
    pool.setName("http");
    return pool;
  }

  private ServerConnector connector(URI listener) throws IOException, GeneralSecurityException {
    HttpConfiguration http = new HttpConfiguration();
    http.setSendServerVersion(false);
    http.setRequestHeaderSize(config.requestHeaderBytes());
    http.setResponseHeaderSize(config.responseHeaderBytes());
    // Topics of some stores are paths, so a segment may hold an encoded slash.
    http.setUriCompliance(
        UriCompliance.from(
            EnumSet.of(
                UriCompliance.Violation.AMBIGUOUS_PATH_SEPARATOR,
                UriCompliance.Violation.AMBIGUOUS_PATH_ENCODING)));
    ServerConnector connector = new ServerConnector(server, protocols(listener, http));
    connector.setHost(listener.getHost());
    connector.setPort(listener.getPort());
    connector.setAcceptQueueSize(config.acceptBacklog());
    connector.setIdleTimeout(config.idleTimeoutMs());
    return connector;
  }

  /** HTTP/1.1, HTTP/2 beside it as the real proxy has it, and TLS around them. */
  private ConnectionFactory[] protocols(URI listener, HttpConfiguration http)
      throws IOException, GeneralSecurityException {
    HttpConnectionFactory plain = new HttpConnectionFactory(http);
    if (!listener.getScheme().equals("https")) {
      return config.http2()
          ? new ConnectionFactory[] {plain, new HTTP2CServerConnectionFactory(http)}
          : new ConnectionFactory[] {plain};
    }
    ProxyConfig.Tls tls = config.tls().orElseThrow();
    // As rest-utils 8.x: 400 where the certificate does not name the request's Host.
    http.addCustomizer(new SecureRequestCustomizer(tls.hostCheck()));
    if (!config.http2()) {
      return new ConnectionFactory[] {new SslConnectionFactory(Doors.tls(tls), plain.getProtocol()), plain};
    }
    ALPNServerConnectionFactory choice = new ALPNServerConnectionFactory();
    choice.setDefaultProtocol(HttpVersion.HTTP_1_1.asString());
    SslConnectionFactory around = new SslConnectionFactory(Doors.tls(tls), choice.getProtocol());
    return new ConnectionFactory[] {around, choice, new HTTP2ServerConnectionFactory(http), plain};
  }

  private void stop(Logger log) {
    log.info("Stopping");
    try {
      drain(log);
      server.stop();
      instances.close(CONSUMERS_CLOSE_MS);
      clients.close(PRODUCER_CLOSE);
      log.info("Stopped");
    } catch (Exception e) {
      log.error("The stop failed", e);
    }
  }

  private void drain(Logger log) throws InterruptedException {
    if (config.sigterm() == ProxyConfig.Sigterm.DROP) {
      return;
    }
    if (config.sigterm() == ProxyConfig.Sigterm.EMPTY) {
      awaitConnections(config.shutdownGracefulMs());
      inFlight.refuse();
      inFlight.open().forEach(exchange -> exchange.empty(200));
      inFlight.await(LAST_CALL_MS);
      return;
    }
    inFlight.closeConnections();
    instances.endReads();
    long limitMs = config.shutdownGracefulMs();
    if (config.sigterm() == ProxyConfig.Sigterm.DRAIN) {
      inFlight.await(limitMs);
      inFlight.refuse();
      limitMs = LAST_CALL_MS;
    }
    closeListeners(log);
    int left = inFlight.await(limitMs);
    if (left > 0) {
      log.warn("{} requests in flight are dropped", left);
    }
  }

  /** Waits until clients have closed all connections, for at most the limit. */
  private void awaitConnections(long limitMs) throws InterruptedException {
    long deadline = System.nanoTime() + limitMs * 1_000_000;
    while (System.nanoTime() < deadline && connected()) {
      Thread.sleep(CONNECTIONS_CHECK_MS);
    }
  }

  private boolean connected() {
    return Arrays.stream(server.getConnectors())
        .anyMatch(connector -> !connector.getConnectedEndPoints().isEmpty());
  }

  private void closeListeners(Logger log) {
    for (Connector connector : server.getConnectors()) {
      if (connector instanceof ServerConnector listening) {
        try {
          listening.close();
        } catch (RuntimeException e) {
          log.warn("A listener was not closed: {}", e.toString());
        }
      }
    }
  }
}
