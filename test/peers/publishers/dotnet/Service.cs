// SPDX-License-Identifier: Apache-2.0
// An HTTP service with an Activity for each request, as ASP.NET Core makes them, and an exporter of OTLP/JSON.
using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.IO;
using System.Linq;
using System.Net;
using System.Net.Sockets;
using System.Text;
using System.Threading;
using System.Threading.Tasks;

internal static class Service
{
    private static readonly List<string> Ended = new List<string>();

    private static Activity Begin(string name)
    {
        Activity activity = new Activity(name).SetIdFormat(ActivityIdFormat.W3C).Start();
        activity.ActivityTraceFlags = ActivityTraceFlags.Recorded;
        return activity;
    }

    private static void End(Activity activity, string name, long from)
    {
        activity.Stop();
        string span = string.Format("{{\"traceId\": \"{0}\", \"spanId\": \"{1}\", \"name\": \"{2}\", \"kind\": 2, " +
            "\"startTimeUnixNano\": \"{3}\", \"endTimeUnixNano\": \"{4}\"}}", activity.TraceId.ToHexString(),
            activity.SpanId.ToHexString(), name, from, Truth.Now());
        lock (Ended)
            Ended.Add(span);
    }

    // Three spans that take turns on the pool's threads.
    private static async Task Part(int i)
    {
        string name = "part " + i;
        long from = Truth.Now();
        Activity part = Begin(name);
        for (int step = 0; step < 4; step++)
        {
            Truth.Burn(1000);
            await Task.Yield();
        }
        End(part, name, from);
    }

    private static async Task Answer(HttpListenerContext request)
    {
        string path = request.Request.Url.AbsolutePath, name = "GET " + path;
        long from = Truth.Now();
        Activity activity = Begin(name);
        if (path == "/render")
            Truth.Burn(20000);
        else if (path == "/parts")
        {
            await Task.WhenAll(Enumerable.Range(0, 3).Select(Part));
            Truth.Burn(8000);
        }
        else if (path == "/pool")
        {
            await Task.Run(() => Truth.Burn(10000));
            Truth.Burn(10000);
        }
        else
            await Task.Delay(20);
        byte[] body = Encoding.ASCII.GetBytes("done\n");
        request.Response.OutputStream.Write(body, 0, body.Length);
        request.Response.Close();
        End(activity, name, from);
    }

    private static void Export(int port)
    {
        string[] spans;
        lock (Ended)
        {
            spans = Ended.ToArray();
            Ended.Clear();
        }
        if (spans.Length == 0)
            return;
        string body = "{\"resourceSpans\": [{\"resource\": {\"attributes\": [{\"key\": \"service.name\", \"value\": " +
            "{\"stringValue\": \"" + Environment.GetEnvironmentVariable("OTEL_SERVICE_NAME") + "\"}}]}, " +
            "\"scopeSpans\": [{\"spans\": [" + string.Join(", ", spans) + "]}]}]}";
        using (var connection = new TcpClient("127.0.0.1", port))
        using (var stream = connection.GetStream())
        {
            byte[] bytes = Encoding.ASCII.GetBytes("POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" +
                "Content-Type: application/json\r\nContent-Length: " + body.Length + "\r\n\r\n" + body);
            stream.Write(bytes, 0, bytes.Length);
            string status = new StreamReader(stream).ReadLine();
            if (status == null || !status.Contains(" 200"))
                Console.WriteLine("export failed: " + status);
        }
    }

    internal static int Run()
    {
        int otlp = int.Parse(Environment.GetEnvironmentVariable("OTLP_PORT"));
        var exporter = new Thread(() =>
        {
            for (;;)
            {
                Thread.Sleep(200);
                Export(otlp);
            }
        });
        exporter.IsBackground = true;
        exporter.Start();
        Truth.BurnWithoutSpan();
        var listener = new HttpListener();
        listener.Prefixes.Add("http://127.0.0.1:" + Environment.GetEnvironmentVariable("PORT") + "/");
        listener.Start();
        for (;;)
        {
            HttpListenerContext request = listener.GetContext();
            Task.Run(() => Answer(request));
        }
    }
}
