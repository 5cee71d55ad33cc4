// SPDX-License-Identifier: Apache-2.0
package service;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/** The JDK's own server, on a pool of threads or on virtual ones: nothing here is about profiling. */
public final class HttpService {
    private HttpService() {
    }

    private static void answer(HttpExchange exchange) throws IOException {
        byte[] body = "done\n".getBytes();
        exchange.sendResponseHeaders(200, body.length);
        exchange.getResponseBody().write(body);
        exchange.close();
    }

    private static ExecutorService executor(String kind) throws ReflectiveOperationException {
        if (kind.equals("virtual")) {
            return (ExecutorService) Executors.class.getMethod("newVirtualThreadPerTaskExecutor").invoke(null);
        }
        return Executors.newFixedThreadPool(4);
    }

    public static void main(String[] arguments) throws Exception {
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(arguments[0])), 0);
        server.createContext("/render", exchange -> {
            Truth.burn(20);
            answer(exchange);
        });
        server.createContext("/pieces", exchange -> {
            Truth.burnInPieces();
            answer(exchange);
        });
        server.createContext("/wait", exchange -> {
            Truth.pause(20);
            answer(exchange);
        });
        server.setExecutor(executor(arguments[1]));
        Truth.burnWithoutSpan();
        server.start();
    }
}
