// SPDX-License-Identifier: Apache-2.0
package spanprof.otel;

import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.StandardCopyOption;
import java.security.CodeSource;

/** What native.c does. */
final class Native {
    private static final Class<?> VIRTUAL = virtualThreadClass();

    private Native() {
    }

    /** Keys and values in turns, each with a NUL behind it. 0 or a negative errno. */
    static native int publish(byte[][] texts);

    /** The thread's record: a trace id's halves, a span id. */
    static native void set(long high, long low, long span, byte flags);

    static native void clear();

    /** From now on the record of a virtual thread goes where the thread goes. 0 or an error. */
    static native int watchVirtualThreads();

    /** The same on a virtual thread; only after watchVirtualThreads(). */
    static native void setVirtual(long high, long low, long span, byte flags);

    static native void clearVirtual();

    /** What is published on this thread: high, low, span, flags. For tests. */
    static native void current(long[] ids);

    /** Whether this thread changes its carrier. */
    static boolean onVirtualThread() {
        return VIRTUAL != null && Thread.currentThread().getClass() == VIRTUAL;
    }

    private static Class<?> virtualThreadClass() {
        try {
            return Class.forName("java.lang.VirtualThread", false, null);
        } catch (ClassNotFoundException | LinkageError none) {
            return null;
        }
    }

    // ---- the library ----

    /** The one that is named, or beside the jar, or the one in the jar by way of a file of its own. */
    static void load() throws IOException {
        String given = System.getProperty("spanprof.library");
        String name = "libspanprof-java-" + platform() + ".so";
        if (given != null) {
            System.load(given);
        } else if (!loadBesideJar(name)) {
            loadFromJar(name);
        }
    }

    private static String platform() throws IOException {
        String architecture = System.getProperty("os.arch");
        byte[] maps = Files.readAllBytes(Paths.get("/proc/self/maps"));
        boolean musl = new String(maps, StandardCharsets.ISO_8859_1).contains("/ld-musl-");
        return ("amd64".equals(architecture) ? "x86_64" : architecture) + (musl ? "-musl" : "");
    }

    private static boolean loadBesideJar(String name) {
        try {
            CodeSource source = Native.class.getProtectionDomain().getCodeSource();
            URL jar = source == null ? null : source.getLocation();
            Publisher.debug("the jar: " + jar);
            if (jar == null || !"file".equals(jar.getProtocol())) {
                return false;
            }
            Path library = Paths.get(jar.toURI()).resolveSibling(name);
            if (!Files.isReadable(library)) {
                return false;
            }
            System.load(library.toString());
            return true;
        } catch (Exception | LinkageError error) {
            Publisher.debug("not loaded from beside the jar: " + error);
            return false;
        }
    }

    private static void loadFromJar(String name) throws IOException {
        File file = File.createTempFile("spanprof", ".so");
        try (InputStream library = Native.class.getResourceAsStream(name)) {
            if (library == null) {
                throw new IOException("no " + name + " in the jar");
            }
            Files.copy(library, file.toPath(), StandardCopyOption.REPLACE_EXISTING);
            System.load(file.getPath());
        } finally {
            Files.delete(file.toPath());
        }
    }
}
