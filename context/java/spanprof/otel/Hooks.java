// SPDX-License-Identifier: Apache-2.0
package spanprof.otel;

import spanprof.boot.Mounted;

/** Virtual threads that take their span along by spanprof.boot.Mounted, which is in the boot loader by then. */
final class Hooks {
    private Hooks() {
    }

    /** known: what this has returned before for the thread, which is the one that calls. */
    static Object show(Object known, Thread thread, Ids ids) {
        Mounted mounted = (Mounted) known;
        if (ids.id == 0) {
            if (mounted != null) {
                mounted.hide();
            }
            return mounted;
        }
        if (mounted == null) {
            mounted = new Mounted();
            Native.takeAlong(thread, mounted);
        }
        mounted.show(ids.high, ids.low, ids.id, ids.flags);
        return mounted;
    }
}
