/* SPDX-License-Identifier: Apache-2.0 */

import java.util.concurrent.CountDownLatch;

/**
 * Compiled frames whose code is invalidated while they wait: it was compiled for the only subclass that there was, then
 * another one is loaded. They return to a handler instead of their own code.
 */
public final class Deopt {
    private abstract static class Base {
        abstract int run(int n, boolean waits);
    }

    private static final class First extends Base {
        @Override int run(int n, boolean waits) {
            if (waits) {
                stop();
            }
            return n * 3;
        }
    }

    private static final class Second extends Base {
        @Override int run(int n, boolean waits) {
            return n;
        }
    }

    private static final CountDownLatch NEVER = new CountDownLatch(1);
    private static final CountDownLatch WAITING = new CountDownLatch(8);
    private static volatile long sink;

    private static boolean armed;

    private static void stop() {
        if (!armed) {
            return;
        }
        WAITING.countDown();
        try {
            NEVER.await();
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    private static int inner(Base base, int n, boolean waits) {
        int sum = 0;
        for (int i = 0; i < 3; i++) {
            sum += base.run(n + i, waits && i == 1);
        }
        return sum;
    }

    private static int outer(Base base, int n, boolean waits) {
        int sum = inner(base, n, false);
        return sum + inner(base, n + 1, waits);
    }

    public static void main(String[] arguments) throws Exception {
        Base first = new First();
        for (int i = 0; i < 30_000; i++) {
            sink += outer(first, i, (i & 3) == 0);
        }
        armed = true;
        for (int i = 0; i < 8; i++) {
            Thread thread = new Thread(() -> {
                sink += outer(first, 5, true);
            });
            thread.setDaemon(true);
            thread.start();
        }
        WAITING.await();
        Thread.sleep(200);
        sink += new Second().run(1, false);
        System.out.println("waiting");
        System.out.flush();
        Thread.sleep(600_000);
    }
}
