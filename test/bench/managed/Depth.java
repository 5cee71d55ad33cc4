// SPDX-License-Identifier: Apache-2.0
/** Works below DEPTH calls, again and again. */
public final class Depth {
    private static int work() {
        int sum = 0;
        for (int i = 0; i < 200000; i++)
            sum += i % 7 ^ sum >> 3;
        return sum;
    }

    private static int descend(int depth) {
        return depth > 1 ? descend(depth - 1) + 1 : work();
    }

    public static void main(String[] arguments) {
        int depth = Integer.parseInt(arguments[0]);
        long sum = descend(depth);
        System.out.println("works");
        while (sum != 1)
            sum += descend(depth);
    }
}
