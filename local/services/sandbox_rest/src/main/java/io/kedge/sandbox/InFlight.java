package io.kedge.sandbox;

/** Counts the requests being served, so that a stop can wait for them. */
final class InFlight {
  private int count;
  private boolean refusing;
  private volatile boolean closingConnections;

  /** Counts a request in; false when no more are taken. */
  synchronized boolean enter() {
    if (refusing) {
      return false;
    }
    count++;
    return true;
  }

  /** Counts a request out, once its answer is written. */
  synchronized void leave() {
    count--;
    notifyAll();
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
    while (count > 0 && left > 0) {
      wait(left);
      left = (deadline - System.nanoTime()) / 1_000_000;
    }
    return count;
  }
}
