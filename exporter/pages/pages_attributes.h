/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Explains why a filter by attribute found nothing. Private to exporter/. Thread: the one that
 * holds the request.
 */
#include "exporter/pages/pages_route.h"

/* For a request that found nothing by the filter request->empty. If the filter names an attribute
 * that is not kept, the answer becomes 400 with a sentence that lists the kept ones. */
void pages_attributes_explain(const struct config *config, struct pages_request *request);
