/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Why a question by attributes found nothing. Private to exporter/. Thread: the one that the
 * request is with.
 */
#include "exporter/pages/pages_route.h"

/* Of a request that found nothing by request->empty: if that asks for an attribute that is not
 * kept, it is answered 400 with a sentence, which names those that are. */
void pages_attributes_explain(const struct config *config, struct pages_request *request);
