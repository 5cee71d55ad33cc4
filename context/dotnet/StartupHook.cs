// SPDX-License-Identifier: Apache-2.0
//
// Tells the profiler of this node which span each thread works for (OTEP 4947): in .NET that is Activity.Current.
//
// DOTNET_STARTUP_HOOKS loads this assembly before a program's Main(). Activity.CurrentChanged (DiagnosticSource 7 and
// later) reports where code begins and ends an Activity; it does not report a thread of the pool that continues with the
// execution context of another task. So the current Activity is also kept in an AsyncLocal of ours, whose handler is
// called in both cases.
//
// SPANPROF_CONTEXT=off switches it off. Whatever fails leaves the program as it is, silent unless
// SPANPROF_CONTEXT_DEBUG=1.
using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.IO;
using System.IO.MemoryMappedFiles;
using System.Reflection;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Text;
using System.Threading;

internal class StartupHook
{
    private const string Source = "System.Diagnostics.DiagnosticSource";
    private static int found;

    // The program, or an agent in it, chooses which version of DiagnosticSource is loaded: it is waited for.
    public static void Initialize()
    {
        if (Environment.GetEnvironmentVariable("SPANPROF_CONTEXT") == "off")
            return;
        AppDomain.CurrentDomain.AssemblyLoad += Loaded;
        foreach (Assembly assembly in AppDomain.CurrentDomain.GetAssemblies())
            Look(assembly);
    }

    private static void Loaded(object sender, AssemblyLoadEventArgs arguments)
    {
        Look(arguments.LoadedAssembly);
    }

    private static void Look(Assembly assembly)
    {
        try
        {
            if (assembly.GetName().Name != Source || Interlocked.Exchange(ref found, 1) != 0)
                return;
            AppDomain.CurrentDomain.AssemblyLoad -= Loaded;
            Follow();
        }
        catch (Exception error)
        {
            SpanprofOtel.Refusal.Show("failed", error.Message);
        }
    }

    // Its own method: the compiler of methods loads what a method names.
    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void Follow()
    {
        SpanprofOtel.Publisher.Start();
    }
}

namespace System.Runtime.InteropServices
{
    // Known to the runtime by its name since .NET 5: the call is made without leaving managed code. It is for functions
    // that take less than a microsecond and wait for nothing.
    [AttributeUsage(AttributeTargets.Method)]
    internal sealed class SuppressGCTransitionAttribute : Attribute { }
}

namespace SpanprofOtel
{
    internal static class Log
    {
        internal static void Debug(string line)
        {
            if (Environment.GetEnvironmentVariable("SPANPROF_CONTEXT_DEBUG") == "1")
                Console.Error.WriteLine("spanprof_otel: " + line);
        }
    }

    // Shows the node why nothing is published: a file beside this assembly is mapped, whose name says it
    // (context/publisher_state.h).
    internal static class Refusal
    {
        private const int EEXIST = 17;
        internal static object Shown; // what is reachable stays mapped

        internal static void Show(string state, string reason)
        {
            Log.Debug("not publishing: " + reason);
            try
            {
                Shown = Map(Path.Combine(Path.GetDirectoryName(typeof(Refusal).Assembly.Location), "spanprof-refused-" + state));
            }
            catch (Exception error)
            {
                Log.Debug("the node cannot see it: " + error.Message);
            }
        }

        internal static void Show(int error)
        {
            Show(error == EEXIST ? "taken" : "failed", "errno " + error);
        }

        // Its own method: the assembly that it needs may not be there.
        [MethodImpl(MethodImplOptions.NoInlining)]
        private static object Map(string path)
        {
            var file = new FileStream(path, FileMode.Open, FileAccess.Read, FileShare.Read);
            var map = MemoryMappedFile.CreateFromFile(file, null, 0, MemoryMappedFileAccess.Read, HandleInheritability.None, false);
            return map.CreateViewAccessor(0, 0, MemoryMappedFileAccess.Read);
        }
    }

    // libspanprof-context, which lies beside this assembly.
    internal static unsafe class Native
    {
        private const string Library = "libspanprof-context.so";

        internal struct Attribute
        {
            internal IntPtr Key, Value;
        }

        [DllImport(Library, EntryPoint = "spanprof_context_publish")]
        internal static extern int Publish(Attribute* attributes, UIntPtr n);

        [DllImport(Library, EntryPoint = "spanprof_context_set"), SuppressGCTransition]
        internal static extern int Set(byte* traceId, byte* spanId, byte flags);

        [DllImport(Library, EntryPoint = "spanprof_context_clear"), SuppressGCTransition]
        internal static extern int Clear();
    }

    // An Activity and its ids as bytes, made once, so that a switch of threads allocates nothing.
    internal sealed class Span
    {
        private const int TraceIdBytes = 16, SpanIdBytes = 8;

        internal readonly Activity Activity;
        internal Span Outer; // what was current before, and is again afterwards, very likely
        private readonly byte[] ids = new byte[TraceIdBytes + SpanIdBytes];
        private readonly bool valid;

        internal Span(Activity activity, Span outer)
        {
            Activity = activity;
            Outer = outer;
            valid = activity.IdFormat == ActivityIdFormat.W3C &&
                    Parse(activity.TraceId.ToHexString(), 0, TraceIdBytes) &&
                    Parse(activity.SpanId.ToHexString(), TraceIdBytes, SpanIdBytes);
        }

        // Only Stop() gives it a duration.
        internal bool Ended
        {
            get { return Activity.Duration != TimeSpan.Zero; }
        }

        // A thread of the pool may continue with an Activity that has ended: nothing is published then.
        internal unsafe void Publish()
        {
            if (!valid || Ended)
            {
                Native.Clear();
                return;
            }
            fixed (byte* bytes = ids)
                Native.Set(bytes, bytes + TraceIdBytes, (byte)Activity.ActivityTraceFlags);
        }

        private bool Parse(string hex, int at, int size)
        {
            if (hex == null || hex.Length != 2 * size)
                return false;
            int any = 0;
            for (int i = 0; i < size; i++)
            {
                int value = Digit(hex[2 * i]) << 4 | Digit(hex[2 * i + 1]);
                if (value < 0)
                    return false;
                ids[at + i] = (byte)value;
                any |= value;
            }
            return any != 0;
        }

        private static int Digit(char digit)
        {
            return digit >= '0' && digit <= '9' ? digit - '0' : digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
        }
    }

    internal static class Publisher
    {
        private enum State { New, Starting, On, Off }

        private static readonly AsyncLocal<Span> current = new AsyncLocal<Span>(Switched);
        private static int state = (int)State.New;
        private static EventInfo changes;
        private static Delegate handler;

        // From now on changes are reported. Nothing is published before the first one.
        internal static void Start()
        {
            changes = typeof(Activity).GetEvent("CurrentChanged", BindingFlags.Public | BindingFlags.Static);
            if (changes == null)
            {
                Refusal.Show("unknown_version", "Activity has no CurrentChanged (DiagnosticSource 7 and later has)");
                return;
            }
            // EventHandler<ActivityChangedEventArgs>, a type that older versions lack: so it is not named here.
            Type type = changes.EventHandlerType;
            MethodInfo method = typeof(Publisher).GetMethod("Changed", BindingFlags.NonPublic | BindingFlags.Static);
            handler = Delegate.CreateDelegate(type, method.MakeGenericMethod(type.GetGenericArguments()[0]));
            changes.AddEventHandler(null, handler);
        }

        private static void Changed<T>(object sender, T arguments)
        {
            try
            {
                if (Volatile.Read(ref state) != (int)State.On && !Begin())
                    return;
                Activity activity = Activity.Current;
                Span before = current.Value;
                current.Value = activity == null ? null : Known(before, activity) ?? new Span(activity, Live(before));
            }
            catch (Exception error)
            {
                Stop();
                Refusal.Show(error is DllNotFoundException ? "no_library" : "failed", error.Message);
            }
        }

        // The current one again, or the one that it was begun in.
        private static Span Known(Span before, Activity activity)
        {
            if (before == null || before.Activity == activity)
                return before;
            return before.Outer != null && before.Outer.Activity == activity ? before.Outer : null;
        }

        // Without what has ended in front of it: such a chain would grow for as long as the program lives.
        private static Span Live(Span span)
        {
            if (span == null || span.Ended)
                return null;
            if (span.Outer != null && span.Outer.Ended)
                span.Outer = null;
            return span;
        }

        // On the thread that the value is current on from now; an exception that leaves it would end the program.
        private static void Switched(AsyncLocalValueChangedArgs<Span> change)
        {
            try
            {
                if (Volatile.Read(ref state) != (int)State.On)
                    return;
                if (change.CurrentValue != null)
                    change.CurrentValue.Publish();
                else
                    Native.Clear();
            }
            catch (Exception error)
            {
                Stop();
                Refusal.Show(error is DllNotFoundException ? "no_library" : "failed", error.Message);
            }
        }

        // False: another thread is at it, or it is over.
        private static bool Begin()
        {
            if (Interlocked.CompareExchange(ref state, (int)State.Starting, (int)State.New) != (int)State.New)
                return false;
            int error = Resource.Publish();
            if (error != 0)
            {
                Stop();
                Refusal.Show(-error);
                return false;
            }
            Volatile.Write(ref state, (int)State.On);
            Log.Debug("publishing");
            return true;
        }

        private static void Stop()
        {
            Volatile.Write(ref state, (int)State.Off);
            changes.RemoveEventHandler(null, handler);
        }
    }

    // .NET has no place where the SDK's Resource could be found, so it is what the environment says: OTEL_SERVICE_NAME
    // and OTEL_RESOURCE_ATTRIBUTES.
    internal static class Resource
    {
        private const int AttributesMax = 128, KeyBytesMax = 255, ValueBytesMax = 4096, BytesMax = 16384;

        // 0 or a negative errno.
        internal static unsafe int Publish()
        {
            var strings = new List<IntPtr>();
            var attributes = new Native.Attribute[AttributesMax];
            int n = 0, bytes = 0;
            try
            {
                foreach (var pair in Read())
                {
                    int keyBytes = Encoding.UTF8.GetByteCount(pair.Key), valueBytes = Encoding.UTF8.GetByteCount(pair.Value);
                    if (keyBytes > KeyBytesMax || valueBytes > ValueBytesMax || n == AttributesMax ||
                        bytes + keyBytes + valueBytes + 4 > BytesMax)
                        continue;
                    bytes += keyBytes + valueBytes + 4;
                    attributes[n].Key = Copy(pair.Key, strings);
                    attributes[n++].Value = Copy(pair.Value, strings);
                }
                fixed (Native.Attribute* first = attributes)
                    return Native.Publish(first, (UIntPtr)n);
            }
            finally
            {
                strings.ForEach(Marshal.FreeHGlobal);
            }
        }

        private static IntPtr Copy(string text, List<IntPtr> strings)
        {
            byte[] bytes = Encoding.UTF8.GetBytes(text + "\0");
            IntPtr copy = Marshal.AllocHGlobal(bytes.Length);
            strings.Add(copy);
            Marshal.Copy(bytes, 0, copy, bytes.Length);
            return copy;
        }

        private static Dictionary<string, string> Read()
        {
            var found = new Dictionary<string, string>();
            string list = Environment.GetEnvironmentVariable("OTEL_RESOURCE_ATTRIBUTES") ?? "";
            foreach (string item in list.Split(','))
            {
                int equals = item.IndexOf('=');
                if (equals > 0)
                    Add(found, item.Substring(0, equals).Trim(), Uri.UnescapeDataString(item.Substring(equals + 1).Trim()));
            }
            Add(found, "service.name", Environment.GetEnvironmentVariable("OTEL_SERVICE_NAME"));
            return found;
        }

        private static void Add(Dictionary<string, string> found, string key, string value)
        {
            if (!string.IsNullOrEmpty(key) && !string.IsNullOrEmpty(value) && value.IndexOf('\0') < 0)
                found[key] = value;
        }
    }
}
