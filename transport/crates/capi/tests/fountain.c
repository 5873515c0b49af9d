/* A sender and a receiver of DFCP over the C interface. */
#include "network.h"

#define RATE_BPS 1e8

int
main(void)
{
    static uint8_t object[3000000];
    struct weir_dfcp_config config, bad;
    struct weir_node *nodes[2];
    const uint8_t *got = NULL;
    uint64_t now_ns = 0, since_ns = 0, symbols, repairs;
    size_t n_got = 0;

    for (size_t i = 0; i < sizeof object; i++) {
        object[i] = i * i >> 3;
    }
    weir_dfcp_defaults(&config);
    config.fallback = false;
    nodes[0] = weir_dfcp_sender_new(&config, 1, 42);
    nodes[1] = weir_dfcp_receiver_new(config.secure);
    check("send", weir_dfcp_sender_send(nodes[0], "object", object, sizeof object));
    check("rate", weir_dfcp_sender_tell_rate(nodes[0], 0, RATE_BPS));
    bad = config;
    bad.block_symbols = 0;
    if (weir_dfcp_sender_new(&bad, 1, 42)
        || weir_dfcp_sender_send(nodes[1], "object", object, 1) != WEIR_EINVAL
        || weir_dfcp_sender_tell_rate(nodes[0], 1, -1) != WEIR_EINVAL
        || weir_dfcp_sender_state(nodes[0], 1, NULL) != WEIR_EINVAL
        || weir_dfcp_receiver_object(nodes[1], "object", &got, &n_got) != WEIR_EINVAL) {
        fprintf(stderr, "an argument that cannot be was taken\n");
        return 1;
    }
    while (weir_dfcp_sender_state(nodes[0], 0, &since_ns) == WEIR_PENDING && now_ns < 10000000000) {
        step(nodes, 2, &now_ns);
    }
    check("symbols", weir_dfcp_sender_symbols(nodes[0], &symbols, &repairs));
    check("object", weir_dfcp_receiver_object(nodes[1], "object", &got, &n_got));
    printf("stored after %llu us, %llu symbols, %llu of them repairs, %llu datagrams lost\n",
           (unsigned long long) since_ns / 1000, (unsigned long long) symbols, (unsigned long long) repairs,
           (unsigned long long) lost);
    weir_node_free(nodes[0]);
    if (!since_ns || n_got != sizeof object || memcmp(got, object, n_got) || !lost || !repairs) {
        return 1;
    }
    weir_node_free(nodes[1]);
    /* As fast as it was told, and not faster: a fountain makes up for what is lost. */
    return since_ns > 8e9 * sizeof object / RATE_BPS && since_ns < 1.5 * 8e9 * sizeof object / RATE_BPS ? 0 : 1;
}
