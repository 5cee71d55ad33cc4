// SPDX-License-Identifier: Apache-2.0
import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.SpanContext;
import io.opentelemetry.api.trace.TraceFlags;
import io.opentelemetry.api.trace.TraceState;
import io.opentelemetry.context.Context;
import io.opentelemetry.context.Scope;
import io.opentelemetry.sdk.autoconfigure.AutoConfiguredOpenTelemetrySdk;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/** What a scope and a switch of virtual threads take: `name nanoseconds` for each, the best of many short rounds: other programs disturb some. */
public final class Cost {
    private static final int ROUNDS = 400;
    private static final int SCOPES = 20_000;
    private static final int THREADS = 20;
    private static final int SWITCHES = 200;

    private interface Work {
        void run() throws Exception;
    }

    private static Context spanOf(String id) {
        return Context.root().with(Span.wrap(SpanContext.create("0123456789abcdef0123456789abcdef", id,
            TraceFlags.getSampled(), TraceState.getDefault())));
    }

    private static void best(String name, long n, Work work) throws Exception {
        long best = Long.MAX_VALUE;
        for (int i = 0; i < ROUNDS; i++) {
            long start = System.nanoTime();
            work.run();
            best = Math.min(best, System.nanoTime() - start);
        }
        System.out.printf("%s %.1f%n", name, (double) best / n);
    }

    private static void scopes(Context context) {
        for (int i = 0; i < SCOPES; i++) {
            try (Scope scope = context.makeCurrent()) {
                continue;
            }
        }
    }

    private static void yields(ExecutorService executor, Context context) throws Exception {
        List<Future<?>> futures = new ArrayList<>();
        for (int i = 0; i < THREADS; i++) {
            futures.add(executor.submit(() -> {
                try (Scope scope = context.makeCurrent()) {
                    for (int j = 0; j < SWITCHES; j++) {
                        Thread.yield();
                    }
                }
            }));
        }
        for (Future<?> future : futures) {
            future.get();
        }
    }

    public static void main(String[] arguments) throws Exception {
        AutoConfiguredOpenTelemetrySdk.initialize();
        Context first = spanOf("1111111111111111");
        Context second = spanOf("2222222222222222");
        best("scope", SCOPES, () -> scopes(first));
        try (Scope scope = first.makeCurrent()) {
            best("scope_nested", SCOPES, () -> scopes(second));
        }
        try {
            ExecutorService executor = (ExecutorService) Executors.class.getMethod("newVirtualThreadPerTaskExecutor")
                .invoke(null);
            best("virtual_switch", (long) THREADS * SWITCHES, () -> yields(executor, first));
        } catch (NoSuchMethodException before21) {
            return;
        }
    }
}
