// SPDX-License-Identifier: Apache-2.0
package spanprof.otel;

import io.opentelemetry.api.common.AttributeKey;
import io.opentelemetry.api.common.Attributes;
import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.SpanContext;
import io.opentelemetry.api.trace.StatusCode;
import io.opentelemetry.api.trace.TraceFlags;
import io.opentelemetry.api.trace.TraceState;
import io.opentelemetry.api.trace.Tracer;
import io.opentelemetry.context.Context;
import io.opentelemetry.context.ContextKey;
import io.opentelemetry.context.Scope;
import io.opentelemetry.sdk.autoconfigure.AutoConfiguredOpenTelemetrySdk;
import io.opentelemetry.sdk.trace.ReadWriteSpan;
import io.opentelemetry.sdk.trace.ReadableSpan;
import io.opentelemetry.sdk.trace.SdkTracerProvider;
import io.opentelemetry.sdk.trace.SpanProcessor;
import io.opentelemetry.sdk.trace.samplers.Sampler;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.Future;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.LongAdder;
import java.util.concurrent.locks.LockSupport;
import java.util.concurrent.locks.ReentrantLock;

/**
 * Whether what the publisher has written is the SDK's current span, at each step of units that take turns: threads,
 * executors, virtual threads. A line a case: name, checks, wrong ones. It is in the publisher's package for the sake of
 * Native.current().
 */
public final class Interleave {
    private static final int STEPS = 4000;
    private static final LongAdder checks = new LongAdder();
    private static final LongAdder wrong = new LongAdder();
    private static Tracer tracer;
    private static Tracer unsampling;

    private interface Case {
        void run() throws Exception;
    }

    private static long[] published() {
        long[] ids = new long[4];
        Native.current(ids);
        return ids;
    }

    private static long word(String text, int at) {
        return Long.parseUnsignedLong(text.substring(at, at + 16), 16);
    }

    /** Nothing here gives up the thread. */
    private static void check() {
        SpanContext span = Span.current().getSpanContext();
        long[] want = span.isRemote() || !span.isValid() ? new long[4] : new long[] {
            word(span.getTraceId(), 0), word(span.getTraceId(), 16), word(span.getSpanId(), 0),
            span.getTraceFlags().asByte()};
        checks.increment();
        if (!Arrays.equals(want, published())) {
            wrong.increment();
        }
    }

    private static void inSpan(String name, Case work) throws Exception {
        Span span = tracer.spanBuilder(name).startSpan();
        try (Scope scope = span.makeCurrent()) {
            check();
            work.run();
            check();
        } finally {
            span.end();
        }
        check();
    }

    private static void caseNested() throws Exception {
        for (int i = 0; i < STEPS; i++) {
            inSpan("outer", () -> {
                inSpan("middle", () -> inSpan("inner", Interleave::check));
                check();
                inSpan("second", Interleave::check);
            });
        }
    }

    private static void caseThreads() throws Exception {
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < 8; i++) {
            Thread thread = new Thread(() -> repeat(() -> inSpan("thread", () -> inSpan("inner", Interleave::check))));
            threads.add(thread);
            thread.start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
    }

    private static void repeat(Case work) {
        try {
            for (int i = 0; i < STEPS; i++) {
                work.run();
            }
        } catch (Exception error) {
            wrong.increment();
        }
    }

    private static void caseOutOfOrder() throws Exception {
        ExecutorService other = Executors.newSingleThreadExecutor();
        for (int i = 0; i < STEPS; i++) {
            Scope first = tracer.spanBuilder("first").startSpan().makeCurrent();
            Scope second = tracer.spanBuilder("second").startSpan().makeCurrent();
            check();
            first.close();
            check();
            if (i % 10 == 0) {
                other.submit(() -> {
                    check();
                    second.close();
                    check();
                }).get();
                check();
            }
            second.close();
            check();
            second.close();
            first.close();
            check();
            try (Scope root = Context.root().makeCurrent()) {
                check();
            }
            check();
        }
        other.shutdown();
    }

    /** Contexts that differ in other things than the span, and spans that are no span of this process. */
    private static void caseContexts() throws Exception {
        ContextKey<String> key = ContextKey.named("key");
        Span remote = Span.wrap(SpanContext.createFromRemoteParent("0123456789abcdef0123456789abcdef",
            "0123456789abcdef", TraceFlags.getSampled(), TraceState.getDefault()));
        Span half = Span.wrap(SpanContext.create("0000000000000000fedcba9876543210", "fedcba9876543210",
            TraceFlags.getSampled(), TraceState.getDefault()));
        for (int i = 0; i < STEPS; i++) {
            inSpan("outer", () -> {
                try (Scope scope = Context.current().with(key, "value").makeCurrent()) {
                    check();
                    try (Scope same = Context.current().makeCurrent()) {
                        check();
                    }
                    check();
                }
                check();
                for (Span span : new Span[] {remote, half, Span.getInvalid(),
                    unsampling.spanBuilder("unsampled").setNoParent().startSpan()}) {
                    try (Scope scope = span.makeCurrent()) {
                        check();
                        inSpan("below", Interleave::check);
                    }
                    check();
                }
            });
        }
    }

    private static void caseExecutors() throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(3);
        ExecutorService wrapped = Context.taskWrapping(pool);
        for (int i = 0; i < STEPS; i++) {
            inSpan("request", () -> {
                List<Future<?>> futures = new ArrayList<>();
                for (int j = 0; j < 4; j++) {
                    futures.add(wrapped.submit(() -> {
                        check();
                        inSpan("task", Interleave::check);
                        return null;
                    }));
                    futures.add(pool.submit(Interleave::check));
                }
                CompletableFuture.runAsync(Context.current().wrap(Interleave::check), pool)
                    .thenRunAsync(Interleave::check, ForkJoinPool.commonPool()).get();
                for (Future<?> future : futures) {
                    future.get();
                }
                check();
            });
        }
        pool.shutdown();
    }

    private static void caseExceptions() {
        for (int i = 0; i < STEPS; i++) {
            try {
                inSpan("failing", () -> {
                    throw new IllegalStateException();
                });
            } catch (Exception expected) {
                check();
            }
        }
    }

    // ---- virtual threads ----

    private static boolean hasVirtualThreads() {
        try {
            return Executors.class.getMethod("newVirtualThreadPerTaskExecutor") != null;
        } catch (NoSuchMethodException before21) {
            return false;
        }
    }

    private static void virtually(int threads, Case work) throws Exception {
        ExecutorService executor =
            (ExecutorService) Executors.class.getMethod("newVirtualThreadPerTaskExecutor").invoke(null);
        List<Future<?>> futures = new ArrayList<>();
        for (int i = 0; i < threads; i++) {
            futures.add(executor.submit(() -> {
                work.run();
                return null;
            }));
        }
        for (Future<?> future : futures) {
            future.get();
        }
        executor.shutdown();
        executor.awaitTermination(1, TimeUnit.MINUTES);
    }

    private static void steps(int n, Case pause) throws Exception {
        for (int i = 0; i < n; i++) {
            check();
            pause.run();
            check();
        }
    }

    private static void nested(int n, Case pause) throws Exception {
        inSpan("virtual", () -> {
            for (int i = 0; i < n; i++) {
                check();
                pause.run();
                check();
                if (i % 10 == 0) {
                    inSpan("inner", () -> {
                        pause.run();
                        check();
                        pause.run();
                    });
                }
            }
        });
    }

    /** Two of three have spans. */
    private static void takingTurns(int threads, int n, Case pause) throws Exception {
        LongAdder number = new LongAdder();
        virtually(threads, () -> {
            number.increment();
            if (number.sum() % 3 == 0) {
                steps(n, pause);
            } else {
                nested(n, pause);
            }
            steps(n / 10, pause);
        });
    }

    private static void caseVirtualYield() throws Exception {
        takingTurns(50, STEPS / 2, Thread::yield);
    }

    private static void caseVirtualSleep() throws Exception {
        takingTurns(200, 50, () -> Thread.sleep(1));
    }

    private static void caseVirtualPark() throws Exception {
        takingTurns(50, 300, () -> LockSupport.parkNanos(20_000));
    }

    private static void caseVirtualLocks() throws Exception {
        ReentrantLock lock = new ReentrantLock();
        Object monitor = new Object();
        takingTurns(50, 300, () -> {
            lock.lock();
            try {
                check();
                Thread.yield();
                check();
            } finally {
                lock.unlock();
            }
            synchronized (monitor) {
                check();
            }
        });
    }

    private static void caseVirtualQueues() throws Exception {
        BlockingQueue<Context> queue = new SynchronousQueue<>();
        LongAdder number = new LongAdder();
        virtually(40, () -> {
            number.increment();
            boolean gives = number.sum() % 2 == 0;
            for (int i = 0; i < 300; i++) {
                if (gives) {
                    inSpan("giver", () -> queue.offer(Context.current(), 10, TimeUnit.MILLISECONDS));
                } else {
                    Context taken = queue.poll(10, TimeUnit.MILLISECONDS);
                    check();
                    if (taken != null) {
                        try (Scope scope = taken.makeCurrent()) {
                            check();
                            Thread.yield();
                            check();
                        }
                    }
                    check();
                }
            }
        });
    }

    /** Threads that end with a scope that is open, many after each other. */
    private static void caseVirtualEnds() throws Exception {
        for (int i = 0; i < 40; i++) {
            virtually(100, () -> {
                check();
                Scope left = tracer.spanBuilder("left open").startSpan().makeCurrent();
                check();
                Thread.yield();
                check();
                if (Thread.interrupted()) {
                    left.close();
                }
            });
        }
    }

    /** Beside platform threads that do the same. */
    private static void caseVirtualAndPlatform() throws Exception {
        CountDownLatch done = new CountDownLatch(2);
        for (int i = 0; i < 2; i++) {
            new Thread(() -> {
                repeat(() -> inSpan("platform", Thread::yield));
                done.countDown();
            }).start();
        }
        takingTurns(50, STEPS / 10, Thread::yield);
        done.await();
    }

    // ---- the end ----

    /** A span of the program's own kind, which fails. */
    private static final class Failing implements Span {
        @Override
        public SpanContext getSpanContext() {
            throw new IllegalStateException();
        }

        @Override
        public <T> Span setAttribute(AttributeKey<T> key, T value) {
            return this;
        }

        @Override
        public Span addEvent(String name, Attributes attributes) {
            return this;
        }

        @Override
        public Span addEvent(String name, Attributes attributes, long timestamp, TimeUnit unit) {
            return this;
        }

        @Override
        public Span setStatus(StatusCode status, String description) {
            return this;
        }

        @Override
        public Span recordException(Throwable exception, Attributes attributes) {
            return this;
        }

        @Override
        public Span updateName(String name) {
            return this;
        }

        @Override
        public void end() {
        }

        @Override
        public void end(long timestamp, TimeUnit unit) {
        }

        @Override
        public boolean isRecording() {
            return false;
        }
    }

    private static void checkNone() {
        checks.increment();
        if (!Arrays.equals(new long[4], published())) {
            wrong.increment();
        }
    }

    /** A failure ends it, on each thread with the next change there. */
    private static void caseOff() throws Exception {
        ExecutorService other = Executors.newSingleThreadExecutor();
        Scope elsewhere = other.submit(() -> tracer.spanBuilder("elsewhere").startSpan().makeCurrent()).get();
        inSpan("outer", Interleave::check);
        Scope outer = tracer.spanBuilder("outer").startSpan().makeCurrent();
        check();
        try (Scope failing = new Failing().makeCurrent()) {
            checkNone();
        }
        checkNone();
        outer.close();
        other.submit(elsewhere::close).get();
        other.submit(Interleave::checkNone).get();
        try (Scope later = tracer.spanBuilder("later").startSpan().makeCurrent()) {
            checkNone();
        }
        checkNone();
        other.shutdown();
    }

    private static void run(String name, Case work) throws Exception {
        checks.reset();
        wrong.reset();
        work.run();
        System.out.println(name + " " + checks.sum() + " " + wrong.sum());
    }

    /** With no processor, the SDK records nothing. */
    private static final class Ignoring implements SpanProcessor {
        @Override
        public void onStart(Context parent, ReadWriteSpan span) {
        }

        @Override
        public boolean isStartRequired() {
            return true;
        }

        @Override
        public void onEnd(ReadableSpan span) {
        }

        @Override
        public boolean isEndRequired() {
            return true;
        }
    }

    public static void main(String[] arguments) throws Exception {
        AutoConfiguredOpenTelemetrySdk configured = AutoConfiguredOpenTelemetrySdk.builder()
            .addTracerProviderCustomizer((builder, config) -> builder.addSpanProcessor(new Ignoring())).build();
        tracer = configured.getOpenTelemetrySdk().getTracer("interleave");
        unsampling = SdkTracerProvider.builder().setSampler(Sampler.alwaysOff()).build().get("interleave");
        if (!tracer.spanBuilder("first").startSpan().isRecording()) {
            throw new IllegalStateException("spans are not recorded");
        }
        run("nested", Interleave::caseNested);
        run("threads", Interleave::caseThreads);
        run("out_of_order", Interleave::caseOutOfOrder);
        run("contexts", Interleave::caseContexts);
        run("executors", Interleave::caseExecutors);
        run("exceptions", Interleave::caseExceptions);
        if (hasVirtualThreads()) {
            run("virtual_yield", Interleave::caseVirtualYield);
            run("virtual_sleep", Interleave::caseVirtualSleep);
            run("virtual_park", Interleave::caseVirtualPark);
            run("virtual_locks", Interleave::caseVirtualLocks);
            run("virtual_queues", Interleave::caseVirtualQueues);
            run("virtual_ends", Interleave::caseVirtualEnds);
            run("virtual_and_platform", Interleave::caseVirtualAndPlatform);
        }
        run("off", Interleave::caseOff);
        System.exit(0);
    }
}
