/* A network for nodes, whose links lose every seventh datagram. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "weir_transport.h"

#define DELAY_NS 100000

static uint64_t lost, sent;

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
        fprintf(stderr, "%s: %lld: %s\n", what, (long long) status, weir_error());
        exit(1);
    }
    return status;
}

/* What is next happens to the nodes: a datagram, a message, or timers. */
static inline void
step(struct weir_node **nodes, uint32_t n_nodes, uint64_t *now_ns)
{
    uint64_t next_ns = WEIR_NEVER;
    struct weir_output output;

    for (uint32_t i = 0; i < n_nodes; i++) {
        while (check("poll", weir_node_poll_transmit(nodes[i], *now_ns, &output))) {
            if (output.kind != WEIR_DATAGRAM || ++sent % 7) {
                later(*now_ns + DELAY_NS, i, &output);
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
        *now_ns = e->at_ns > *now_ns ? e->at_ns : *now_ns;
        if (e->what.kind == WEIR_DATAGRAM) {
            check("datagram", weir_node_handle_datagram(nodes[e->to], *now_ns, e->from, e->what.ecn,
                                                        e->what.bytes, e->what.n_bytes));
        } else if (e->what.kind == WEIR_CONTROL) {
            check("control", weir_node_handle_control(nodes[e->to], *now_ns, e->from,
                                                      e->what.bytes, e->what.n_bytes));
        } else {
            check("closed", weir_node_handle_closed(nodes[e->to], *now_ns, e->from));
        }
        free((void *) e->what.bytes);
        free(e);
    } else {
        *now_ns = next_ns > *now_ns ? next_ns : *now_ns;
        for (uint32_t i = 0; i < n_nodes; i++) {
            if (weir_node_poll_timeout(nodes[i]) <= *now_ns) {
                check("timeout", weir_node_handle_timeout(nodes[i], *now_ns));
            }
        }
    }
}
