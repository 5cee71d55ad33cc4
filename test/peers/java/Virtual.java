/* SPDX-License-Identifier: Apache-2.0 */

import java.lang.reflect.Method;
import java.util.concurrent.locks.LockSupport;

/** Virtual threads (21 and later) that yield at the bottom of a deep stack, and work again after it. */
public final class Virtual {
    private static volatile long sink;

    private static void work(int n) {
        for (int i = 0; i < n; i++) {
            sink += i % 7;
        }
    }

    private static int deep(int depth) {
        if (depth == 0) {
            LockSupport.parkNanos(1000);
            work(200_000);
            return 1;
        }
        int below = deep(depth - 1);
        if (depth < 4) {
            work(100_000);
        }
        return below + depth;
    }

    private static void body() {
        for (;;) {
            sink += deep(20);
        }
    }

    public static void main(String[] arguments) throws Exception {
        Method start = Thread.class.getMethod("startVirtualThread", Runnable.class);
        for (int i = 0; i < 4; i++) {
            start.invoke(null, (Runnable) Virtual::body);
        }
        System.out.println("waiting");
        Thread.sleep(600_000);
    }
}
