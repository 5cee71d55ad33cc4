/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The addon of the publisher for Node: what JavaScript cannot do itself. N-API 8, so one file
 * serves Node 18 and later.
 *
 *   publish(texts, again)  the process context, from [key, value, key, value, ...]: 0 or -errno
 *   findFrames(key, value) whether Node's own thread context can be used, see frames.h
 *   showFrames()           it is used; before that publish() says another schema
 *   withdraw()             another library publishes from now on
 *   open()                 {pointer, records}: the calling thread's memory, see thread_record.js
 *   attach()               makes the thread's pointer name the first record
 *   current()              what the thread publishes, as "TRACE-SPAN-FLAGS", for tests
 *
 * Threads: each thread that runs JavaScript has its own instance (struct instance). The process
 * context is the process's: the first instance gives the Resource, later ones share it.
 */
#include "context/node/frames.h"
#include "context/context_layout.h"
#include "context/spanprof_context.h"
#include <errno.h>
#include <node_api.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RECORD_BYTES = 32, RECORDS = 3, KEY_MAX = 255, VALUE_MAX = 4096 };
enum { RECORDS_ALIGNMENT = 128 };

struct instance {
    uint8_t records[RECORDS][RECORD_BYTES]; /* the first one: no span */
    bool is_owner;                          /* its Resource is the process's */
    struct frames frames;
};

_Static_assert(sizeof(struct instance) <= RECORDS_ALIGNMENT, "one upper half of the addresses");
_Static_assert(OTEL_THREAD_RECORD_HEAD <= RECORD_BYTES, "");

/* The ABI's pointer, one in the process (shared_state.c). */
extern _Thread_local struct otel_thread_record *otel_thread_ctx_v1
    __attribute__((visibility("default"), tls_model("global-dynamic")));

/* What the process context says of it (payload.c). */
extern const char *spanprof_context_schema;

static pthread_mutex_t process_lock = PTHREAD_MUTEX_INITIALIZER;
static enum { PROCESS_NEW, PROCESS_PUBLISHED, PROCESS_REFUSED } process_state;
static int process_error; /* of PROCESS_REFUSED */

/* ---- the process ---- */

struct texts {
    struct spanprof_attribute attributes[SPANPROF_RESOURCE_ATTRIBUTES_MAX];
    size_t n;
    size_t used;
    char memory[SPANPROF_RESOURCE_BYTES_MAX + KEY_MAX + VALUE_MAX + 4];
};

/* Copies one text of at most max bytes behind the others; NULL: it is no such text. */
static const char *texts_copy(struct texts *texts, napi_env env, napi_value value, size_t max)
{
    size_t size, copied;
    char *to = texts->memory + texts->used;
    if (napi_get_value_string_utf8(env, value, NULL, 0, &size) != napi_ok || size > max ||
        size >= sizeof(texts->memory) - texts->used)
        return NULL;
    if (napi_get_value_string_utf8(env, value, to, size + 1, &copied) != napi_ok ||
        copied != size || strlen(to) != size)
        return NULL;
    texts->used += size + 1;
    return to;
}

/* A pair that cannot be published, or for which there is no room, is left out. */
static void texts_add(struct texts *texts, napi_env env, napi_value key, napi_value value)
{
    size_t used = texts->used;
    struct spanprof_attribute *attribute = &texts->attributes[texts->n];
    attribute->key = texts_copy(texts, env, key, KEY_MAX);
    attribute->value = attribute->key ? texts_copy(texts, env, value, VALUE_MAX) : NULL;
    /* Two more bytes a pair are counted by the library than are used here. */
    if (attribute->value && attribute->key[0] &&
        texts->used + 2 * (texts->n + 1) <= SPANPROF_RESOURCE_BYTES_MAX)
        texts->n++;
    else
        texts->used = used;
}

static void texts_read(struct texts *texts, napi_env env, napi_value list)
{
    uint32_t n = 0;
    texts->n = texts->used = 0;
    if (napi_get_array_length(env, list, &n) != napi_ok)
        return;
    for (uint32_t i = 0; i + 1 < n && texts->n < SPANPROF_RESOURCE_ATTRIBUTES_MAX; i += 2) {
        napi_value key, value;
        if (napi_get_element(env, list, i, &key) != napi_ok ||
            napi_get_element(env, list, i + 1, &value) != napi_ok)
            return;
        texts_add(texts, env, key, value);
    }
}

/* The caller holds process_lock. */
static int process_publish(struct instance *instance, const struct texts *texts, bool again)
{
    if (again)
        return instance->is_owner ? spanprof_context_update(texts->attributes, texts->n) : 0;
    if (process_state != PROCESS_NEW)
        return process_error;
    if (instance->frames.slot)
        spanprof_context_schema = OTEL_NODEJS_SCHEMA_DEV;
    process_error = spanprof_context_publish(texts->attributes, texts->n);
    process_state = process_error ? PROCESS_REFUSED : PROCESS_PUBLISHED;
    instance->is_owner = !process_error;
    return process_error;
}

static napi_value make_number(napi_env env, int number)
{
    napi_value value = NULL;
    return napi_create_int32(env, number, &value) == napi_ok ? value : NULL;
}

static struct instance *this_instance(napi_env env)
{
    void *instance = NULL;
    return napi_get_instance_data(env, &instance) == napi_ok ? instance : NULL;
}

static napi_value native_publish(napi_env env, napi_callback_info info)
{
    size_t n = 2;
    napi_value arguments[2];
    bool again = false;
    struct instance *instance = this_instance(env);
    struct texts *texts = malloc(sizeof(*texts));
    int error = -ENOMEM;
    if (texts && instance && napi_get_cb_info(env, info, &n, arguments, NULL, NULL) == napi_ok &&
        napi_get_value_bool(env, arguments[1], &again) == napi_ok) {
        texts_read(texts, env, arguments[0]);
        pthread_mutex_lock(&process_lock);
        error = process_publish(instance, texts, again);
        pthread_mutex_unlock(&process_lock);
    }
    free(texts);
    return make_number(env, error);
}

/* The caller holds process_lock. */
static void process_withdraw(struct instance *instance)
{
    if (!instance->is_owner)
        return;
    (void)spanprof_context_withdraw();
    instance->is_owner = false;
    process_state = PROCESS_REFUSED;
    process_error = -EEXIST;
}

static napi_value native_withdraw(napi_env env, napi_callback_info info)
{
    (void)info;
    struct instance *instance = this_instance(env);
    frames_hide();
    if (instance) {
        pthread_mutex_lock(&process_lock);
        process_withdraw(instance);
        pthread_mutex_unlock(&process_lock);
    }
    return NULL;
}

/* ---- the thread ---- */

static napi_value native_attach(napi_env env, napi_callback_info info)
{
    (void)info;
    struct instance *instance = this_instance(env);
    if (instance)
        otel_thread_ctx_v1 = (struct otel_thread_record *)instance->records[0];
    return NULL;
}

static napi_value native_find_frames(napi_env env, napi_callback_info info)
{
    size_t n = 2;
    napi_value arguments[2], found = NULL;
    struct instance *instance = this_instance(env);
    bool is_found = instance && napi_get_cb_info(env, info, &n, arguments, NULL, NULL) == napi_ok &&
                    n == 2 && frames_find(&instance->frames, env, arguments[0], arguments[1]);
    return napi_get_boolean(env, is_found, &found) == napi_ok ? found : NULL;
}

static napi_value native_show_frames(napi_env env, napi_callback_info info)
{
    (void)info;
    struct instance *instance = this_instance(env);
    if (instance)
        frames_show(&instance->frames);
    return NULL;
}

static bool set_memory(napi_env env, napi_value object, const char *name, void *data, size_t size)
{
    napi_value memory;
    return napi_create_external_arraybuffer(env, data, size, NULL, NULL, &memory) == napi_ok &&
           napi_set_named_property(env, object, name, memory) == napi_ok;
}

/* undefined: this runtime does not take memory from outside. */
static napi_value native_open(napi_env env, napi_callback_info info)
{
    (void)info;
    napi_value object;
    struct instance *instance = this_instance(env);
    if (!instance || napi_create_object(env, &object) != napi_ok ||
        !set_memory(env, object, "pointer", &otel_thread_ctx_v1, sizeof(otel_thread_ctx_v1)) ||
        !set_memory(env, object, "records", instance->records, sizeof(instance->records)))
        return NULL;
    return object;
}

static napi_value native_current(napi_env env, napi_callback_info info)
{
    struct spanprof_context context;
    char text[2 * (16 + 8 + 1) + 3], *at = text;
    napi_value value = NULL;
    (void)info;
    const struct otel_thread_record *record = frames_record();
    if (record) {
        memcpy(context.trace_id, record->trace_id, sizeof(context.trace_id));
        memcpy(context.span_id, record->span_id, sizeof(context.span_id));
        context.trace_flags = record->trace_flags;
    } else {
        spanprof_context_get(&context);
    }
    for (size_t i = 0; i < 16; i++)
        at += sprintf(at, "%02x", context.trace_id[i]);
    *at++ = '-';
    for (size_t i = 0; i < 8; i++)
        at += sprintf(at, "%02x", context.span_id[i]);
    at += sprintf(at, "-%02x", context.trace_flags);
    return napi_create_string_latin1(env, text, (size_t)(at - text), &value) == napi_ok ? value
                                                                                        : NULL;
}

/* ---- set up ---- */

/* The thread's JavaScript has ended; the thread may go on. */
static void instance_close(void *data)
{
    struct instance *instance = data;
    const uint8_t *named = (const uint8_t *)otel_thread_ctx_v1;
    if (named >= instance->records[0] && named <= instance->records[RECORDS - 1])
        otel_thread_ctx_v1 = NULL;
    frames_hide();
    free(instance);
}

static bool set_function(napi_env env, napi_value exports, const char *name, napi_callback function)
{
    napi_value value;
    return napi_create_function(env, name, NAPI_AUTO_LENGTH, function, NULL, &value) == napi_ok &&
           napi_set_named_property(env, exports, name, value) == napi_ok;
}

static struct instance *instance_open(napi_env env)
{
    struct instance *instance = aligned_alloc(RECORDS_ALIGNMENT, RECORDS_ALIGNMENT);
    if (!instance)
        return NULL;
    memset(instance, 0, RECORDS_ALIGNMENT);
    ((struct otel_thread_record *)instance->records[0])->valid = OTEL_THREAD_RECORD_VALID;
    if (napi_set_instance_data(env, instance, NULL, NULL) != napi_ok ||
        napi_add_env_cleanup_hook(env, instance_close, instance) != napi_ok) {
        free(instance);
        return NULL;
    }
    return instance;
}

#ifdef NODE_API_MODULE_GET_API_VERSION /* which NAPI_MODULE_INIT() defines without a declaration   \
                                        */
NAPI_MODULE_EXPORT int32_t NODE_API_MODULE_GET_API_VERSION(void);
#endif

NAPI_MODULE_INIT()
{
    if (!instance_open(env) || !set_function(env, exports, "publish", native_publish) ||
        !set_function(env, exports, "withdraw", native_withdraw) ||
        !set_function(env, exports, "open", native_open) ||
        !set_function(env, exports, "attach", native_attach) ||
        !set_function(env, exports, "findFrames", native_find_frames) ||
        !set_function(env, exports, "showFrames", native_show_frames) ||
        !set_function(env, exports, "current", native_current))
        return NULL;
    return exports;
}
