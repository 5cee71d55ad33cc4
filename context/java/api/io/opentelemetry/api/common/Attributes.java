// SPDX-License-Identifier: Apache-2.0
package io.opentelemetry.api.common;

import java.util.Map;

public interface Attributes {
    Map<AttributeKey<?>, Object> asMap();
}
