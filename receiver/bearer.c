/* SPDX-License-Identifier: Apache-2.0 */
/* Every token is compared to its end, so the time says nothing about how much of one is right. */
#include "receiver/bearer.h"
#include <errno.h>
#include <stdlib.h>
#include <strings.h>

struct token {
    size_t len;
    uint8_t text[BEARER_TOKEN_MAX];
};

struct tokens {
    size_t n;
    struct token list[BEARER_TOKENS_MAX];
};

struct bearer {
    const char *scheme;
    struct tokens tokens;
};

int bearer_open(const char *scheme, struct bearer **result)
{
    struct bearer *bearer = calloc(1, sizeof(*bearer));
    if (!bearer)
        return -ENOMEM;
    bearer->scheme = scheme;
    *result = bearer;
    return 0;
}

void bearer_close(struct bearer *bearer)
{
    if (bearer)
        explicit_bzero(bearer, sizeof(*bearer));
    free(bearer);
}

static bool is_token(struct bytes line)
{
    for (size_t i = 0; i < line.len; i++)
        if (line.data[i] <= ' ' || line.data[i] > '~')
            return false;
    return line.len >= BEARER_TOKEN_MIN && line.len <= BEARER_TOKEN_MAX;
}

static int tokens_add(struct tokens *tokens, struct bytes line)
{
    if (line.len && line.data[line.len - 1] == '\r')
        line.len--;
    if (!line.len)
        return 0;
    if (!is_token(line) || tokens->n == BEARER_TOKENS_MAX)
        return -EINVAL;
    struct token *token = &tokens->list[tokens->n++];
    token->len = line.len;
    memcpy(token->text, line.data, line.len);
    return 0;
}

int bearer_set(struct bearer *bearer, struct bytes lines)
{
    struct tokens tokens = {.n = 0};
    int error = 0;
    while (lines.len && !error) {
        const uint8_t *end = memchr(lines.data, '\n', lines.len);
        size_t len = end ? (size_t)(end - lines.data) : lines.len;
        error = tokens_add(&tokens, BYTES(lines.data, len));
        lines = bytes_skip(lines, end ? len + 1 : len);
    }
    if (!error && !tokens.n)
        error = -EINVAL;
    if (!error)
        bearer->tokens = tokens;
    explicit_bzero(&tokens, sizeof(tokens));
    return error;
}

/* given.len > 0 */
static bool token_is(const struct token *token, struct bytes given)
{
    unsigned difference = given.len != token->len;
    for (size_t i = 0; i < BEARER_TOKEN_MAX; i++)
        difference |= i < token->len ? token->text[i] ^ given.data[i % given.len] : 0u;
    return !difference;
}

bool bearer_allows(const struct bearer *bearer, struct bytes authorization)
{
    size_t len = strlen(bearer->scheme);
    bool allowed = false;
    if (authorization.len <= len + 1 ||
        strncasecmp((const char *)authorization.data, bearer->scheme, len) != 0 ||
        authorization.data[len] != ' ')
        return false;
    struct bytes given = bytes_skip(authorization, len + 1);
    for (size_t i = 0; i < bearer->tokens.n; i++)
        allowed |= token_is(&bearer->tokens.list[i], given);
    return allowed;
}
