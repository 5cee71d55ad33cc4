// SPDX-License-Identifier: Apache-2.0
package io.opentelemetry.api.trace;

public interface SpanContext {
    String getTraceId();

    String getSpanId();

    TraceFlags getTraceFlags();

    boolean isValid();

    boolean isRemote();
}
