/* A client and two servers of LTTP over the C interface. */
#include "network.h"

#define N_NODES 3

int
main(void)
{
    static uint8_t object[100000];
    struct weir_node *nodes[N_NODES];
    struct weir_lttp_config config;
    uint32_t servers[] = { 1, 2 };
    uint64_t now_ns = 0, since_ns = 0, useful, late, missing;
    int complete = 0;

    for (size_t i = 0; i < sizeof object; i++) {
        object[i] = i * i >> 3;
    }
    weir_lttp_defaults(&config);
    nodes[0] = weir_lttp_client_new(&config, servers, 2);
    for (int i = 1; i < N_NODES; i++) {
        nodes[i] = weir_lttp_server_new(config.secure, i);
        check("put", weir_lttp_server_put(nodes[i], "object", object, sizeof object));
        check("fetch", weir_lttp_client_fetch(nodes[0], i - 1, "object"));
    }
    if (weir_lttp_client_fetch(nodes[0], 2, "object") != WEIR_EINVAL
        || weir_lttp_client_fetch(nodes[1], 0, "object") != WEIR_EINVAL
        || weir_lttp_client_new(NULL, servers, 2)
        || weir_node_handle_timeout(NULL, 0) != WEIR_EINVAL) {
        fprintf(stderr, "an argument that cannot be was taken\n");
        return 1;
    }
    while (complete < 2 && now_ns < 10000000000) {
        step(nodes, N_NODES, &now_ns);
        complete = (weir_lttp_client_state(nodes[0], 0, &since_ns) == WEIR_COMPLETE)
                   + (weir_lttp_client_state(nodes[0], 1, &since_ns) == WEIR_COMPLETE);
    }
    check("symbols", weir_lttp_client_symbols(nodes[0], 0, &useful, &late, &missing));
    printf("%d complete after %llu us, %llu symbols from the first, %llu datagrams lost\n", complete,
           (unsigned long long) since_ns / 1000, (unsigned long long) useful, (unsigned long long) lost);
    for (int i = 0; i < N_NODES; i++) {
        weir_node_free(nodes[i]);
    }
    weir_node_free(NULL);
    return complete == 2 && lost > 0 && useful >= 98 ? 0 : 1;
}
