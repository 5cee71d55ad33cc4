/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * One connection of ours whose peer is the test, that writes and reads frames by hand. For cmocka:
 * rig_setup() and rig_teardown() make and free the state.
 */
#include "test/support/net/h2_end.h"
#include "test/support/net/h2_raw.h"

struct rig {
    struct loop *loop;
    struct h2_end end; /* ours */
    int fd;            /* the test's */
    struct buf out;    /* not written yet */
    struct buf in;     /* what was read */
    bool reads;
};

extern const struct h2_settings rig_no_settings;

int rig_setup(void **state);
int rig_teardown(void **state);
/* Opens ours in that role, and queues the preface and SETTINGS of the peer. */
void rig_start(struct rig *rig, const struct h2_settings *wanted, bool server);
void rig_pump(struct rig *rig);
/* Runs both sides until it holds, or for so many ms: whether it holds. */
bool rig_run(struct rig *rig, bool (*holds)(struct rig *rig), int ms);
bool rig_ended(struct rig *rig);
bool rig_never(struct rig *rig);
void rig_frame(struct rig *rig, uint8_t type, uint8_t flags, uint32_t stream, struct bytes payload);
void rig_open_stream(struct rig *rig, uint32_t id, uint8_t flags); /* a POST */
/* The last frame of that type (and stream, if not 0) seen; its payload is valid until the next run.
 */
bool rig_saw(const struct rig *rig, uint8_t type, uint32_t stream, struct h2_raw_seen *found);
int64_t rig_limit(const char *name); /* the counter of a limit */
void rig_assert_goaway(struct rig *rig, uint32_t error);
