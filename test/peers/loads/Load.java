// SPDX-License-Identifier: Apache-2.0

import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;
import java.util.zip.Deflater;

/** Load without end: collections, strings, regular expressions, compression, garbage, in two threads. */
public class Load {
    static final Pattern PATTERN = Pattern.compile("(\\d+)-([a-z]+)");

    static int round(int seed) {
        Map<String, Integer> map = new HashMap<>();
        for (int i = 0; i < 20000; i++)
            map.merge((i * 31 % 997) + "-key" + (seed & 7), i, Integer::sum);
        List<String> keys = new ArrayList<>(map.keySet());
        Collections.sort(keys, (a, b) -> map.get(a) - map.get(b));
        String text = PATTERN.matcher(String.join(",", keys)).replaceAll("$2$1");
        Deflater deflater = new Deflater();
        deflater.setInput(text.getBytes());
        deflater.finish();
        int size = deflater.deflate(new byte[1 << 16]);
        deflater.end();
        return size;
    }

    static void work() {
        for (int i = 0, sum = 0; sum >= 0; i++)
            sum = (sum + round(i)) & 0xffff;
    }

    public static void main(String[] arguments) {
        new Thread(Load::work).start();
        work();
    }
}
