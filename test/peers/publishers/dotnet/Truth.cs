// SPDX-License-Identifier: Apache-2.0
// What a program worked on and when, as Activity.Current says it, a line of JSON each: $TRUTH/PID.
using System;
using System.Diagnostics;
using System.IO;
using System.Runtime.InteropServices;
using System.Threading;

internal static class Truth
{
    private const int ClockRealtime = 0, ClockThreadCpu = 3;
    private static readonly object Lock = new object();
    private static StreamWriter file;

    [StructLayout(LayoutKind.Sequential)]
    private struct Timespec
    {
        internal long Seconds, Nanoseconds;
    }

    [DllImport("libc.so.6", EntryPoint = "clock_gettime")]
    private static extern int ReadClock(int clock, out Timespec time);

    [DllImport("libc.so.6", EntryPoint = "gettid")]
    private static extern int ThreadId();

    private static long Clock(int clock)
    {
        Timespec time;
        ReadClock(clock, out time);
        return time.Seconds * 1000000000 + time.Nanoseconds;
    }

    internal static long Now()
    {
        return Clock(ClockRealtime);
    }

    // Of this thread's CPU time, for the current Activity.
    internal static void Burn(int microseconds)
    {
        Activity activity = Activity.Current;
        long from = Now(), end = Clock(ClockThreadCpu) + microseconds * 1000L;
        double sum = 0;
        while (Clock(ClockThreadCpu) < end)
            for (int i = 1; i < 200; i++)
                sum += Math.Sqrt(i);
        string ids = activity == null ? "" : string.Format(", \"trace_id\": \"{0}\", \"span_id\": \"{1}\"",
            activity.TraceId.ToHexString(), activity.SpanId.ToHexString());
        Tell(string.Format("{{\"type\": \"{0}\", \"tid\": {1}, \"from\": {2}, \"to\": {3}{4}}}",
            activity == null ? "off" : "on", ThreadId(), from, Now(), ids));
        GC.KeepAlive(sum);
    }

    // A thread that is nobody's.
    internal static void BurnWithoutSpan()
    {
        var thread = new Thread(() =>
        {
            for (;;)
            {
                Burn(3000);
                Thread.Sleep(50);
            }
        });
        thread.IsBackground = true;
        thread.Start();
    }

    private static void Tell(string line)
    {
        lock (Lock)
        {
            if (file == null)
            {
                string name = Process.GetCurrentProcess().Id.ToString();
                file = new StreamWriter(Path.Combine(Environment.GetEnvironmentVariable("TRUTH"), name));
                file.AutoFlush = true;
            }
            file.WriteLine(line);
        }
    }
}
