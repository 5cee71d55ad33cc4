// SPDX-License-Identifier: Apache-2.0
// Whether what the publisher has written is Activity.Current, at each step of units that take turns: async methods,
// threads, tasks of the pool, timers. A line a case: name, checks, wrong ones.
using System;
using System.Diagnostics;
using System.Linq;
using System.Reflection;
using System.Runtime.InteropServices;
using System.Threading;
using System.Threading.Tasks;

internal static class Interleave
{
    private const int Steps = 4000, Units = 6;
    private static int checks, wrong;

    [StructLayout(LayoutKind.Sequential)]
    private unsafe struct Context
    {
        internal fixed byte TraceId[16];
        internal fixed byte SpanId[8];
        internal fixed byte Rest[2 + 2 + 208];
    }

    [DllImport("libspanprof-context.so", EntryPoint = "spanprof_context_get")]
    private static extern void Get(out Context context);

    internal static unsafe string Published()
    {
        Context context;
        Get(out context);
        string hex = "";
        for (int i = 0; i < 24; i++)
            hex += context.TraceId[i].ToString("x2");
        return hex;
    }

    private static string Wanted()
    {
        Activity activity = Activity.Current;
        return activity == null || activity.Duration != TimeSpan.Zero
            ? new string('0', 48)
            : activity.TraceId.ToHexString() + activity.SpanId.ToHexString();
    }

    private static void Check()
    {
        Interlocked.Increment(ref checks);
        if (Published() != Wanted())
            Interlocked.Increment(ref wrong);
    }

    private static Activity Begin(string name)
    {
        return new Activity(name).SetIdFormat(ActivityIdFormat.W3C).Start();
    }

    private static async Task Unit(bool withSpan, int steps, Func<Task> pause)
    {
        if (!withSpan)
        {
            for (int i = 0; i < steps; i++)
            {
                Check();
                await pause();
            }
            return;
        }
        Activity unit = Begin("unit");
        for (int i = 0; i < steps; i++)
        {
            Check();
            await pause();
            Check();
            if (i % 10 != 0)
                continue;
            Activity inner = Begin("inner");
            Check();
            await pause();
            Check();
            inner.Stop();
            Check();
        }
        unit.Stop();
        Check();
    }

    private static void TakeTurns(int steps, Func<Task> pause)
    {
        Task.WaitAll(Enumerable.Range(0, Units).Select(i => Unit(i % 3 != 1, steps, pause)).ToArray());
        Check();
    }

    private static void Yields()
    {
        TakeTurns(Steps, async () => await Task.Yield());
    }

    private static void TasksOfThePool()
    {
        TakeTurns(Steps / 2, () => Task.Run((Action)Check));
    }

    private static void WithoutTheContext()
    {
        TakeTurns(Steps / 2, async () => await Task.Run((Action)Check).ConfigureAwait(false));
    }

    private static void Delays()
    {
        TakeTurns(Steps / 40, () => Task.Delay(1));
    }

    private static void WithinASpan()
    {
        Activity outer = Begin("outer");
        TakeTurns(Steps / 2, async () => await Task.Yield());
        Check();
        outer.Stop();
        Check();
    }

    private static void Threads()
    {
        var threads = Enumerable.Range(0, Units).Select(i => new Thread(() =>
            Unit(i % 3 != 1, Steps, () => Task.FromResult(0)).Wait())).ToList();
        threads.ForEach(thread => thread.Start());
        threads.ForEach(thread => thread.Join());
    }

    private static void ParallelLoops()
    {
        Activity outer = Begin("outer");
        for (int i = 0; i < 20; i++)
            Parallel.For(0, 100, step =>
            {
                Check();
                Activity inner = Begin("inner");
                Check();
                inner.Stop();
                Check();
            });
        outer.Stop();
        Check();
    }

    // The pool's threads go on with a context whose Activity has ended.
    private static void EndedElsewhere()
    {
        for (int i = 0; i < Steps / 4; i++)
        {
            Activity ended = Begin("ended");
            var go = new ManualResetEventSlim();
            Task late = Task.Run(() => go.Wait()).ContinueWith(
                done => Check(), CancellationToken.None, TaskContinuationOptions.RunContinuationsAsynchronously,
                TaskScheduler.Default);
            ended.Stop();
            go.Set();
            late.Wait();
            Check();
        }
    }

    private static void ContextsThatDoNotFlow()
    {
        for (int i = 0; i < Steps; i++)
        {
            Activity outer = Begin("outer");
            Task task;
            using (ExecutionContext.SuppressFlow())
                task = Task.Run((Action)Check);
            task.Wait();
            Check();
            ExecutionContext.Run(ExecutionContext.Capture(), state =>
            {
                Begin("left");
                Check();
            }, null);
            Check();
            outer.Stop();
            Check();
        }
    }

    private static void Assignments()
    {
        for (int i = 0; i < Steps; i++)
        {
            Activity one = Begin("one"), two = Begin("two");
            Activity.Current = one;
            Check();
            Activity.Current = null;
            Check();
            Activity.Current = two;
            Check();
            two.Stop();
            Check();
            one.Stop();
            Check();
        }
    }

    private static void OtherIds()
    {
        for (int i = 0; i < Steps / 4; i++)
        {
            Activity old = new Activity("old").SetIdFormat(ActivityIdFormat.Hierarchical).Start();
            Interlocked.Increment(ref checks);
            if (Published() != new string('0', 48))
                Interlocked.Increment(ref wrong);
            old.Stop();
            Check();
        }
    }

    internal static int Run()
    {
        bool failed = false;
        Action[] cases = { Yields, TasksOfThePool, WithoutTheContext, Delays, WithinASpan, Threads, ParallelLoops,
                           EndedElsewhere, ContextsThatDoNotFlow, Assignments, OtherIds };
        foreach (Action one in cases)
        {
            checks = wrong = 0;
            one();
            failed |= wrong > 0;
            Console.WriteLine("{0} {1} {2}", one.Method.Name, checks, wrong);
        }
        return failed ? 1 : 0;
    }
}
