/* Weir's coded transports as nodes for a simulator: no socket, no clock, no thread.
 *
 * A node is told what happens (weir_node_handle_*) and then asked what it wants done (weir_node_poll_transmit, until
 * it returns 0), and when it wants to be called again (weir_node_poll_timeout). Nodes are named by numbers that the
 * simulator chooses. Times are nanoseconds of simulated time and must not go back. One thread at a time may use a node.
 *
 * Functions that can fail return a negative number: WEIR_EINVAL for an argument that cannot be, WEIR_EPANIC if there
 * is a fault in the library; the node must not be used after that, but for freeing it. */
#ifndef WEIR_TRANSPORT_H
#define WEIR_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WEIR_EINVAL (-1)
#define WEIR_EPANIC (-2)
#define WEIR_NEVER UINT64_MAX

struct weir_node;

/* How a client of LTTP behaves; weir_lttp_defaults fills in what fountain does. */
struct weir_lttp_config {
    uint16_t symbol_bytes;      /* 16 to 8960. */
    uint16_t block_symbols;     /* k: 1 to 8192. */
    bool independent;           /* The paper's draw of neighbours, not ours. */
    bool credits;               /* The client's window; without, the paper's mode. */
    bool secure;                /* Datagrams are sealed. Server and client must agree. */
    uint64_t window_floor_bytes;
    uint64_t window_ceiling_bytes;
};

enum weir_state {
    WEIR_PENDING = 0,
    WEIR_COMPLETE = 1,
    WEIR_FAILED = 2,
};

enum weir_output_kind {
    WEIR_DATAGRAM = 1,          /* Send it over the links. */
    WEIR_CONTROL = 2,           /* Send it reliably and in order, as TCP does. */
    WEIR_CLOSE = 3,             /* Close the reliable channel after what was sent. */
};

/* The ECN field of a datagram's IP header (RFC 3168), with the field's values. */
enum weir_ecn {
    WEIR_NOT_ECT = 0,
    WEIR_ECT_1 = 1,
    WEIR_ECT_0 = 2,             /* A congested queue may mark it instead of dropping it. */
    WEIR_CE = 3,                /* It has been marked. */
};

struct weir_output {
    enum weir_output_kind kind;
    enum weir_ecn ecn;          /* Of a datagram. */
    uint32_t to;
    const uint8_t *bytes;       /* Until the next call with this node. */
    size_t n_bytes;             /* UDP payload, or control bytes. */
};

void weir_lttp_defaults(struct weir_lttp_config *);

/* A client of these servers; NULL for a configuration that cannot be. */
struct weir_node *weir_lttp_client_new(const struct weir_lttp_config *, const uint32_t *servers, size_t n_servers);
/* Fetches the object at 'path' (UTF-8, with a zero) from server number 'server' of those. Returns the fetch's number. */
int64_t weir_lttp_client_fetch(struct weir_node *, size_t server, const char *path);
/* An enum weir_state. '*since_ns' is set when it is complete, if not NULL. */
int weir_lttp_client_state(const struct weir_node *, uint64_t fetch, uint64_t *since_ns);
/* Symbols received from a server: of use, and too late to be. */
int weir_lttp_client_symbols(const struct weir_node *, size_t server, uint64_t *useful, uint64_t *late, uint64_t *missing);

/* A server; 'seed' is where the search for the code's seeds begins. */
struct weir_node *weir_lttp_server_new(bool secure, uint64_t seed);
/* Puts an object of these bytes at 'path'. */
int weir_lttp_server_put(struct weir_node *, const char *path, const uint8_t *bytes, size_t n_bytes);

/* How a sender of DFCP behaves; weir_dfcp_defaults fills in what fountain does. */
struct weir_dfcp_config {
    uint16_t symbol_bytes;      /* 16 to 8960. */
    uint16_t block_symbols;     /* k: 1 to 8192. */
    bool secure;                /* Datagrams are sealed. Sender and receiver must agree. */
    bool fallback;              /* TFRC's rate where none is told; without, nothing is sent then. */
    uint64_t seed;              /* Where the search for the code's seeds begins. */
};

void weir_dfcp_defaults(struct weir_dfcp_config *);

/* A sender to the node 'receiver', which knows its connection by this number; NULL for a configuration that cannot be.
 * It begins at time 0. All it has to say goes as datagrams. */
struct weir_node *weir_dfcp_sender_new(const struct weir_dfcp_config *, uint32_t receiver, uint32_t connection);
/* Sends these bytes as the object at 'path' (UTF-8, with a zero). Returns the object's number. */
int64_t weir_dfcp_sender_send(struct weir_node *, const char *path, const uint8_t *bytes, size_t n_bytes);
/* From 'at_ns' on it may send so many bit/s of whole Ethernet frames; later than it was told before. */
int weir_dfcp_sender_tell_rate(struct weir_node *, uint64_t at_ns, double bps);
/* An enum weir_state. '*since_ns' is set when the object is stored, if not NULL. */
int weir_dfcp_sender_state(const struct weir_node *, uint64_t object, uint64_t *since_ns);
/* Symbols sent, and those of them beyond the first pass of their block. */
int weir_dfcp_sender_symbols(const struct weir_node *, uint64_t *symbols, uint64_t *repairs);

/* A receiver of any number of senders, no two of which send the same path. */
struct weir_node *weir_dfcp_receiver_new(bool secure);
/* What has come of the object at 'path', zeros where nothing has: valid until the next call with this node. */
int weir_dfcp_receiver_object(const struct weir_node *, const char *path, const uint8_t **bytes, size_t *n_bytes);

int weir_node_handle_datagram(struct weir_node *, uint64_t now_ns, uint32_t from, enum weir_ecn ecn,
                              const uint8_t *bytes, size_t n_bytes);
int weir_node_handle_control(struct weir_node *, uint64_t now_ns, uint32_t from, const uint8_t *bytes, size_t n_bytes);
int weir_node_handle_closed(struct weir_node *, uint64_t now_ns, uint32_t from);
int weir_node_handle_timeout(struct weir_node *, uint64_t now_ns);
/* When to call weir_node_handle_timeout, or WEIR_NEVER. */
uint64_t weir_node_poll_timeout(const struct weir_node *);
/* 1 and the next output, or 0. */
int weir_node_poll_transmit(struct weir_node *, uint64_t now_ns, struct weir_output *);
void weir_node_free(struct weir_node *);

#ifdef __cplusplus
}
#endif

#endif
