/* SPDX-License-Identifier: Apache-2.0 */

import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.function.IntUnaryOperator;

/**
 * Classes that come and go: each has methods of names of its own, which call each other, so that a name that was taken
 * from another class does not fit its neighbours. With a small code cache their compiled code is flushed too.
 */
public final class Unload {
    /** Its name and those of its methods are replaced by others of the same length. */
    public static final class Body0000 implements IntUnaryOperator {
        @Override public int applyAsInt(int n) {
            int sum = 0;
            for (int i = 0; i < n; i++) {
                sum += outer0000(i);
            }
            return sum;
        }

        private static int outer0000(int n) {
            int sum = 0;
            for (int i = 0; i < 40; i++) {
                sum += inner0000(i) ^ n;
            }
            return sum + (n > 3 ? inner0000(n) : 0);
        }

        private static int inner0000(int n) {
            int sum = n;
            for (int i = 0; i < 30; i++) {
                sum += sum % (i + 1);
            }
            return sum;
        }
    }

    private static final class Loader extends ClassLoader {
        private Class<?> define(String name, byte[] bytes) {
            return defineClass(name, bytes, 0, bytes.length);
        }
    }

    private static volatile long sink;

    public static void main(String[] arguments) throws Exception {
        byte[] original;
        try (InputStream in = Unload.class.getResourceAsStream("Unload$Body0000.class")) {
            original = in.readAllBytes();
        }
        String text = new String(original, StandardCharsets.ISO_8859_1);
        System.out.println("waiting");
        for (int i = 1;; i++) {
            String token = String.format("%04d", i % 10000);
            byte[] bytes = text.replace("0000", token).getBytes(StandardCharsets.ISO_8859_1);
            Class<?> body = new Loader().define("Unload$Body" + token, bytes);
            IntUnaryOperator operator = (IntUnaryOperator) body.getDeclaredConstructor().newInstance();
            for (int j = 0; j < 60; j++) {
                sink += operator.applyAsInt(60);
            }
            if (i % 20 == 0) {
                System.gc();
            }
        }
    }
}
