// SPDX-License-Identifier: Apache-2.0
import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.SpanContext;
import io.opentelemetry.api.trace.TraceFlags;
import io.opentelemetry.api.trace.TraceState;
import io.opentelemetry.context.Context;
import io.opentelemetry.context.Scope;
import io.opentelemetry.sdk.autoconfigure.AutoConfiguredOpenTelemetrySdk;

/** A program whose contexts work, whatever a publisher does. */
public final class Quiet {
    private Quiet() {
    }

    public static void main(String[] arguments) {
        AutoConfiguredOpenTelemetrySdk.initialize();
        Span span = Span.wrap(SpanContext.create("0123456789abcdef0123456789abcdef", "0123456789abcdef",
            TraceFlags.getSampled(), TraceState.getDefault()));
        boolean fine = true;
        for (int i = 0; i < 1000; i++) {
            try (Scope scope = Context.root().with(span).makeCurrent()) {
                fine &= Span.current().getSpanContext().equals(span.getSpanContext());
            }
            fine &= !Span.current().getSpanContext().isValid();
        }
        System.out.println(fine ? "fine" : "spoilt");
        System.exit(0);
    }
}
