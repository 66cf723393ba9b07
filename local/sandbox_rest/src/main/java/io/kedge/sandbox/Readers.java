package io.kedge.sandbox;

import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Semaphore;
import java.util.concurrent.ThreadFactory;

/**
 * Threads for reads: as many as consumer.threads allows, and of those the one used last is used first.
 *
 * <p>Each thread that has read from a broker keeps a direct buffer as large as the largest answer, so a pool that
 * takes its threads in turn holds fifty of them where one would do.
 */
final class Readers {
  private final ExecutorService threads;
  private final Semaphore free;
  private final Queue<Runnable> waiting = new ConcurrentLinkedQueue<>();

  /** Makes a pool of at most so many threads, of any number when it is negative. */
  Readers(int most, ThreadFactory factory) {
    this.threads = Executors.newCachedThreadPool(factory);
    this.free = new Semaphore(most < 0 ? Integer.MAX_VALUE : Math.max(1, most));
  }

  void execute(Runnable work) {
    waiting.add(work);
    useFreeThread();
  }

  /** Whether work waits for a thread. */
  boolean crowded() {
    return !waiting.isEmpty();
  }

  private void useFreeThread() {
    if (free.tryAcquire()) {
      threads.execute(this::work);
    }
  }

  private void work() {
    try {
      for (Runnable next = waiting.poll(); next != null; next = waiting.poll()) {
        next.run();
      }
    } finally {
      free.release();
    }
    // What came between the last look and the release found no free thread.
    if (crowded()) {
      useFreeThread();
    }
  }

  void shutdown() {
    threads.shutdownNow();
  }
}
