package io.kedge.sandbox;

import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HashSet;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Semaphore;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.TimeUnit;

/**
 * Threads for reads: as many as consumer.threads allows, and of those the one used last is used first.
 *
 * <p>Each thread that has read from a broker keeps a direct buffer as large as the largest answer, so a pool that
 * takes its threads in turn holds fifty of them where one would do. A cached pool under a semaphore takes the last one
 * too, but starts one more than allowed whenever a permit is back before its thread is.
 */
final class Readers {
  private static final long IDLE_S = 60;

  private final int most;
  private final ThreadFactory factory;
  private final Queue<Runnable> waiting = new ConcurrentLinkedQueue<>();
  private final Deque<Semaphore> idle = new ArrayDeque<>();
  private final Set<Thread> threads = new HashSet<>();
  private boolean shutdown;

  /** Makes a pool of at most so many threads, of any number when it is negative. */
  Readers(int most, ThreadFactory factory) {
    this.most = most < 0 ? Integer.MAX_VALUE : Math.max(1, most);
    this.factory = factory;
  }

  synchronized void execute(Runnable work) {
    if (shutdown) {
      return;
    }
    waiting.add(work);
    if (!idle.isEmpty()) {
      idle.pop().release();
    } else if (threads.size() < most) {
      start();
    }
  }

  private void start() {
    Thread thread = factory.newThread(this::serve);
    threads.add(thread);
    thread.start();
  }

  /** Whether work waits for a thread. */
  boolean crowded() {
    return !waiting.isEmpty();
  }

  private void serve() {
    Semaphore called = new Semaphore(0);
    try {
      for (Runnable next = next(called); next != null; next = next(called)) {
        next.run();
      }
    } catch (InterruptedException e) {
      // The pool is shut down.
    } finally {
      synchronized (this) {
        threads.remove(Thread.currentThread());
        if (crowded() && !shutdown) {
          // This thread died of its work; what waits must not wait for the next request.
          start();
        }
      }
    }
  }

  /** Waits for work; null when none came for a while. */
  private Runnable next(Semaphore called) throws InterruptedException {
    while (true) {
      synchronized (this) {
        Runnable next = waiting.poll();
        if (next != null) {
          return next;
        }
        idle.push(called);
      }
      if (!called.tryAcquire(IDLE_S, TimeUnit.SECONDS)) {
        synchronized (this) {
          if (idle.remove(called)) {
            return null;
          }
        }
        // Called in the last moment.
        called.acquire();
      }
    }
  }

  synchronized void shutdown() {
    shutdown = true;
    waiting.clear();
    threads.forEach(Thread::interrupt);
  }
}
