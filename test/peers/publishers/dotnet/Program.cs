// SPDX-License-Identifier: Apache-2.0
// Runs PROGRAM: by Main(), or as a startup hook behind the publisher's in a host that has another Main().
using System;
using System.Diagnostics;
using System.IO;
using System.Runtime.InteropServices;

internal class StartupHook
{
    public static void Initialize()
    {
        Environment.Exit(Program.Main());
    }
}

internal static class Program
{
    internal static int Main()
    {
        switch (Environment.GetEnvironmentVariable("PROGRAM"))
        {
        case "interleave":
            return Interleave.Run();
        case "service":
            return Service.Run();
        case "cost":
            return Cost.Run();
        case "taken":
            Take();
            return Refused(Interleave.Published);
        case "refused":
            return Refused(() => Nothing);
        default:
            return Untouched();
        }
    }

    [DllImport("libc.so.6", EntryPoint = "memfd_create")]
    private static extern int CreateFile(string name, uint flags);

    [DllImport("libc.so.6", EntryPoint = "ftruncate")]
    private static extern int Truncate(int file, long size);

    [DllImport("libc.so.6", EntryPoint = "mmap")]
    private static extern IntPtr Map(IntPtr at, UIntPtr size, int protection, int flags, int file, long offset);

    // The process context is another's before the first span: a mapping of its name, as the ABI wants it.
    private static void Take()
    {
        const int Size = 4096, ReadAndWrite = 3, Shared = 1;
        int file = CreateFile("OTEL_CTX", 0);
        Truncate(file, Size);
        IntPtr header = Map(IntPtr.Zero, (UIntPtr)Size, ReadAndWrite, Shared, file, 0);
        for (int i = 0; i < 8; i++)
            Marshal.WriteByte(header, i, (byte)"OTEL_CTX"[i]);
        Marshal.WriteInt32(header, 8, 2);
    }

    private static readonly string Nothing = new string('0', 48);

    // What the node is told, by names of this process's mappings.
    private static int Refused(Func<string> published)
    {
        Activity activity = new Activity("one").SetIdFormat(ActivityIdFormat.W3C).Start();
        string ids = published();
        activity.Stop();
        string refusals = "";
        foreach (string line in File.ReadAllLines("/proc/self/maps"))
            if (line.Contains("/spanprof-refused-"))
                refusals += line.Substring(line.LastIndexOf('-') + 1);
        Console.WriteLine((ids != Nothing ? "published [" : "nothing published [") + refusals + "]");
        return 0;
    }

    // Spans begin and end; what is printed does not depend on the publisher.
    private static int Untouched()
    {
        for (int i = 0; i < 3; i++)
        {
            Activity activity = new Activity("one").SetIdFormat(ActivityIdFormat.W3C).Start();
            activity.Stop();
            Console.WriteLine(activity.Duration > TimeSpan.Zero && Activity.Current == null);
        }
        return 3;
    }
}
