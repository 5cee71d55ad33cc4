// SPDX-License-Identifier: Apache-2.0
// Load whose stacks are known from this text: phases.py says more. java Phases SECONDS
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Comparator;

public class Phases implements Comparator<Object> {
    static final int DEPTH = 24;
    static final long PHASE_MS = 100;
    static volatile int sink;

    static int twist(int value) {
        return value * 31 & 0xffffff;
    }

    static int mix(int total, int step) {
        return twist(total + step) ^ step;
    }

    static int burn(long until) {
        int total = 0;
        while (System.currentTimeMillis() < until) {
            for (int step = 0; step < 3000; step++) {
                total = mix(total, step);
            }
        }
        return total;
    }

    static int descend(int depth, long until) {
        if (depth > 0) {
            return descend(depth - 1, until) + 1;
        }
        return burn(until);
    }

    static int plain(long until) {
        return descend(DEPTH, until);
    }

    static int scramble(long until) {
        int total = 1;
        while (System.currentTimeMillis() < until) {
            for (int step = 0; step < 3000; step++) {
                total = total * 17 + step & 0xffffff;
            }
        }
        return total;
    }

    static int even(int depth, long until) {
        if (depth > 0) {
            return odd(depth - 1, until) + 2;
        }
        return scramble(until);
    }

    static int odd(int depth, long until) {
        return even(depth - 1, until) + 3;
    }

    static int mutual(long until) {
        return even(DEPTH, until);
    }

    static int count(long until) {
        int total = 0;
        while (System.currentTimeMillis() < until) {
            for (int step = 0; step < 3000; step++) {
                total = twist(total ^ step);
            }
        }
        return total;
    }

    static int first(int depth, long until) {
        return depth > 0 ? second(depth - 1, until) + 1 : count(until);
    }

    static int second(int depth, long until) {
        return third(depth - 1, until) * 2;
    }

    static int third(int depth, long until) {
        return fourth(depth - 1, until) - 3;
    }

    static int fourth(int depth, long until) {
        return first(depth - 1, until) + 4;
    }

    static int ladder(long until) {
        return first(DEPTH, until);
    }

    static int weigh(int one, int other) {
        int total = one;
        for (int step = 0; step < 3000; step++) {
            total = mix(step, total);
        }
        return total < 0 ? 0 : one - other;
    }

    public int compare(Object one, Object other) {
        return weigh((Integer) one, (Integer) other);
    }

    static int sort(long until) {
        Object[] items = {3, 1, 2};
        while (System.currentTimeMillis() < until) {
            Arrays.sort(items, new Phases()); // calls compare
        }
        return (Integer) items[0];
    }

    static int shelve(int depth, long until) {
        if (depth > 0) {
            return shelve(depth - 1, until) + 1;
        }
        return sort(until);
    }

    static int library(long until) {
        return shelve(DEPTH, until);
    }

    static void say(String phase, long begin) {
        System.out.println(phase + " " + begin + "000000 " + System.currentTimeMillis() + "000000");
    }

    public static void main(String[] arguments) throws Exception {
        System.out.println("thread " + Files.readSymbolicLink(Path.of("/proc/thread-self")).getFileName());
        long end = System.currentTimeMillis() + (long) (Double.parseDouble(arguments[0]) * 1000);
        while (System.currentTimeMillis() < end) {
            long begin = System.currentTimeMillis();
            sink += plain(begin + PHASE_MS);
            say("plain", begin);
            begin = System.currentTimeMillis();
            sink += mutual(begin + PHASE_MS);
            say("mutual", begin);
            begin = System.currentTimeMillis();
            sink += ladder(begin + PHASE_MS);
            say("ladder", begin);
            begin = System.currentTimeMillis();
            sink += library(begin + PHASE_MS);
            say("library", begin);
        }
    }
}
