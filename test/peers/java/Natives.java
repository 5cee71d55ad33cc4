/* SPDX-License-Identifier: Apache-2.0 */

/** Works in native code of a library (natives.c), for seconds; what is native has a frame pointer of each kind. */
public final class Natives {
    private static native long work(int turns, int kind);

    private static long outer(int turns, int kind) {
        return work(turns, kind) + 1;
    }

    public static void main(String[] arguments) {
        System.load(arguments[0]);
        System.out.println("waiting");
        System.out.flush();
        long sum = 0;
        for (int i = 0;; i++) {
            sum += outer(20000, i % 3);
            if (sum == 42) {
                System.out.println(sum);
            }
        }
    }
}
