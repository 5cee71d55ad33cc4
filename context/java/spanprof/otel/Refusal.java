// SPDX-License-Identifier: Apache-2.0
package spanprof.otel;

import java.io.IOException;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

/** Shows the node why nothing is published: a file beside the jar is mapped, whose name says it (context/publisher_state.h). */
final class Refusal {
    private static final int EEXIST = 17;

    @SuppressWarnings("unused") // what is reachable stays mapped
    private static MappedByteBuffer shown;

    private Refusal() {
    }

    static void show(String state) {
        for (Path folder : Native.foldersOfJar()) {
            Path file = folder.resolve("spanprof-refused-" + state);
            try (FileChannel channel = FileChannel.open(file, StandardOpenOption.READ)) {
                shown = channel.map(FileChannel.MapMode.READ_ONLY, 0, channel.size());
                return;
            } catch (IOException | RuntimeException none) {
                Publisher.debug("the node cannot see it: " + none);
            }
        }
    }

    /** Of an errno of the library. */
    static String of(int error) {
        return error == EEXIST ? "taken" : "failed";
    }
}
