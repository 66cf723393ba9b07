package io.kedge.sandbox;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

class ReadersTest {
  private final Set<Thread> made = ConcurrentHashMap.newKeySet();
  private Readers readers;

  private Readers readers(int most) {
    readers =
        new Readers(
            most,
            work -> {
              Thread thread = new Thread(work);
              thread.setDaemon(true);
              thread.setUncaughtExceptionHandler((of, fault) -> {});
              made.add(thread);
              return thread;
            });
    return readers;
  }

  @AfterEach
  void shutdown() {
    readers.shutdown();
  }

  private static void await(CountDownLatch latch) throws InterruptedException {
    assertTrue(latch.await(10, TimeUnit.SECONDS));
  }

  @Test
  void everyWorkIsDoneByAtMostTheThreadsAllowed() throws InterruptedException {
    CountDownLatch done = new CountDownLatch(1000);
    readers(3);
    for (int i = 0; i < 1000; i++) {
      readers.execute(done::countDown);
    }
    await(done);
    assertTrue(made.size() <= 3, () -> made.size() + " threads");
  }

  @Test
  void noMoreThreadsThanAllowedWhenWorkComesAsTheyFallIdle() throws InterruptedException {
    readers(3);
    for (int round = 0; round < 2000; round++) {
      CountDownLatch done = new CountDownLatch(3);
      for (int i = 0; i < 3; i++) {
        readers.execute(done::countDown);
      }
      await(done);
    }
    assertTrue(made.size() <= 3, () -> made.size() + " threads");
  }

  @Test
  void workThatFailsLeavesNoOtherWaiting() throws InterruptedException {
    CountDownLatch done = new CountDownLatch(1);
    CountDownLatch queued = new CountDownLatch(1);
    readers(1);
    readers.execute(
        () -> {
          try {
            queued.await();
          } catch (InterruptedException e) {
            return;
          }
          throw new IllegalStateException("a fault of the test");
        });
    readers.execute(done::countDown);
    queued.countDown();
    await(done);
  }

  @Test
  void workThatComesAgainGivesWayToWorkThatWaits() throws InterruptedException {
    CountDownLatch started = new CountDownLatch(1);
    CountDownLatch second = new CountDownLatch(1);
    CountDownLatch again = new CountDownLatch(1);
    readers(1);
    readers.execute(
        () -> {
          started.countDown();
          while (!readers.crowded()) {
            Thread.onSpinWait();
          }
          readers.execute(
              () -> {
                assertEquals(0, second.getCount());
                again.countDown();
              });
        });
    await(started);
    readers.execute(second::countDown);
    await(again);
  }
}
