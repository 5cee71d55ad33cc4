// SPDX-License-Identifier: Apache-2.0
package service;

import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.RestController;

/** Spring Boot on Tomcat: nothing here is about profiling. */
@SpringBootApplication
@RestController
public class SpringService {
    @GetMapping("/render")
    public String render() {
        Truth.burn(20);
        return "done\n";
    }

    @GetMapping("/wait")
    public String pause() {
        Truth.pause(20);
        return "done\n";
    }

    public static void main(String[] arguments) {
        Truth.burnWithoutSpan();
        SpringApplication.run(SpringService.class, "--server.port=" + arguments[0], "--server.address=127.0.0.1");
    }
}
