// SPDX-License-Identifier: Apache-2.0
package spanprof.otel;

import io.opentelemetry.api.common.AttributeKey;
import io.opentelemetry.context.ContextStorage;
import io.opentelemetry.sdk.autoconfigure.spi.AutoConfigurationCustomizer;
import io.opentelemetry.sdk.autoconfigure.spi.AutoConfigurationCustomizerProvider;
import io.opentelemetry.sdk.resources.Resource;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * Tells the profiler of this node which span each thread works for (OTEP 4947), as OpenTelemetry's API has it. The Java
 * agent finds this class in its extensions, an SDK with autoconfigure on its class path.
 *
 * <p>NEW until the Resource is known: spans are counted from then on. OFF is the end: another library publishes, or
 * something failed. Whatever fails leaves the program as it is, silent unless SPANPROF_CONTEXT_DEBUG=1.
 */
public final class Publisher implements AutoConfigurationCustomizerProvider {
    enum State { NEW, ON, OFF }

    /** One copy of this class publishes, however many class loaders have one. */
    private static final String MARK = "spanprof.context.publisher";

    private static final int ATTRIBUTES_MAX = 128;
    private static final int KEY_MAX = 255;
    private static final int VALUE_MAX = 4096;
    private static final int RESOURCE_MAX = 16384;
    private static final int ATTRIBUTE_OVERHEAD = 4;

    static volatile State state = State.NEW;

    @Override
    public void customize(AutoConfigurationCustomizer customizer) {
        try {
            if ("off".equals(System.getenv("SPANPROF_CONTEXT"))) {
                return;
            }
            if (System.getProperties().putIfAbsent(MARK, "OpenTelemetry") != null) {
                debug("not publishing: another copy does");
                return;
            }
            if (!loaded()) {
                return;
            }
            ContextStorage.addWrapper(Storage::new);
            customizer.addResourceCustomizer((resource, configuration) -> {
                meet(resource);
                return resource;
            });
        } catch (Throwable error) {
            turnOff(error);
            Refusal.show(error instanceof LinkageError ? "unknown_version" : "failed");
        }
    }

    private static boolean loaded() {
        try {
            Native.load();
            return true;
        } catch (IOException | RuntimeException | LinkageError error) {
            turnOff(error);
            Refusal.show("no_library");
            return false;
        }
    }

    /** The last one to change the Resource sees what spans will have. */
    @Override
    public int order() {
        return Integer.MAX_VALUE;
    }

    static void turnOff(Object reason) {
        state = State.OFF;
        debug("not publishing: " + reason);
    }

    static void debug(String text) {
        if ("1".equals(System.getenv("SPANPROF_CONTEXT_DEBUG"))) {
            System.err.println("spanprof.otel: " + text);
        }
    }

    private static synchronized void meet(Resource resource) {
        if (state != State.NEW) {
            return;
        }
        try {
            byte[][] texts = textsOf(resource.getAttributes().asMap());
            int error = Native.publish(texts);
            if (error == 0) {
                state = State.ON;
                debug("publishing, with " + texts.length / 2 + " attributes");
            } else {
                turnOff("error " + -error);
                Refusal.show(Refusal.of(-error));
            }
        } catch (Throwable error) {
            turnOff(error);
            Refusal.show("failed");
        }
    }

    /** Keys and values in turns, each with a NUL behind it; service.* comes first, if not all can be taken. */
    private static byte[][] textsOf(Map<AttributeKey<?>, Object> attributes) {
        List<byte[]> texts = new ArrayList<>();
        int left = RESOURCE_MAX;
        for (boolean ofService : new boolean[] {true, false}) {
            for (Map.Entry<AttributeKey<?>, Object> attribute : attributes.entrySet()) {
                String name = attribute.getKey().getKey();
                if (name.startsWith("service.") != ofService) {
                    continue;
                }
                byte[] key = textOf(name, KEY_MAX);
                byte[] value = textOf(String.valueOf(attribute.getValue()), VALUE_MAX);
                if (key == null || key.length == 1 || value == null) {
                    continue;
                }
                int size = ATTRIBUTE_OVERHEAD + key.length - 1 + value.length - 1;
                if (size <= left && texts.size() < 2 * ATTRIBUTES_MAX) {
                    left -= size;
                    texts.add(key);
                    texts.add(value);
                }
            }
        }
        return texts.toArray(new byte[0][]);
    }

    /** Null: it cannot be published. */
    private static byte[] textOf(String text, int max) {
        if (text.length() > max || text.indexOf('\0') >= 0) {
            return null;
        }
        byte[] bytes = (text + '\0').getBytes(StandardCharsets.UTF_8);
        return bytes.length - 1 <= max ? bytes : null;
    }
}
