// SPDX-License-Identifier: Apache-2.0
package service;

import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.SpanContext;
import java.io.BufferedWriter;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.time.Instant;

/** What a service worked on and when, as its own API says it, a line of JSON each: $TRUTH/log. */
final class Truth {
    private static final double ROUNDS_PER_MS;
    private static final BufferedWriter LOG;
    private static volatile long sink;

    static {
        try {
            LOG = Files.newBufferedWriter(Paths.get(System.getenv("TRUTH"), "log"));
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
        double fastest = 0;
        long begun = cpuNanoseconds();
        while (cpuNanoseconds() - begun < 1_500_000_000L) { // by then it is compiled
            long before = cpuNanoseconds();
            work(200_000);
            fastest = Math.max(fastest, 200_000 * 1e6 / (cpuNanoseconds() - before));
        }
        ROUNDS_PER_MS = fastest;
    }

    private Truth() {
    }

    private static long cpuNanoseconds() {
        return ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
    }

    private static void work(long rounds) {
        long value = sink;
        for (long i = 0; i < rounds; i++) {
            value = value * 6364136223846793005L + 1442695040888963407L;
        }
        sink = value;
    }

    private static long now() {
        Instant now = Instant.now();
        return now.getEpochSecond() * 1_000_000_000L + now.getNano();
    }

    /** So many milliseconds of CPU time, for the current span; a virtual thread keeps its carrier meanwhile. */
    static void burn(double milliseconds) {
        SpanContext span = Span.current().getSpanContext();
        try {
            Path thread = Files.readSymbolicLink(Paths.get("/proc/thread-self")).getFileName();
            long from = now();
            work((long) (milliseconds * ROUNDS_PER_MS));
            long to = now();
            Path after = Files.readSymbolicLink(Paths.get("/proc/thread-self")).getFileName();
            if (thread.equals(after)) {
                write(String.format("{\"type\": \"%s\", \"tid\": %s, \"from\": %d, \"to\": %d, \"trace_id\": \"%s\", "
                    + "\"span_id\": \"%s\"}%n", span.isValid() ? "on" : "off", thread, from, to, span.getTraceId(),
                    span.getSpanId()));
            }
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
    }

    private static synchronized void write(String line) throws IOException {
        LOG.write(line);
        LOG.flush();
    }

    /** A thread that works for no span. */
    static void burnWithoutSpan() {
        Thread thread = new Thread(() -> {
            while (true) {
                burn(3);
                pause(50);
            }
        });
        thread.setDaemon(true);
        thread.start();
    }

    static void pause(long milliseconds) {
        try {
            Thread.sleep(milliseconds);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    /** With pauses, in which a virtual thread may go to another carrier. */
    static void burnInPieces() {
        for (int i = 0; i < 5; i++) {
            burn(3);
            pause(1);
        }
        burn(5);
    }
}
