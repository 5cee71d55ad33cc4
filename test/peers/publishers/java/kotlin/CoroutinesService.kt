// SPDX-License-Identifier: Apache-2.0
package service

import com.sun.net.httpserver.HttpServer
import java.net.InetSocketAddress
import java.util.concurrent.Executors
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.async
import kotlinx.coroutines.delay
import kotlinx.coroutines.runBlocking
import kotlinx.coroutines.withContext

/** A request is worked on by coroutines, which go from thread to thread: nothing here is about profiling. */
object CoroutinesService {
    private suspend fun render() {
        for (i in 0 until 5) {
            withContext(Dispatchers.Default) { Truth.burn(2.0) }
            delay(1)
            Truth.burn(1.0)
        }
    }

    @JvmStatic
    fun main(arguments: Array<String>) {
        val server = HttpServer.create(InetSocketAddress("127.0.0.1", arguments[0].toInt()), 0)
        server.createContext("/render") { exchange ->
            runBlocking(Dispatchers.Default) {
                val part = async { Truth.burn(5.0) }
                render()
                part.await()
            }
            exchange.sendResponseHeaders(204, -1)
            exchange.close()
        }
        server.createContext("/wait") { exchange ->
            runBlocking { delay(20) }
            exchange.sendResponseHeaders(204, -1)
            exchange.close()
        }
        server.executor = Executors.newFixedThreadPool(8)
        Truth.burnWithoutSpan()
        server.start()
    }
}
