// SPDX-License-Identifier: Apache-2.0
// Sample.class is this, by javac --release 17 -g.
public class Sample implements Runnable {
    private final Runnable runContinuation = this;
    long big = 1234567890123L;
    double real = 0.1;
    int n;

    private void mount() {
        for (int i = 0; i < 3; i++) {
            try {
                switch (n) {
                    case 1: n += 5; break;
                    case 2: n += 7; break;
                    default: n++;
                }
            } catch (RuntimeException e) {
                n = 0;
            }
        }
    }

    private void unmount() {
        n = n > 0 ? n : -n;
    }

    public void run() {
        mount();
        unmount();
        runContinuation.hashCode();
    }
}
