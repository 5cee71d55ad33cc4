// SPDX-License-Identifier: Apache-2.0
package service;

import java.time.Duration;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.RestController;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;

/** Spring WebFlux on Netty: a request goes from thread to thread. */
@SpringBootApplication
@RestController
public class WebfluxService {
    @GetMapping("/render")
    public Mono<String> render() {
        return Flux.range(0, 5).concatMap(i -> Mono.delay(Duration.ofMillis(1)).doOnNext(n -> Truth.burn(3)))
            .publishOn(Schedulers.boundedElastic()).doOnComplete(() -> Truth.burn(5)).then(Mono.just("done\n"));
    }

    @GetMapping("/wait")
    public Mono<String> pause() {
        return Mono.delay(Duration.ofMillis(20)).map(n -> "done\n");
    }

    public static void main(String[] arguments) {
        Truth.burnWithoutSpan();
        SpringApplication.run(WebfluxService.class, "--server.port=" + arguments[0], "--server.address=127.0.0.1");
    }
}
