// SPDX-License-Identifier: Apache-2.0
package io.opentelemetry.sdk.resources;

import io.opentelemetry.api.common.Attributes;

public abstract class Resource {
    public abstract Attributes getAttributes();
}
