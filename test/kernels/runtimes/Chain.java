// SPDX-License-Identifier: Apache-2.0
import java.lang.management.ManagementFactory;

/** Calls of known names for SECONDS of CPU time: outer, middle, inner, which works. */
public final class Chain {
    private static long inner(int turns) {
        long total = 0;
        for (int turn = 0; turn < turns; turn++)
            total += turn % 7 ^ total >> 3;
        return total;
    }

    private static long middle(int turns) {
        return inner(turns) + 1;
    }

    private static long outer(int turns) {
        return middle(turns) + 1;
    }

    private static long cpuTime() {
        return ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
    }

    public static void main(String[] arguments) {
        long end = cpuTime() + Long.parseLong(arguments[0]) * 1_000_000_000L, total = 0;
        while (cpuTime() < end)
            total += outer(1000000);
        System.out.println(total);
    }
}
