// SPDX-License-Identifier: Apache-2.0
package spanprof.otel;

import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.SpanContext;

/** A span's ids, from the API's hexadecimal text to the thread's record. */
final class Ids {
    private static final int TRACE_LENGTH = 32;
    private static final int SPAN_LENGTH = 16;
    private static final String ZERO = "0000000000000000";
    private static final int BAD = 0x100;

    /** By character; BAD: it is no lower-case digit. */
    private static final short[] DIGITS = new short[128];

    static {
        for (int i = 0; i < DIGITS.length; i++) {
            boolean digit = i < 'A' || i > 'Z';
            DIGITS[i] = (short) (digit && Character.digit(i, 16) >= 0 ? Character.digit(i, 16) : BAD);
        }
    }

    private Ids() {
    }

    /** A remote parent is another process's span, so it is not published; nor is one that is not valid. */
    static void publish(Span span) {
        SpanContext context = span == null ? null : span.getSpanContext();
        if (context == null || context.isRemote()) {
            clear();
            return;
        }
        String trace = context.getTraceId();
        String id = context.getSpanId();
        if (trace.length() != TRACE_LENGTH || id.length() != SPAN_LENGTH) {
            clear();
            return;
        }
        long high = word(trace, 0);
        long low = word(trace, SPAN_LENGTH);
        long number = word(id, 0);
        if (number == 0 || high == 0 && !trace.startsWith(ZERO) || low == 0 && !trace.endsWith(ZERO)) {
            clear();
        } else if (!Native.onVirtualThread()) {
            Native.set(high, low, number, context.getTraceFlags().asByte());
        } else if (VirtualThreads.WATCHED) {
            Native.setVirtual(high, low, number, context.getTraceFlags().asByte());
        }
    }

    static void clear() {
        if (!Native.onVirtualThread()) {
            Native.clear();
        } else if (VirtualThreads.WATCHED) {
            Native.clearVirtual();
        }
    }

    /** Switches of virtual threads are watched from the first span on one of them; without, none is published there. */
    private static final class VirtualThreads {
        static final boolean WATCHED = watch();

        private static boolean watch() {
            int error = Native.watchVirtualThreads();
            Publisher.debug("switches of virtual threads are watched: " + (error == 0 ? "yes" : "no, error " + error));
            return error == 0;
        }
    }

    /** The number of 16 digits; 0 also if one is no digit. */
    private static long word(String text, int at) {
        long word = 0;
        int seen = 0;
        for (int i = at; i < at + SPAN_LENGTH; i++) {
            int digit = DIGITS[text.charAt(i) & 127];
            seen |= digit | text.charAt(i) & ~127;
            word = word << 4 | digit & 15;
        }
        return seen <= 15 ? word : 0;
    }
}
