// SPDX-License-Identifier: Apache-2.0
package service;

import com.sun.net.httpserver.HttpHandler;
import com.sun.net.httpserver.HttpServer;
import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.Tracer;
import io.opentelemetry.context.Context;
import io.opentelemetry.context.Scope;
import io.opentelemetry.sdk.autoconfigure.AutoConfiguredOpenTelemetrySdk;
import java.net.InetSocketAddress;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/** With the SDK alone, no agent: it makes its spans itself, one for the request and one for a part of it elsewhere. */
public final class SdkService {
    private static Tracer tracer;

    private SdkService() {
    }

    private static HttpHandler traced(String name, Runnable work) {
        return exchange -> {
            Span span = tracer.spanBuilder(name).startSpan();
            try (Scope scope = span.makeCurrent()) {
                work.run();
            } finally {
                span.end();
            }
            exchange.sendResponseHeaders(204, -1);
            exchange.close();
        };
    }

    private static void renderPart() {
        Span span = tracer.spanBuilder("part").startSpan();
        try (Scope scope = span.makeCurrent()) {
            Truth.burn(10);
        } finally {
            span.end();
        }
    }

    public static void main(String[] arguments) throws Exception {
        tracer = AutoConfiguredOpenTelemetrySdk.initialize().getOpenTelemetrySdk().getTracer("service");
        ExecutorService parts = Context.taskWrapping(Executors.newFixedThreadPool(2));
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(arguments[0])), 0);
        server.createContext("/render", traced("render", () -> {
            Truth.burn(10);
            try {
                parts.submit(SdkService::renderPart).get();
            } catch (Exception error) {
                throw new IllegalStateException(error);
            }
        }));
        server.createContext("/wait", traced("wait", () -> Truth.pause(20)));
        server.setExecutor(Executors.newFixedThreadPool(4));
        Truth.burnWithoutSpan();
        server.start();
    }
}
