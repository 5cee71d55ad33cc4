// SPDX-License-Identifier: Apache-2.0
package spanprof.otel;

import io.opentelemetry.api.trace.Span;
import io.opentelemetry.context.Context;
import io.opentelemetry.context.ContextStorage;
import io.opentelemetry.context.Scope;

/** Publishes the span of what the storage beneath has as current, after each change. */
final class Storage implements ContextStorage {
    private final ContextStorage storage;

    Storage(ContextStorage storage) {
        this.storage = storage;
    }

    @Override
    public Scope attach(Context context) {
        Scope scope = storage.attach(context);
        if (context == null || Publisher.state == Publisher.State.OFF) {
            return scope;
        }
        Slot slot = Slot.get();
        Ids outer = slot.ids;
        slot.publish(Span.fromContextOrNull(context), outer);
        return new Detach(storage, scope, slot, outer);
    }

    @Override
    public Context current() {
        return storage.current();
    }

    @Override
    public Context root() {
        return storage.root();
    }

    private static final class Detach implements Scope {
        private final ContextStorage storage;
        private final Scope scope;
        private final Slot slot; // of the thread that attached
        private final Ids outer; // which that thread had before

        Detach(ContextStorage storage, Scope scope, Slot slot, Ids outer) {
            this.storage = storage;
            this.scope = scope;
            this.slot = slot;
            this.outer = outer;
        }

        /** Closed out of order, or on another thread, it may change nothing: what is current then decides. */
        @Override
        public void close() {
            scope.close();
            Context now = storage.current();
            Slot own = slot.thread == Thread.currentThread() ? slot : Slot.get();
            own.publish(now == null ? null : Span.fromContextOrNull(now), outer);
        }
    }
}
