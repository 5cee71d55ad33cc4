// SPDX-License-Identifier: Apache-2.0
// What StartupHook.cs uses of System.Diagnostics.DiagnosticSource, for the compiler alone: .NET brings its own assembly
// of this name, which is the one that is loaded. It is never installed.
using System.Reflection;

[assembly: AssemblyVersion("4.0.0.0")]

namespace System.Diagnostics
{
    public enum ActivityIdFormat { Unknown, Hierarchical, W3C }

    [Flags]
    public enum ActivityTraceFlags { None, Recorded }

    public struct ActivityTraceId
    {
        public string ToHexString() { return null; }
    }

    public struct ActivitySpanId
    {
        public string ToHexString() { return null; }
    }

    public class Activity
    {
        public Activity(string operationName) { }
        public static Activity Current { get { return null; } set { } }
        public ActivityIdFormat IdFormat { get { return 0; } }
        public ActivityTraceId TraceId { get { return new ActivityTraceId(); } }
        public ActivitySpanId SpanId { get { return new ActivitySpanId(); } }
        public ActivityTraceFlags ActivityTraceFlags { get { return 0; } set { } }
        public TimeSpan Duration { get { return TimeSpan.Zero; } }
        public DateTime StartTimeUtc { get { return DateTime.MinValue; } }
        public Activity SetIdFormat(ActivityIdFormat format) { return null; }
        public Activity Start() { return null; }
        public void Stop() { }
    }
}
