// SPDX-License-Identifier: Apache-2.0
package io.opentelemetry.api.trace;

public interface TraceFlags {
    byte asByte();
}
