/* SPDX-License-Identifier: Apache-2.0 */
#include "client/client_ask.h"

int client_pages(struct client *client)
{
    struct client_tree tree;
    if (client->json)
        return client_print_answer(client, "/api/address");
    int error = client_ask_json(client, "/api/address", &tree);
    struct bytes url = error ? BYTES(NULL, 0) : value_text(&tree.root, "url");
    if (!error)
        fprintf(client->out, "%.*s\n", (int)url.len, (const char *)url.data);
    client_tree_close(&tree);
    return error;
}
