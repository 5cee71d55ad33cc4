// SPDX-License-Identifier: Apache-2.0
import io.opentelemetry.api.GlobalOpenTelemetry;
import io.opentelemetry.api.common.AttributeKey;
import io.opentelemetry.api.common.Attributes;
import io.opentelemetry.api.common.AttributesBuilder;
import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.SpanBuilder;
import io.opentelemetry.api.trace.SpanContext;
import io.opentelemetry.api.trace.SpanKind;
import io.opentelemetry.api.trace.StatusCode;
import io.opentelemetry.api.trace.TraceFlags;
import io.opentelemetry.api.trace.TraceState;
import io.opentelemetry.api.trace.Tracer;
import io.opentelemetry.context.Context;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.TimeUnit;

/** Makes the spans of sdk_spans.py; prints each one's ids. The agent, which it runs under, sends them. */
final class Spans {
    private static final int SPANS = 1000;
    private static final int SPANS_OF_TRACE = 10;
    private static final String TEXT = "größe 漢字 🚀 \"\\\t\n\u0001";
    private static final SpanKind[] KINDS = {
        SpanKind.INTERNAL, SpanKind.SERVER, SpanKind.CLIENT, SpanKind.PRODUCER, SpanKind.CONSUMER};
    private static final PrintStream OUT =
        new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.UTF_8);

    private Spans() {}

    private static SpanContext linkOf(int i) {
        String id = Integer.toHexString(i + 1);
        return SpanContext.create("0".repeat(32 - id.length()) + id, "0".repeat(16 - id.length()) + id,
            TraceFlags.getSampled(), TraceState.builder().put("vendor", "x").build());
    }

    private static Attributes attributesOf(int i) {
        AttributesBuilder attributes = Attributes.builder()
            .put("index", i).put("negative", -i - 1L).put("large", (1L << 53) - 1).put("ratio", i + 0.5)
            .put("even", i % 2 == 0).put("text", TEXT).put("empty", "").put("words", "a", "ß", "")
            .put("numbers", 1, -2, i);
        if (i == 100) {
            attributes.put("long", "é漢".repeat(20000));
        }
        return attributes.build();
    }

    private static Span makeSpan(Tracer tracer, Context parent, long base, int i) {
        long start = base + i * 1000000L;
        SpanBuilder builder = tracer.spanBuilder("span " + i + " größe 漢字 🚀").setParent(parent)
            .setSpanKind(KINDS[i % 5]).setAllAttributes(attributesOf(i)).setStartTimestamp(start, TimeUnit.NANOSECONDS);
        if (i % 4 == 0) {
            builder.addLink(linkOf(i), Attributes.of(AttributeKey.longKey("link"), (long) i));
        }
        Span span = builder.startSpan();
        for (int j = 0; j < i % 3; j++) {
            Attributes attributes = Attributes.builder().put("n", j).put("why", TEXT).build();
            span.addEvent("event " + j + " ✓", attributes, start + j + 1, TimeUnit.NANOSECONDS);
        }
        if (i == 500) {
            span.setStatus(StatusCode.ERROR, "it failed: größe");
        }
        if (i == 501) {
            span.setStatus(StatusCode.OK);
        }
        span.end(start + 456789 + i, TimeUnit.NANOSECONDS);
        OUT.println(i + " " + span.getSpanContext().getTraceId() + " " + span.getSpanContext().getSpanId());
        return span;
    }

    public static void main(String[] arguments) throws InterruptedException {
        long base = Long.parseLong(arguments[0]);
        long pause = Long.parseLong(arguments[1]);
        Tracer tracer = GlobalOpenTelemetry.get().tracerBuilder("spanprof.peer").setInstrumentationVersion("1.2.3")
            .setSchemaUrl("https://opentelemetry.io/schemas/1.30.0").build();
        Context parent = Context.root();
        for (int i = 0; i < SPANS; i++) {
            boolean root = i % SPANS_OF_TRACE == 0;
            Span span = makeSpan(tracer, root ? Context.root() : parent, base, i);
            if (root) {
                parent = Context.root().with(span);
                Thread.sleep(pause);
            }
        }
        OUT.flush();
    }
}
