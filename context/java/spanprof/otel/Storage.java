// SPDX-License-Identifier: Apache-2.0
package spanprof.otel;

import io.opentelemetry.api.trace.Span;
import io.opentelemetry.context.Context;
import io.opentelemetry.context.ContextStorage;
import io.opentelemetry.context.Scope;

/**
 * Publishes the current span of a thread whenever it becomes another one. What is published on a thread is at any time
 * the span of what the storage beneath has as current: a change publishes, and nothing else does.
 */
final class Storage implements ContextStorage {
    private final ContextStorage storage;

    Storage(ContextStorage storage) {
        this.storage = storage;
    }

    @Override
    public Scope attach(Context context) {
        if (Publisher.state == Publisher.State.OFF) {
            return storage.attach(context);
        }
        Context before = storage.current();
        Scope scope = storage.attach(context);
        if (context == null || context == before) {
            return scope;
        }
        changed(before, context);
        return new Detach(storage, scope);
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

        Detach(ContextStorage storage, Scope scope) {
            this.storage = storage;
            this.scope = scope;
        }

        /** Closed out of order, or on another thread, it may change nothing: what is current then decides. */
        @Override
        public void close() {
            Context before = storage.current();
            scope.close();
            changed(before, storage.current());
        }
    }

    private static Span spanOf(Context context) {
        return context == null ? null : Span.fromContextOrNull(context);
    }

    private static void changed(Context before, Context now) {
        if (Publisher.state != Publisher.State.ON || before == now) {
            return;
        }
        try {
            Span span = spanOf(now);
            if (span != spanOf(before)) {
                Ids.publish(span);
            }
        } catch (Throwable error) {
            Publisher.turnOff(error);
            Ids.clear();
        }
    }
}
