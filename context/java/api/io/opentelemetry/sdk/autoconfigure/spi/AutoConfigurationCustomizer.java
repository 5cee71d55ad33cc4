// SPDX-License-Identifier: Apache-2.0
package io.opentelemetry.sdk.autoconfigure.spi;

import io.opentelemetry.sdk.resources.Resource;
import java.util.function.BiFunction;

public interface AutoConfigurationCustomizer {
    AutoConfigurationCustomizer addResourceCustomizer(
        BiFunction<? super Resource, ? super ConfigProperties, ? extends Resource> customizer);
}
