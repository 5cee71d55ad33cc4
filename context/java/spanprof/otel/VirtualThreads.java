// SPDX-License-Identifier: Apache-2.0
package spanprof.otel;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;

/** How spans go where virtual threads go; from the first span on a virtual thread on. */
final class VirtualThreads {
    /** NONE: nothing is published on virtual threads. */
    enum Way { HOOKS, EVENTS, NONE }

    static final Way WAY = choose();

    /** The class file of spanprof.boot.Mounted, under a name by which no class loader of the program finds it. */
    private static final String MOUNTED = "Mounted.boot";

    private VirtualThreads() {
    }

    private static Way choose() {
        int hooks = hook();
        int events = hooks == 0 ? 0 : Native.watchVirtualThreads();
        Publisher.debug("switches of virtual threads are " + (hooks == 0 ? "hooked"
            : events == 0 ? "watched, no hooks by error " + hooks : "unknown, errors " + hooks + ", " + events));
        return hooks == 0 ? Way.HOOKS : events == 0 ? Way.EVENTS : Way.NONE;
    }

    /** 0 or an error. */
    private static int hook() {
        try {
            return Native.hookVirtualThreads(mounted());
        } catch (IOException | RuntimeException error) {
            Publisher.debug("no hooks: " + error);
            return -1;
        }
    }

    private static byte[] mounted() throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (InputStream file = VirtualThreads.class.getResourceAsStream(MOUNTED)) {
            if (file == null) {
                throw new IOException("no " + MOUNTED + " in the jar");
            }
            byte[] some = new byte[4096];
            for (int n = file.read(some); n > 0; n = file.read(some)) {
                bytes.write(some, 0, n);
            }
        }
        return bytes.toByteArray();
    }
}
