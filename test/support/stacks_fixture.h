/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The dictionary of a store_fixture: stacks of given frames, what is collected, what is exported.
 * Within a transaction, where not said otherwise. Asserts with cmocka. Thread: one.
 */
#include "profiles_service.pb-c.h"
#include "test/support/store_fixture.h"

struct stacks *fixture_stacks(struct fixture *fixture);
int64_t fixture_intern(struct fixture *fixture, const struct frame *frames, size_t n);
/* A generation to its end, in which one stack is referred to. */
void fixture_generation(struct fixture *fixture, int64_t referred);

typedef Opentelemetry__Proto__Collector__Profiles__V1development__ExportProfilesServiceRequest
    ProfilesRequest;
typedef Opentelemetry__Proto__Profiles__V1development__ProfilesDictionary ProfilesDictionary;
typedef Opentelemetry__Proto__Profiles__V1development__Location ProfilesLocation;
typedef Opentelemetry__Proto__Profiles__V1development__KeyValueAndUnit ProfilesAttribute;

/* The one request of the window that closes at that time; it conforms. In a transaction of its own.
 * To be closed. */
ProfilesRequest *fixture_window(struct fixture *fixture, uint64_t now_unix_ns, bool everything);
void fixture_window_close(ProfilesRequest *request);
