/* A client and two servers over the C interface, with a link that loses every seventh datagram. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "weir_transport.h"

#define N_NODES 3
#define DELAY_NS 100000

struct event {
    uint64_t at_ns;
    uint32_t from, to;
    struct weir_output what;
    struct event *next;
};

static struct event *events;

static void
later(uint64_t at_ns, uint32_t from, const struct weir_output *what)
{
    struct event *e = malloc(sizeof *e), **place = &events;
    uint8_t *bytes = malloc(what->n_bytes + 1);

    memcpy(bytes, what->bytes, what->n_bytes);
    *e = (struct event) { at_ns, from, what->to, *what, NULL };
    e->what.bytes = bytes;
    while (*place && (*place)->at_ns <= at_ns) {
        place = &(*place)->next;
    }
    e->next = *place;
    *place = e;
}

static int
check(const char *what, int64_t status)
{
    if (status < 0) {
        fprintf(stderr, "%s: %lld\n", what, (long long) status);
        exit(1);
    }
    return status;
}

int
main(void)
{
    static uint8_t object[100000];
    struct weir_node *nodes[N_NODES];
    struct weir_lttp_config config;
    uint32_t servers[] = { 1, 2 };
    uint64_t now_ns = 0, since_ns = 0, useful, late, missing, lost = 0, sent = 0;
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
        struct weir_output output;
        uint64_t next_ns = WEIR_NEVER;

        for (uint32_t i = 0; i < N_NODES; i++) {
            while (check("poll", weir_node_poll_transmit(nodes[i], now_ns, &output))) {
                if (output.kind != WEIR_DATAGRAM || ++sent % 7) {
                    later(now_ns + DELAY_NS, i, &output);
                } else {
                    lost++;
                }
            }
            if (weir_node_poll_timeout(nodes[i]) < next_ns) {
                next_ns = weir_node_poll_timeout(nodes[i]);
            }
        }
        if (events && events->at_ns <= next_ns) {
            struct event *e = events;

            events = e->next;
            now_ns = e->at_ns > now_ns ? e->at_ns : now_ns;
            if (e->what.kind == WEIR_DATAGRAM) {
                check("datagram", weir_node_handle_datagram(nodes[e->to], now_ns, e->from, false,
                                                            e->what.bytes, e->what.n_bytes));
            } else if (e->what.kind == WEIR_CONTROL) {
                check("control", weir_node_handle_control(nodes[e->to], now_ns, e->from,
                                                          e->what.bytes, e->what.n_bytes));
            } else {
                check("closed", weir_node_handle_closed(nodes[e->to], now_ns, e->from));
            }
            free((void *) e->what.bytes);
            free(e);
        } else {
            now_ns = next_ns > now_ns ? next_ns : now_ns;
            for (int i = 0; i < N_NODES; i++) {
                if (weir_node_poll_timeout(nodes[i]) <= now_ns) {
                    check("timeout", weir_node_handle_timeout(nodes[i], now_ns));
                }
            }
        }
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
