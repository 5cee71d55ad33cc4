/* SPDX-License-Identifier: Apache-2.0 */
/*
 * protobuf-c recurses as deep as the message nests and allocates as much as the message demands. So
 * the message is checked first, with an explicit stack and the same descriptors. The decoder then
 * works in an arena, where freeing is a no-op and the request's limit applies.
 */
#include "proto/pb.h"
#include "proto/wire.h"

static const enum wire_type wire_types[] = {
    [PROTOBUF_C_TYPE_INT32] = WIRE_VARINT,     [PROTOBUF_C_TYPE_SINT32] = WIRE_VARINT,
    [PROTOBUF_C_TYPE_SFIXED32] = WIRE_FIXED32, [PROTOBUF_C_TYPE_INT64] = WIRE_VARINT,
    [PROTOBUF_C_TYPE_SINT64] = WIRE_VARINT,    [PROTOBUF_C_TYPE_SFIXED64] = WIRE_FIXED64,
    [PROTOBUF_C_TYPE_UINT32] = WIRE_VARINT,    [PROTOBUF_C_TYPE_FIXED32] = WIRE_FIXED32,
    [PROTOBUF_C_TYPE_UINT64] = WIRE_VARINT,    [PROTOBUF_C_TYPE_FIXED64] = WIRE_FIXED64,
    [PROTOBUF_C_TYPE_FLOAT] = WIRE_FIXED32,    [PROTOBUF_C_TYPE_DOUBLE] = WIRE_FIXED64,
    [PROTOBUF_C_TYPE_BOOL] = WIRE_VARINT,      [PROTOBUF_C_TYPE_ENUM] = WIRE_VARINT,
    [PROTOBUF_C_TYPE_STRING] = WIRE_BYTES,     [PROTOBUF_C_TYPE_BYTES] = WIRE_BYTES,
    [PROTOBUF_C_TYPE_MESSAGE] = WIRE_BYTES,
};

struct frame {
    struct wire_reader reader;
    const ProtobufCMessageDescriptor *descriptor;
};

/* Nearly all messages number their fields from 1 without gaps: try that place first. */
static inline const ProtobufCFieldDescriptor *
find_field(const ProtobufCMessageDescriptor *descriptor, uint32_t number)
{
    const ProtobufCFieldDescriptor *fields = descriptor->fields;
    if (number <= descriptor->n_fields && fields[number - 1].id == number)
        return &fields[number - 1];
    unsigned low = 0, high = descriptor->n_fields;
    while (low < high) {
        unsigned middle = (low + high) / 2;
        if (fields[middle].id == number)
            return &fields[middle];
        if (fields[middle].id < number)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

static inline uint64_t pb_load64(const uint8_t *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof(word));
    return word;
}

static inline uint32_t pb_load32(const uint8_t *at)
{
    uint32_t word;
    memcpy(&word, at, sizeof(word));
    return word;
}

/* Bits of all bytes together, by words that overlap at the end: few branches, for texts are short
 * and of all lengths. */
static inline uint64_t bits_of(struct bytes text)
{
    const uint8_t *at = text.data, *end = at + text.len; /* never NULL: it is part of a message */
    if (text.len >= 16) {
        uint64_t bits = pb_load64(end - 16) | pb_load64(end - 8);
        for (; at < end - 16; at += 16)
            bits |= pb_load64(at) | pb_load64(at + 8);
        return bits;
    }
    if (text.len >= 8)
        return pb_load64(at) | pb_load64(end - 8);
    if (text.len >= 4)
        return pb_load32(at) | pb_load32(end - 4);
    return text.len ? at[0] | at[text.len / 2] | end[-1] : 0;
}

/* Nearly all text is ASCII; the rest goes by the book. */
static inline bool utf8_valid(struct bytes text)
{
    return !(bits_of(text) & UINT64_C(0x8080808080808080)) || bytes_utf8_valid(text);
}

static bool packed_valid(enum wire_type element, struct bytes list)
{
    if (element == WIRE_FIXED64)
        return list.len % 8 == 0;
    if (element == WIRE_FIXED32)
        return list.len % 4 == 0;
    struct wire_reader reader = wire_read(list);
    uint64_t value;
    while (reader.at < reader.end)
        if (!wire_next_varint(&reader, &value))
            return false;
    return true;
}

/* A known field other than a message. */
static inline bool scalar_valid(const ProtobufCFieldDescriptor *known,
                                const struct wire_field *field)
{
    enum wire_type wanted = wire_types[known->type];
    if (field->type != wanted)
        return known->label == PROTOBUF_C_LABEL_REPEATED && field->type == WIRE_BYTES &&
               packed_valid(wanted, field->bytes);
    return known->type != PROTOBUF_C_TYPE_STRING || utf8_valid(field->bytes);
}

int pb_check(const ProtobufCMessageDescriptor *descriptor, struct bytes message)
{
    struct frame stack[PB_DEPTH_MAX - 1]; /* the messages around the current one */
    struct frame now = {wire_read(message), descriptor};
    unsigned depth = 0;
    uint64_t decoded = 0, limit = PB_DECODED_FREE + PB_DECODED_FACTOR * (uint64_t)message.len;
    for (;;) {
        struct wire_field field;
        int got = wire_next(&now.reader, &field);
        if (got == WIRE_MALFORMED)
            return PB_MALFORMED;
        if (got == WIRE_END) {
            if (depth == 0)
                return PB_OK;
            now = stack[--depth];
            continue;
        }
        const ProtobufCFieldDescriptor *known = find_field(now.descriptor, field.number);
        if (!known)
            continue;
        if (known->type != PROTOBUF_C_TYPE_MESSAGE) {
            if (!scalar_valid(known, &field))
                return PB_MALFORMED;
            continue;
        }
        if (field.type != WIRE_BYTES || depth == PB_DEPTH_MAX - 1)
            return PB_MALFORMED;
        const ProtobufCMessageDescriptor *inner = known->descriptor;
        decoded += inner->sizeof_message;
        if (decoded > limit)
            return PB_TOO_BIG;
        stack[depth++] = now;
        now = (struct frame){wire_read(field.bytes), inner};
    }
}

struct decoder_memory {
    struct arena *arena;
    bool refused;
};

static void *pb_allocate(void *context, size_t size)
{
    struct decoder_memory *memory = context;
    void *got = arena_alloc(memory->arena, size);
    memory->refused |= !got;
    return got;
}

static void pb_leave(void *context, void *pointer)
{
    (void)context;
    (void)pointer;
}

int pb_unpack(const ProtobufCMessageDescriptor *descriptor, struct bytes bytes, struct arena *arena,
              ProtobufCMessage **message)
{
    *message = NULL;
    int outcome = pb_check(descriptor, bytes);
    if (outcome)
        return outcome;
    struct decoder_memory memory = {.arena = arena};
    ProtobufCAllocator allocator = {pb_allocate, pb_leave, &memory};
    *message = protobuf_c_message_unpack(descriptor, &allocator, bytes.len, bytes.data);
    if (*message)
        return PB_OK;
    return memory.refused ? PB_TOO_BIG : PB_MALFORMED;
}
