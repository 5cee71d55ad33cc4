/* SPDX-License-Identifier: Apache-2.0 */

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CountDownLatch;
import java.util.function.Function;
import java.util.function.IntUnaryOperator;
import java.util.stream.Collectors;
import java.util.zip.CRC32;

/**
 * Stacks of each kind of frame: interfaces, lambdas, streams, recursion, synchronized and native methods, reflection.
 * "wait N": warms up by N calls, then N threads wait at the bottom, each of another tree. "spin": works in main until it
 * is ended.
 */
public final class Stacks {
    private interface Shape {
        int area(int depth);
    }

    private static final class Square implements Shape {
        @Override public int area(int depth) {
            return bottom(depth) + 1;
        }
    }

    private static final class Circle implements Shape {
        @Override public synchronized int area(int depth) {
            int inner = bottom(depth);
            return inner * 3;
        }
    }

    private static final Shape SQUARE = new Square();
    private static final ThreadLocal<Boolean> WAITS = ThreadLocal.withInitial(() -> false);
    private static final CountDownLatch NEVER = new CountDownLatch(1);
    private static CountDownLatch waiting;
    private static volatile long sink;

    private static int bottom(int value) {
        if (WAITS.get()) {
            waiting.countDown();
            try {
                NEVER.await();
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
        }
        return value * 31 + 7;
    }

    private static int small(int value) {
        Shape shape = (value & 1) == 0 ? SQUARE : new Circle();
        return value < 0 ? bottom(-value)
                         : shape.area(value);
    }

    private static int recursive(int depth) {
        if (depth == 0) {
            return small(3);
        }
        return recursive(depth - 1) + depth;
    }

    private static int lambda(int value) {
        IntUnaryOperator inner = x -> small(x) + value;
        Function<Integer, Integer> outer = x -> inner.applyAsInt(x);
        return outer.apply(value);
    }

    private static int stream(int value) {
        List<Integer> numbers = Arrays.asList(value, value + 1);
        return numbers.stream().map(x -> lambda(x)).filter(x -> x != 0).collect(Collectors.toList()).size();
    }

    private static int sorted(int value) {
        List<Integer> numbers = new ArrayList<>(Arrays.asList(value + 2, value, value + 1));
        numbers.sort((a, b) -> {
            small(a);
            return Integer.compare(a, b);
        });
        return numbers.get(0);
    }

    public static int reflected(int value) {
        return small(value);
    }

    private static int reflection(int value) {
        try {
            return (int) Stacks.class.getMethod("reflected", int.class).invoke(null, value);
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }

    private static int initializer(int value) {
        Object lock = new Object();
        synchronized (lock) {
            Map<Integer, Integer> map = new TreeMap<>();
            return map.computeIfAbsent(value, x -> small(x));
        }
    }

    private static int tree(int kind, int value) {
        switch (kind % 7) {
        case 0: return recursive(5);
        case 1: return lambda(value);
        case 2: return stream(value);
        case 3: return sorted(value);
        case 4: return reflection(value);
        case 5: return initializer(value);
        default: return small(value) + recursive(3);
        }
    }

    private static void await(int calls) throws Exception {
        int threads = 14;
        waiting = new CountDownLatch(threads);
        for (int i = 0; i < calls; i++) {
            sink += tree(i, i & 15);
        }
        for (int i = 0; i < threads; i++) {
            int kind = i;
            Thread thread = new Thread(() -> {
                WAITS.set(true);
                sink += tree(kind, kind);
            }, "tree-" + i);
            thread.setDaemon(true);
            thread.start();
        }
        waiting.await();
        System.out.println("waiting");
        System.out.flush();
        Thread.sleep(600_000);
    }

    private static long numbers(int n) {
        long sum = 0;
        double real = 0;
        for (int i = 1; i <= n; i++) {
            sum += (sum % i) ^ ((long) i << (i & 7));
            real += Math.sin(i) * Math.sqrt(i) + Math.pow(i, 0.3);
        }
        return sum + (long) real;
    }

    private static long texts(int n) {
        StringBuilder text = new StringBuilder();
        for (int i = 0; i < n; i++) {
            text.append(i).append(',');
        }
        String[] parts = text.toString().split(",");
        List<String> list = new ArrayList<>(Arrays.asList(parts));
        Collections.sort(list);
        Map<String, Integer> lengths = list.stream().collect(Collectors.toMap(x -> x, String::length));
        return lengths.size();
    }

    private static long bytes(int n) {
        byte[] from = new byte[n], to = new byte[n];
        Arrays.fill(from, (byte) 3);
        System.arraycopy(from, 0, to, 0, n);
        CRC32 crc = new CRC32();
        crc.update(to, 0, n);
        return crc.getValue() + Arrays.hashCode(to) + System.identityHashCode(to) + from.clone().length;
    }

    private static void spin() {
        System.out.println("waiting");
        System.out.flush();
        for (int i = 0;; i++) {
            sink += tree(i, i & 15) + numbers(40) + texts(60) + bytes(3000) + bytes(i & 63);
        }
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments[0].equals("spin")) {
            spin();
        }
        await(Integer.parseInt(arguments[1]));
    }
}
