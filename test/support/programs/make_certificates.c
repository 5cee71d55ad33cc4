/* SPDX-License-Identifier: Apache-2.0 */
/* make_certificates DIRECTORY: NAME.crt and NAME.key for tests of TLS. */
#include "test/support/net/certificates.h"
#include <stdio.h>
#include <stdlib.h>

static void write_file(const char *directory, const char *name, const char *suffix,
                       const struct buf *text)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s.%s", directory, name, suffix);
    FILE *file = fopen(path, "w");
    if (!file || fwrite(text->data, 1, text->len, file) != text->len || fclose(file))
        abort();
}

static void make(const char *directory, struct certificate *certificate,
                 const struct certificate_wish *wish)
{
    certificate_make(certificate, wish);
    write_file(directory, wish->name, "crt", &certificate->pem);
    write_file(directory, wish->name, "key", &certificate->key);
}

int main(int argc, char **argv)
{
    enum { ALL = 16 };
    struct certificate made[ALL], *ca = &made[0], *other_ca = &made[1], *middle = &made[2];
    const struct certificate_wish wishes[] = {
        {"ca", .ca = true},
        {"other_ca", .ca = true},
        {"middle", ca, .ca = true},
        {"server", ca, .host = "localhost", .address = "127.0.0.1"},
        {"renewed", middle, .host = "localhost", .address = "127.0.0.1"},
        {"rsa", ca, .host = "localhost", .address = "127.0.0.1", .rsa_bits = 2048},
        {"expired", ca, .host = "localhost", .address = "127.0.0.1", .from_hours = -48,
         .to_hours = -1},
        {"elsewhere", ca, .host = "elsewhere.example"},
        {"stranger", other_ca, .host = "localhost", .address = "127.0.0.1"},
        {"client", ca, .for_clients = true},
        {"expired_client", ca, .for_clients = true, .from_hours = -48, .to_hours = -1},
        {"other_client", other_ca, .for_clients = true},
    };
    size_t n = sizeof(wishes) / sizeof(wishes[0]);
    _Static_assert(sizeof(wishes) / sizeof(wishes[0]) <= ALL, "room for all");
    if (argc != 2)
        return 2;
    for (size_t i = 0; i < n; i++)
        make(argv[1], &made[i], &wishes[i]);
    for (size_t i = 0; i < n; i++)
        certificate_free(&made[i]);
    return 0;
}
