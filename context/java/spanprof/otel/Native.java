// SPDX-License-Identifier: Apache-2.0
package spanprof.otel;

import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.net.URISyntaxException;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.StandardCopyOption;
import java.security.CodeSource;
import java.util.ArrayList;
import java.util.List;

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

    /** From now on java.lang.VirtualThread calls spanprof.boot.Mounted, whose class file this is. 0 or an error. */
    static native int hookVirtualThreads(byte[] mounted);

    /** The virtual thread that calls has that spanprof.boot.Mounted; only after hookVirtualThreads(). */
    static native void takeAlong(Thread thread, Object mounted);

    /** From now on the record of a virtual thread goes where the thread goes. 0 or an error. */
    static native int watchVirtualThreads();

    /** The same on a virtual thread; only after watchVirtualThreads(). */
    static native void setVirtual(long high, long low, long span, byte flags);

    static native void clearVirtual();

    /** What is published on this thread: high, low, span, flags. For tests. */
    static native void current(long[] ids);

    /** Whether the thread goes from carrier to carrier. */
    static boolean isVirtual(Thread thread) {
        return thread.getClass() == VIRTUAL;
    }

    private static Class<?> virtualThreadClass() {
        try {
            return Class.forName("java.lang.VirtualThread", false, null);
        } catch (ClassNotFoundException | LinkageError none) {
            return null;
        }
    }

    // ---- the library ----

    /** The one that is named, or one beside the jar, or the one in the jar, which has to become a file for it. */
    static void load() throws IOException {
        String given = System.getProperty("spanprof.library");
        String name = "libspanprof-java-" + platform() + ".so";
        if (given != null) {
            System.load(given);
        } else if (!loadBesideJar(name)) {
            loadFromJar(name);
        }
    }

    /** The library is for glibc, whose file has one of two names. */
    private static String platform() throws IOException {
        String maps = new String(Files.readAllBytes(Paths.get("/proc/self/maps")), StandardCharsets.ISO_8859_1);
        if (!maps.contains("/libc.so.6") && !maps.contains("/libc-2.")) {
            throw new IOException("the JVM's C library is not glibc");
        }
        String architecture = System.getProperty("os.arch");
        return "amd64".equals(architecture) ? "x86_64" : architecture;
    }

    private static boolean loadBesideJar(String name) {
        for (Path folder : foldersOfJar()) {
            try {
                Path library = folder.resolve(name).toAbsolutePath();
                if (Files.isReadable(library)) {
                    System.load(library.toString());
                    return true;
                }
            } catch (RuntimeException | LinkageError error) {
                Publisher.debug("not loaded from " + folder + ": " + error);
            }
        }
        return false;
    }

    /** Where it may lie. The agent does not tell, but its setting does. */
    static List<Path> foldersOfJar() {
        List<Path> folders = new ArrayList<>();
        try {
            CodeSource source = Native.class.getProtectionDomain().getCodeSource();
            URL jar = source == null ? null : source.getLocation();
            if (jar != null && "file".equals(jar.getProtocol())) {
                folders.add(folderOf(Paths.get(jar.toURI())));
            }
            String extensions = System.getProperty("otel.javaagent.extensions");
            if (extensions == null) {
                extensions = System.getenv("OTEL_JAVAAGENT_EXTENSIONS");
            }
            for (String extension : extensions == null ? new String[0] : extensions.split(",")) {
                folders.add(folderOf(Paths.get(extension.trim())));
            }
        } catch (URISyntaxException | RuntimeException odd) {
            Publisher.debug("the jar is not found: " + odd);
        }
        return folders;
    }

    private static Path folderOf(Path path) {
        return Files.isDirectory(path) ? path : path.toAbsolutePath().getParent();
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
