// SPDX-License-Identifier: Apache-2.0
package spanprof.otel;

import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.SpanContext;

/** A span's ids as numbers, from the API's hexadecimal text; all zero for a span that is not to be published. */
final class Ids {
    static final Ids NONE = new Ids(null, 0, 0, 0, (byte) 0);

    private static final int WORD = 16; // digits
    private static final byte[] DIGITS = new byte[256];

    static {
        for (int i = 0; i < 16; i++) {
            DIGITS[Character.forDigit(i, 16)] = (byte) i;
        }
    }

    final Span span;
    final long high;
    final long low;
    final long id;
    final byte flags;

    private Ids(Span span, long high, long low, long id, byte flags) {
        this.span = span;
        this.high = high;
        this.low = low;
        this.id = id;
        this.flags = flags;
    }

    /** A remote parent is another process's span. */
    static Ids of(Span span) {
        if (span == null) {
            return NONE;
        }
        SpanContext context = span.getSpanContext();
        String trace = context.getTraceId();
        String id = context.getSpanId();
        if (!context.isValid() || context.isRemote() || trace.length() != 2 * WORD || id.length() != WORD) {
            return new Ids(span, 0, 0, 0, (byte) 0);
        }
        return new Ids(span, word(trace, 0), word(trace, WORD), word(id, 0), context.getTraceFlags().asByte());
    }

    private static long word(String text, int at) {
        return (long) half(text, at) << 32 | half(text, at + 8) & 0xffffffffL;
    }

    /** The API has seen that these are digits. */
    private static int half(String text, int at) {
        return digit(text, at) << 28 | digit(text, at + 1) << 24 | digit(text, at + 2) << 20
            | digit(text, at + 3) << 16 | digit(text, at + 4) << 12 | digit(text, at + 5) << 8
            | digit(text, at + 6) << 4 | digit(text, at + 7);
    }

    private static int digit(String text, int at) {
        return DIGITS[text.charAt(at) & 255];
    }
}
