// SPDX-License-Identifier: Apache-2.0

import java.lang.management.ManagementFactory;
import java.util.zip.Deflater;

/**
 * Compresses in outer, middle, inner, for MILLISECONDS of CPU time: its leaf is in a library. Begins with a byte of its
 * input, then says "done", and ends with its input.
 */
public final class Cold {
    private static final byte[] INPUT = new byte[1 << 18];

    private static int inner(byte[] output) {
        Deflater deflater = new Deflater(9);
        deflater.setInput(INPUT);
        deflater.finish();
        int size = deflater.deflate(output);
        deflater.end();
        return size;
    }

    private static int middle(byte[] output) {
        return inner(output) + 1;
    }

    private static int outer(byte[] output) {
        return middle(output) + 1;
    }

    private static long cpuTime() {
        return ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
    }

    public static void main(String[] arguments) throws java.io.IOException {
        for (int i = 0; i < INPUT.length; i++)
            INPUT[i] = (byte) (i * 31 ^ i >> 5);
        System.in.read();
        long end = cpuTime() + Long.parseLong(arguments[0]) * 1_000_000L;
        byte[] output = new byte[2 * INPUT.length];
        while (cpuTime() < end)
            outer(output);
        System.out.println("done");
        System.in.read();
    }
}
