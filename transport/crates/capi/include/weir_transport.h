/* Weir's coded transports for simulators and embeddings: no socket, no clock, no thread.
 *
 * LTTP and DFCP are nodes of a simulation (struct weir_node), ATP is an endpoint with its connections (struct weir_atp, below).
 *
 * A node is told what happens (weir_node_handle_*) and then asked what it wants done (weir_node_poll_transmit, until
 * it returns 0), and when it wants to be called again (weir_node_poll_timeout). Nodes are named by numbers that the
 * simulator chooses. Times are nanoseconds of simulated time and must not go back. One thread at a time may use a node.
 *
 * Functions that can fail return a negative number: WEIR_EINVAL for an argument that cannot be, WEIR_EPANIC if there
 * is a fault in the library; the node must not be used after that, but for freeing it. Functions that make something
 * return NULL instead. weir_error() has words for both. */
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
/* Of ATP only: */
#define WEIR_ECLOSED (-3)       /* The connection, or the stream, is over for this, or never was. */
#define WEIR_ESTOPPED (-4)      /* The other side wants no more of the stream. */
#define WEIR_ERESET (-5)        /* The other side has given the stream up. */
#define WEIR_ENOROOM (-6)       /* There may be no more connections, or streams, at present. */
#define WEIR_EAGAIN (-7)        /* Nothing has come yet. That is no failure: weir_error() does not change. */
#define WEIR_NEVER UINT64_MAX

/* What was wrong with the last call of this thread that has failed, for a person: one line of UTF-8; "" if none has.
 * Valid until the next call that fails in this thread. */
const char *weir_error(void);

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

/* ATP: connections with reliable streams of bytes both ways.
 *
 * An endpoint has what a UDP socket would: all connections, to it and from it. The program brings it datagrams
 * (weir_atp_handle_datagram), the time (weir_atp_handle_timeout), and what it wants of connections and streams. After
 * that it takes what has happened (weir_atp_poll_event, until it returns 0), sends what is to be sent
 * (weir_atp_poll_transmit, until it returns 0), takes what that has made happen (once more weir_atp_poll_event), and
 * asks when to come again (weir_atp_poll_timeout). What is written is sent by the next weir_atp_poll_transmit, so
 * each change is to be followed by one: weir_atp_poll_timeout returns 0 until then.
 *
 * Times are nanoseconds since an epoch that the program chooses; one that is before that of an earlier call is
 * refused. One thread at a time may use an endpoint. What functions return pointers to is the endpoint's, and valid
 * until the next call with it, except for weir_atp_poll_timeout. What is handed to functions is the caller's, and
 * copied where it is kept.
 *
 * Connections are numbered by their endpoint, and streams by their connection: both ends know a stream by the same
 * number, which is even if the client has opened it. Functions of connections and streams fail with WEIR_ECLOSED if
 * these are over.
 *
 * Everything is encrypted: TLS 1.3, with randomness of the system's. So runs of a simulation differ in bytes, and
 * a little in lengths. */
struct weir_atp;

/* Who an endpoint is: a certificate and its private key. Others know it by the certificate's fingerprint: SHA-256
 * of its DER. */
struct weir_identity;

#define WEIR_FINGERPRINT_BYTES 32

/* From a certificate (PEM, perhaps with a chain after it; or DER) and its key (PEM or DER: PKCS #8, PKCS #1 or SEC
 * 1). Both may be the same file of PEM. NULL if they cannot be read, or do not fit together. */
struct weir_identity *weir_identity_new(const uint8_t *certificate, size_t n_certificate_bytes,
                                        const uint8_t *key, size_t n_key_bytes);
/* A new one with a certificate that signs itself. NULL if the system gives no randomness. */
struct weir_identity *weir_identity_generate(void);
int weir_identity_fingerprint(const struct weir_identity *, uint8_t fingerprint[WEIR_FINGERPRINT_BYTES]);
/* NULL is let be. Endpoints keep what they need of it. */
void weir_identity_free(struct weir_identity *);

/* How an endpoint of ATP behaves; weir_atp_defaults fills in what fountain does. Both ends need not have the same. */
struct weir_atp_config {
    /* Random bytes, known to nobody else: tokens for addresses, and the numbers by which datagrams name
     * connections, come of them. Not all zeros. weir_atp_defaults takes them from the system. Two endpoints must
     * not have the same. */
    uint8_t key[32];
    uint16_t datagram_bytes;    /* The longest UDP payload to send: 512 to 65507. */
    bool parity;                /* Parity is sent; without, every loss has to be asked for. */
    bool ecn;                   /* Datagrams are sent ECN-capable where the path carries that. */
    bool early;                 /* Data goes with the first datagram to servers that are known from before (0-RTT),
                                 * or is taken from such. Whoever records it can send it again: for requests that
                                 * may be repeated. */
    uint64_t window_bytes;      /* What the peer may send before it is read, of all streams: at the beginning, 1
                                 * MiB at least, */
    uint64_t max_window_bytes;  /* and at most. */
    uint64_t max_stream_window_bytes; /* The same of one stream at most: 64 KiB at least. */
    uint64_t send_bytes;        /* What is written and not acknowledged, of all streams at most, */
    uint64_t stream_send_bytes; /* and of one. */
    uint64_t max_streams;       /* Streams that the peer may have open at a time: 64 at least. */
    uint64_t idle_ns;           /* A peer that has not been heard for so long is gone. */
    uint64_t opening_ns;        /* A connection that is not made within this is given up. */
    uint64_t connections;       /* Connections at a time, at most, */
    uint64_t connections_of_an_address; /* and with one address (of IPv6: one network of 64 bits). */
    uint64_t memory_bytes;      /* What all connections together may hold: 1 MiB at least. One address gets an
                                 * eighth of that, the next one an eighth of the rest. */
};

/* Fails only for NULL, or if the system gives no randomness. */
int weir_atp_defaults(struct weir_atp_config *);

/* An endpoint that others can connect to, and that can connect to others. 'clients' are the fingerprints of those
 * that may, one after the other; with 'n_clients' 0, everyone may. NULL for a configuration that cannot be. */
struct weir_atp *weir_atp_server_new(const struct weir_atp_config *, const struct weir_identity *,
                                     const uint8_t *clients, size_t n_clients);
/* An endpoint that only connects to others. It shows its identity to servers that ask who it is; NULL if it has
 * none. */
struct weir_atp *weir_atp_client_new(const struct weir_atp_config *, const struct weir_identity *);
/* Ends an endpoint at once; NULL is let be. Peers are not told, and wait until they give up: see weir_atp_leave. */
void weir_atp_free(struct weir_atp *);

/* An address of UDP. It has no padding: equal addresses have equal bytes, if what does not matter is 0. */
struct weir_address {
    uint16_t family;            /* 4 or 6: IPv4 or IPv6. */
    uint16_t port;              /* As a number, in the byte order of the machine. */
    uint32_t scope;             /* Of a link-local address of IPv6: which link. Otherwise 0. */
    uint8_t ip[16];             /* As in the IP header: 4 bytes of IPv4, or 16 of IPv6. */
};

/* Begins to connect to the server at this address, whose certificate has this fingerprint, and returns the
 * connection's number. WEIR_ATP_CONNECTED follows, or WEIR_ATP_CLOSED. 'name' is what the server is told that it
 * is looked for as, a host's name or an address; NULL for the address. It may be written to at once. WEIR_ENOROOM:
 * there are as many connections as may be. WEIR_ECLOSED: after weir_atp_close_all or weir_atp_leave. */
int64_t weir_atp_connect(struct weir_atp *, uint64_t now_ns, const struct weir_address *server, const char *name,
                         const uint8_t fingerprint[WEIR_FINGERPRINT_BYTES]);
/* Where the other end of a connection is. */
int weir_atp_remote(const struct weir_atp *, uint64_t connection, struct weir_address *remote);
/* 1 and the fingerprint of the certificate that the peer has shown; 0 if it has shown none, or none yet. */
int weir_atp_peer_fingerprint(const struct weir_atp *, uint64_t connection, uint8_t fingerprint[WEIR_FINGERPRINT_BYTES]);

/* The following end connections. 'code' and 'reason' (UTF-8, with a zero) are the application's, and told to the
 * peer: a code below 2^32, and of the reason 512 bytes. WEIR_ATP_CLOSED follows at both ends. */

/* At once. Streams that are open are lost, at both ends but for what has come to the peer whole. */
int weir_atp_close(struct weir_atp *, uint64_t now_ns, uint64_t connection, uint64_t code, const char *reason);
/* When the peer has got all that was written. Streams that are not finished are given up. */
int weir_atp_close_when_done(struct weir_atp *, uint64_t now_ns, uint64_t connection, uint64_t code, const char *reason);
/* The same, and what has come is not going to be read. After WEIR_ATP_CLOSED, this frees what the connection still
 * holds; WEIR_ECLOSED if that is nothing. */
int weir_atp_forget(struct weir_atp *, uint64_t now_ns, uint64_t connection, uint64_t code, const char *reason);
/* All connections, at once. No more are made or taken. */
int weir_atp_close_all(struct weir_atp *, uint64_t now_ns, uint64_t code, const char *reason);
/* All connections, each when its peer has got all that was written. No more are made or taken. It is done when
 * weir_atp_endpoint_counters tells of 0 connections. */
int weir_atp_leave(struct weir_atp *, uint64_t now_ns, uint64_t code, const char *reason);

/* Opens a stream, for both directions, and returns its number. WEIR_ENOROOM: the peer lets no more be open, and
 * WEIR_ATP_MAY_OPEN follows when it does; or there is no memory. A stream is over when both directions are: this
 * end's when it is finished, or given up, and the peer knows; the peer's when its end has been read, or it was
 * stopped. */
int64_t weir_atp_open(struct weir_atp *, uint64_t connection);
/* Tells the peer of a stream that was opened here, before anything is written: where the peer is to speak first. */
int weir_atp_announce(struct weir_atp *, uint64_t connection, uint64_t stream);
/* Writes to a stream. Returns for how many of the bytes there was room, 0 to 'n_bytes'; if not for all,
 * WEIR_ATP_WRITABLE follows when there is. WEIR_ESTOPPED: the peer wants no more. WEIR_ECLOSED: it was finished,
 * or given up, or never was. */
int64_t weir_atp_write(struct weir_atp *, uint64_t now_ns, uint64_t connection, uint64_t stream,
                       const uint8_t *bytes, size_t n_bytes);
/* A stream ends with what was written. What the peer sends on it can still be read. Fails as weir_atp_write does. */
int weir_atp_finish(struct weir_atp *, uint64_t connection, uint64_t stream);
/* Reads what has come of a stream, in order. Returns how many bytes were read, 1 to 'n_bytes'; 0 if the stream has
 * ended and all of it was read; WEIR_EAGAIN if nothing has come: WEIR_ATP_READABLE follows when something has.
 * 'n_bytes' is 1 at least. WEIR_ERESET: the peer has given the stream up, for the reason '*code' of its
 * application, if 'code' is not NULL. The end, or WEIR_ERESET, is told once: after that the stream may be over,
 * and reading it WEIR_ECLOSED. */
int64_t weir_atp_read(struct weir_atp *, uint64_t now_ns, uint64_t connection, uint64_t stream,
                      uint8_t *bytes, size_t n_bytes, uint64_t *code);
/* Gives up writing a stream, for a reason of the application below 2^32. What the peer has not read is lost.
 * Nothing happens if the peer has got all, or it was given up before. */
int weir_atp_reset(struct weir_atp *, uint64_t connection, uint64_t stream, uint64_t code);
/* Wants no more of a stream, for a reason of the application below 2^32: what comes of it is thrown away, and the
 * peer is told. Nothing happens if all of it was read. */
int weir_atp_stop(struct weir_atp *, uint64_t connection, uint64_t stream, uint64_t code);

enum weir_atp_event_kind {
    WEIR_ATP_CONNECTED = 1,     /* The handshake is through: the peer is who it should be. If the peer has made the
                                 * connection ('accepted'), this is mostly the first that is told of it; but with
                                 * 'early', streams may come before. */
    WEIR_ATP_OPENED = 2,        /* The peer has opened 'stream'. */
    WEIR_ATP_MAY_OPEN = 3,      /* weir_atp_open may succeed again. */
    WEIR_ATP_READABLE = 4,      /* weir_atp_read has something to tell of 'stream'. It comes once, until
                                 * weir_atp_read returns WEIR_EAGAIN. */
    WEIR_ATP_WRITABLE = 5,      /* There is room again for 'stream'. */
    WEIR_ATP_STOPPED = 6,       /* The peer wants no more of 'stream', for the reason 'code' of its application. */
    WEIR_ATP_CLOSED = 7,        /* The connection is over, and nothing more is told of it: see 'why'. Streams that
                                 * have come whole from a peer that has closed it can still be read. Once that is
                                 * done, or weir_atp_forget says that it is not going to be, the connection holds
                                 * nothing any more. */
};

enum weir_atp_why {
    WEIR_ATP_LOCALLY = 1,       /* This end has closed it. */
    WEIR_ATP_BY_PEER = 2,       /* The peer has, for the reasons 'code' and 'reason' of its application. */
    WEIR_ATP_REFUSED = 3,       /* The peer has not let it be made; 'code' and 'reason' say why. Codes from 2^32 on
                                 * are the protocol's. */
    WEIR_ATP_TLS = 4,           /* The peer is not who it should be, or TLS has failed for another reason. */
    WEIR_ATP_UNANSWERED = 5,    /* Nobody has answered within 'opening_ns'. */
    WEIR_ATP_SILENT = 6,        /* The peer has not been heard for 'idle_ns'. */
    WEIR_ATP_VIOLATION = 7,     /* The peer does what the protocol does not allow. */
};

struct weir_atp_event {
    enum weir_atp_event_kind kind;
    enum weir_atp_why why;      /* Of WEIR_ATP_CLOSED; otherwise 0. */
    bool accepted;              /* The peer has made the connection, not this end. */
    uint64_t connection;
    uint64_t stream;            /* Of events that have one; otherwise 0. */
    uint64_t code;              /* Of WEIR_ATP_STOPPED and WEIR_ATP_CLOSED; otherwise 0. */
    const char *message;        /* Of WEIR_ATP_CLOSED: why, for a person, without what would steer a terminal;
                                 * otherwise "". */
    const uint8_t *reason;      /* Of WEIR_ATP_CLOSED: the peer's own words, as they came, without a zero. */
    size_t n_reason_bytes;
};

/* 1 and the next thing that has happened to a connection, or 0. */
int weir_atp_poll_event(struct weir_atp *, struct weir_atp_event *);

/* A datagram has come, a UDP payload, with the ECN field of its IP header. 'to' is which of the host's addresses
 * it came to, its port does not matter; NULL if that is not known. What is no datagram of a peer's is counted, and
 * does nothing. */
int weir_atp_handle_datagram(struct weir_atp *, uint64_t now_ns, const struct weir_address *from,
                             const struct weir_address *to, enum weir_ecn ecn, const uint8_t *bytes, size_t n_bytes);
/* Lets the time pass. It does no harm before its time. */
int weir_atp_handle_timeout(struct weir_atp *, uint64_t now_ns);
/* When to call weir_atp_handle_timeout, or weir_atp_poll_transmit, which does the same: 0 if at once, WEIR_NEVER
 * if there is nothing to wait for. */
uint64_t weir_atp_poll_timeout(const struct weir_atp *);

/* Datagrams to be sent at once, to one address: 'bytes' is to be cut into datagrams of 'segment_bytes' each, but
 * for the last, which may be shorter. So a system with segmentation offload (GSO: UDP_SEGMENT) sends them in one
 * call. */
struct weir_atp_transmit {
    struct weir_address to;
    struct weir_address from;   /* Which of the host's addresses to send from: where the peer's datagrams come to.
                                 * The family is 0 if that is not known; the port is 0. */
    enum weir_ecn ecn;          /* What their IP headers are to bear. */
    const uint8_t *bytes;
    size_t n_bytes;
    size_t segment_bytes;
};

/* 1 and the next datagrams, or 0 if nothing is to be sent before something else happens. There are
 * 'most_datagrams' at most (1: one by one), and 'most_bytes' bytes, unless a single datagram has more. */
int weir_atp_poll_transmit(struct weir_atp *, uint64_t now_ns, size_t most_datagrams, size_t most_bytes,
                           struct weir_atp_transmit *);

/* What connections have counted. */
struct weir_atp_counters {
    uint64_t sent;              /* Packets sent that are to be acknowledged, parity among them, */
    uint64_t sent_bytes;        /* and bytes of their datagrams. */
    uint64_t parity;            /* Those with parity, */
    uint64_t parity_bytes;      /* and bytes of their datagrams. */
    uint64_t requested;         /* Packets that the peer had to ask for. */
    uint64_t timed_out;         /* Packets that were waited for in vain. */
    uint64_t timeouts;          /* Timeouts of this end, the last resort. */
    uint64_t repaired;          /* Packets of the peer's that parity has repaired. */
    uint64_t requests;          /* How often this end has asked for what was missing. */
    uint64_t repaired_at_peer;  /* Packets of this end's that parity has repaired at the peer. */
    uint64_t ce;                /* Packets that bore a mark of congestion when they came to the peer. */
    uint64_t unexpected;        /* Datagrams that were malformed, or of another connection. */
    uint64_t forged;            /* Datagrams that did not authenticate. */
    uint64_t replayed;          /* Datagrams that came a second time, or too late. */
};

struct weir_atp_endpoint_counters {
    uint64_t accepted;          /* Connections that were made to it, */
    uint64_t connected;         /* that it has made, */
    uint64_t refused;           /* that it has refused for want of room, */
    uint64_t retried;           /* and whose clients were asked to show their address first. */
    uint64_t strays;            /* Datagrams for no connection. */
    uint64_t connections;       /* Connections that are not over, at present. */
    uint64_t peak_bytes;        /* The most that connections have held at a time. */
    struct weir_atp_counters all; /* Of all connections together, those that are over among them. */
};

/* How a connection stands. */
struct weir_atp_state {
    bool connected;             /* The handshake is through. */
    bool open;                  /* No end has closed it. */
    uint32_t group;             /* Packets that one parity is for. */
    uint64_t rtt_ns;            /* The smoothed round trip; 0 until one was measured. */
    uint64_t window_bytes;      /* What may be on its way, */
    uint64_t in_flight_bytes;   /* and what is. */
    uint64_t unacknowledged_bytes; /* What was written and not acknowledged. */
    uint64_t held_bytes;        /* Memory of both directions. */
};

int weir_atp_endpoint_counters(const struct weir_atp *, struct weir_atp_endpoint_counters *);
int weir_atp_counters(const struct weir_atp *, uint64_t connection, struct weir_atp_counters *);
int weir_atp_state(const struct weir_atp *, uint64_t connection, struct weir_atp_state *);

#ifdef __cplusplus
}
#endif

#endif
