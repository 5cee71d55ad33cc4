// SPDX-License-Identifier: Apache-2.0
// ns of an Activity's Start() and Stop(), and of a step of an async method to another thread: lines `name value`.
using System;
using System.Diagnostics;
using System.Threading.Tasks;

internal static class Cost
{
    private const int Rounds = 9;

    private static double Best(int n, Action work)
    {
        double best = double.MaxValue;
        for (int round = 0; round < Rounds; round++)
        {
            var watch = Stopwatch.StartNew();
            work();
            best = Math.Min(best, watch.Elapsed.TotalMilliseconds * 1e6 / n);
        }
        return best;
    }

    private static async Task Yields(int n)
    {
        for (int i = 0; i < n; i++)
            await Task.Yield();
    }

    // With its ids, which are made when they are asked for: an exporter asks.
    private static void Spans(int n)
    {
        for (int i = 0; i < n; i++)
        {
            Activity one = new Activity("one").SetIdFormat(ActivityIdFormat.W3C).Start();
            GC.KeepAlive(one.TraceId.ToHexString());
            GC.KeepAlive(one.SpanId.ToHexString());
            one.Stop();
        }
    }

    internal static int Run()
    {
        Console.WriteLine("start_and_stop {0:F1}", Best(200000, () => Spans(200000)));
        Console.WriteLine("yield_without_span {0:F1}", Best(200000, () => Yields(200000).Wait()));
        Activity outer = new Activity("outer").SetIdFormat(ActivityIdFormat.W3C).Start();
        Console.WriteLine("yield_in_span {0:F1}", Best(200000, () => Yields(200000).Wait()));
        outer.Stop();
        return 0;
    }
}
