// SPDX-License-Identifier: Apache-2.0
package spanprof.otel;

import io.opentelemetry.api.trace.Span;

/** What is published for a thread; of use to that thread alone. */
final class Slot {
    private static final ThreadLocal<Slot> SLOTS = ThreadLocal.withInitial(Slot::new);

    final Thread thread = Thread.currentThread();
    private final boolean virtual = Native.isVirtual(thread);
    private Object mounted; // of a virtual thread, see VirtualThreads
    Ids ids = Ids.NONE;

    /** Of this thread. */
    static Slot get() {
        return SLOTS.get();
    }

    /** known: may be that span's ids, if they were converted before. */
    void publish(Span span, Ids known) {
        if (span == ids.span) {
            return;
        }
        try {
            if (Publisher.state == Publisher.State.ON) {
                show(span == known.span ? known : Ids.of(span));
            } else {
                clear();
            }
        } catch (Throwable error) {
            failed(error);
        }
    }

    private void failed(Throwable error) {
        try {
            if (!(error instanceof VirtualMachineError)) { // of the program: its stack is full, or its memory
                Publisher.turnOff(error);
            }
            clear();
        } catch (VirtualMachineError still) {
            return; // the next change publishes
        }
    }

    private void show(Ids next) {
        if (virtual) {
            showVirtual(next);
        } else if (next.id != 0) {
            Native.set(next.high, next.low, next.id, next.flags);
        } else {
            Native.clear();
        }
        ids = next;
    }

    private void clear() {
        if (ids != Ids.NONE) {
            show(Ids.NONE);
        }
    }

    private void showVirtual(Ids next) {
        if (VirtualThreads.WAY == VirtualThreads.Way.HOOKS) {
            mounted = Hooks.show(mounted, thread, next);
        } else if (VirtualThreads.WAY == VirtualThreads.Way.EVENTS) {
            if (next.id != 0) {
                Native.setVirtual(next.high, next.low, next.id, next.flags);
            } else {
                Native.clearVirtual();
            }
        }
    }
}
