// SPDX-License-Identifier: Apache-2.0
package spanprof.boot;

/**
 * The span of one virtual thread, which the thread takes along from carrier to carrier. It stands where the thread keeps
 * what its carriers run, so that mount() and unmount() of java.lang.VirtualThread find it there (virtual_hooks.c).
 *
 * <p>Only the thread itself and the carrier that it is mounted on use it. A carrier with no virtual thread publishes
 * nothing. The class is in the boot loader, the one that java.lang.VirtualThread sees.
 */
public final class Mounted implements Runnable {
    private Runnable continuation; // what stood there before; set by virtual_hooks.c
    private long high;
    private long low;
    private long span; // 0: none
    private byte flags;

    /** Publishes that span on this carrier, and from now on wherever its thread is mounted. */
    public void show(long newHigh, long newLow, long newSpan, byte newFlags) {
        high = newHigh;
        low = newLow;
        flags = newFlags;
        span = newSpan;
        set(newHigh, newLow, newSpan, newFlags);
    }

    public void hide() {
        span = 0;
        clear();
    }

    @Override
    public void run() {
        continuation.run();
    }

    /** The thread that has it will be current on this carrier. */
    public static void mounting(Runnable of) {
        if (of instanceof Mounted) {
            Mounted mounted = (Mounted) of;
            if (mounted.span != 0) {
                set(mounted.high, mounted.low, mounted.span, mounted.flags);
            }
        }
    }

    /** The thread that has it will leave this carrier. */
    public static void unmounting(Runnable of) {
        if (of instanceof Mounted && ((Mounted) of).span != 0) {
            clear();
        }
    }

    private static native void set(long high, long low, long span, byte flags);

    private static native void clear();
}
