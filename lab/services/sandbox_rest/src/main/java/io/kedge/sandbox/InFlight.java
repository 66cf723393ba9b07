package io.kedge.sandbox;

import java.util.HashSet;
import java.util.List;
import java.util.Set;

/** The requests being served, so that a stop can wait for them. */
final class InFlight {
  private final Set<Exchange> open = new HashSet<>();
  private boolean refusing;
  private volatile boolean closingConnections;

  /** Takes a request in; false when no more are taken. */
  synchronized boolean enter(Exchange exchange) {
    return !refusing && open.add(exchange);
  }

  /** Takes a request out, once its answer is written. */
  synchronized void leave(Exchange exchange) {
    open.remove(exchange);
    notifyAll();
  }

  /** The requests that have no answer yet. */
  synchronized List<Exchange> open() {
    return List.copyOf(open);
  }

  /** Whether answers tell clients to come back on another connection. */
  boolean closingConnections() {
    return closingConnections;
  }

  /** From now on answers close their connections, so that clients move elsewhere. */
  void closeConnections() {
    closingConnections = true;
  }

  /** From now on requests are answered 503. */
  synchronized void refuse() {
    refusing = true;
  }

  /** Waits until nothing is in flight, for at most the limit, and returns what is still there. */
  synchronized int await(long limitMs) throws InterruptedException {
    long deadline = System.nanoTime() + limitMs * 1_000_000;
    long left = limitMs;
    while (!open.isEmpty() && left > 0) {
      wait(left);
      left = (deadline - System.nanoTime()) / 1_000_000;
    }
    return open.size();
  }
}
