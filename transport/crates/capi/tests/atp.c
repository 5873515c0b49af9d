/* Servers and clients of ATP over the C interface: several connections, streams both ways, and who is refused. */
#include "atp_network.h"

#define MS UINT64_C(1000000)
#define MOST_CONNECTIONS 8
#define MOST_STREAMS 16
#define CHUNK 20000
/* What a client writes on a stream, what the server answers, and what it writes on a stream that it has opened. */
#define REQUEST 300000
#define ANSWER 500000
#define OFFER 200000
#define SERVER 0

/* A stream, as one end has it. */
struct stream {
    bool known, ended, finished, stopped;
    uint64_t read, written, to_write, reset, stop;
    /* The connection, as its client counts it: the first byte of what clients send. */
    uint8_t tag;
};

struct connection {
    bool connected, accepted, closed, opens;
    enum weir_atp_why why;
    uint64_t code;
    char message[200], reason[50];
    struct stream streams[MOST_STREAMS];
};

static struct connection connections[MOST_HOSTS][MOST_CONNECTIONS];
static uint64_t n_read, partial;

/* What an end writes: other bytes on each stream. */
static uint8_t
byte_at(uint64_t at, uint64_t stream, bool of_client, uint8_t tag)
{
    if (of_client && !(stream & 1) && !at) {
        return tag;
    }
    return (at * at >> 7) + at * 31 + stream * 13 + tag * 57 + of_client * 101;
}

static void
write_some(uint32_t host, uint64_t connection, uint64_t number)
{
    struct stream *stream = &connections[host][connection].streams[number];
    static uint8_t bytes[CHUNK];

    while (!stream->stopped && !stream->finished) {
        uint64_t left = stream->to_write - stream->written, count = left < CHUNK ? left : CHUNK;
        int64_t wrote;

        for (uint64_t i = 0; i < count; i++) {
            bytes[i] = byte_at(stream->written + i, number, host != SERVER, stream->tag);
        }
        wrote = check("write", weir_atp_write(hosts[host].endpoint, now_ns, connection, number, bytes, count));
        EXPECT((uint64_t) wrote <= count);
        stream->written += wrote;
        if ((uint64_t) wrote < count) {
            partial++;
            return;
        }
        if (stream->written == stream->to_write) {
            check("finish", weir_atp_finish(hosts[host].endpoint, connection, number));
            stream->finished = true;
        }
    }
}

static void
read_all(uint32_t host, uint64_t connection, uint64_t number)
{
    struct stream *stream = &connections[host][connection].streams[number];
    static uint8_t bytes[7001];
    int64_t count;

    while ((count = weir_atp_read(hosts[host].endpoint, now_ns, connection, number, bytes, sizeof bytes,
                                  &stream->reset)) > 0) {
        if (host == SERVER && !(number & 1) && !stream->read) {
            stream->tag = bytes[0];
        }
        for (int64_t i = 0; i < count; i++) {
            EXPECT(bytes[i] == byte_at(stream->read + i, number, host == SERVER, stream->tag));
        }
        stream->read += count;
        n_read += count;
    }
    EXPECT(count == 0 || count == WEIR_EAGAIN || count == WEIR_ERESET);
    if (count == 0) {
        EXPECT(!stream->ended);
        stream->ended = true;
        /* Half of it is closed: the other half still carries all of the answer. */
        if (host == SERVER && !(number & 1)) {
            stream->to_write = ANSWER;
        }
        if (!stream->finished) {
            write_some(host, connection, number);
        }
    }
}

static void
happened(uint32_t host, const struct weir_atp_event *event)
{
    struct connection *connection = &connections[host][event->connection];
    struct stream *stream = &connection->streams[event->stream];

    EXPECT(event->connection < MOST_CONNECTIONS && event->stream < MOST_STREAMS && !connection->closed);
    switch (event->kind) {
    case WEIR_ATP_CONNECTED:
        connection->connected = true;
        connection->accepted = event->accepted;
        if (host == SERVER && connection->opens) {
            int64_t number = check("open", weir_atp_open(hosts[host].endpoint, event->connection));

            connection->streams[number] = (struct stream) { .known = true, .to_write = OFFER };
            write_some(host, event->connection, number);
        }
        break;
    case WEIR_ATP_OPENED:
        EXPECT(!stream->known && (event->stream & 1) == (host != SERVER));
        stream->known = true;
        break;
    case WEIR_ATP_READABLE:
        read_all(host, event->connection, event->stream);
        break;
    case WEIR_ATP_WRITABLE:
        write_some(host, event->connection, event->stream);
        break;
    case WEIR_ATP_STOPPED:
        stream->stopped = true;
        stream->stop = event->code;
        break;
    case WEIR_ATP_MAY_OPEN:
        break;
    case WEIR_ATP_CLOSED:
        connection->closed = true;
        connection->why = event->why;
        connection->code = event->code;
        snprintf(connection->message, sizeof connection->message, "%s", event->message);
        snprintf(connection->reason, sizeof connection->reason, "%.*s", (int) event->n_reason_bytes, event->reason);
        break;
    }
}

static uint64_t
connect_to(uint32_t client, uint32_t server, const uint8_t *fingerprint)
{
    return check("connect", weir_atp_connect(hosts[client].endpoint, now_ns, &hosts[server].address, "weir",
                                             fingerprint));
}

static void
request(uint32_t client, uint64_t connection, uint8_t tag)
{
    int64_t number = check("open", weir_atp_open(hosts[client].endpoint, connection));

    connections[client][connection].streams[number] =
        (struct stream) { .known = true, .to_write = REQUEST, .tag = tag };
    write_some(client, connection, number);
}

/* Megabytes both ways over three connections of two clients, and what is counted of it. */
static void
carry(const uint8_t *fingerprint)
{
    struct weir_atp_endpoint_counters counters[3];
    struct weir_atp_counters counted;
    struct weir_atp_state state;
    struct weir_address remote;
    uint64_t ids[3][2] = { { 1, connect_to(1, SERVER, fingerprint) },
                           { 1, connect_to(1, SERVER, fingerprint) },
                           { 2, connect_to(2, SERVER, fingerprint) } };
    uint64_t all = 3 * (3 * (REQUEST + ANSWER) + OFFER);
    uint8_t shown[WEIR_FINGERPRINT_BYTES];

    for (int i = 0; i < MOST_CONNECTIONS; i++) {
        connections[SERVER][i].opens = true;
    }
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++) {
            request(ids[i][0], ids[i][1], i + 1);
        }
    }
    while (n_read < all && now_ns < 60000 * MS) {
        proceed(60000 * MS);
    }
    run_for(500 * MS);
    EXPECT(n_read == all);
    for (int i = 0; i < 3; i++) {
        struct connection *connection = &connections[ids[i][0]][ids[i][1]];

        EXPECT(connection->connected && !connection->accepted && !connection->closed);
        EXPECT(connections[SERVER][i].connected && connections[SERVER][i].accepted);
        for (int j = 0; j < 5; j++) {
            bool mine = !(j & 1);

            EXPECT(connection->streams[j].known == (mine || j == 1));
            EXPECT(!connection->streams[j].known || (connection->streams[j].ended && connection->streams[j].finished));
        }
        check("state", weir_atp_state(hosts[ids[i][0]].endpoint, ids[i][1], &state));
        EXPECT(state.connected && state.open && state.rtt_ns >= 2 * DELAY_NS && state.unacknowledged_bytes == 0);
    }
    for (int i = 0; i < 3; i++) {
        check("counters", weir_atp_endpoint_counters(hosts[i].endpoint, &counters[i]));
    }
    EXPECT(counters[SERVER].accepted == 3 && counters[SERVER].connections == 3);
    EXPECT(counters[1].connected == 2 && counters[2].connected == 1);
    EXPECT(counters[SERVER].all.sent_bytes > 9 * ANSWER + 3 * OFFER && counters[SERVER].all.parity > 0);
    EXPECT(counters[SERVER].all.repaired > 0 && counters[SERVER].all.repaired_at_peer > 0);
    EXPECT(counters[SERVER].all.replayed > 0 && counters[SERVER].all.ce + counters[1].all.ce + counters[2].all.ce > 0);
    EXPECT(counters[SERVER].peak_bytes > 0);
    check("counters", weir_atp_counters(hosts[1].endpoint, ids[0][1], &counted));
    EXPECT(counted.sent_bytes > 3 * REQUEST && counted.sent_bytes < counters[1].all.sent_bytes);
    check("remote", weir_atp_remote(hosts[2].endpoint, ids[2][1], &remote));
    EXPECT(!memcmp(&remote, &hosts[SERVER].address, sizeof remote));
    EXPECT(weir_atp_peer_fingerprint(hosts[2].endpoint, ids[2][1], shown) == 1);
    EXPECT(!memcmp(shown, fingerprint, sizeof shown));
    EXPECT(weir_atp_peer_fingerprint(hosts[SERVER].endpoint, 0, shown) == 0);
}

/* Streams that an end gives up, or wants no more of. */
static void
give_up(void)
{
    struct weir_atp *client = hosts[1].endpoint, *server = hosts[SERVER].endpoint;
    struct connection *there = &connections[SERVER][0];
    uint64_t from = connections[1][0].connected ? 0 : 1, code = 0;
    int64_t number = check("open", weir_atp_open(client, from));
    uint8_t byte = 1;

    /* Announced, written by the peer first, stopped, and reset. */
    check("announce", weir_atp_announce(client, from, number));
    run_for(50 * MS);
    /* Which of the server's connections it is, only the order of datagrams decides. */
    for (int i = 0; i < 3; i++) {
        there = connections[SERVER][i].streams[number].known ? &connections[SERVER][i] : there;
    }
    EXPECT(there->streams[number].known && !there->streams[number].read);
    EXPECT(weir_atp_write(server, now_ns, there - connections[SERVER], number, &byte, 1) == 1);
    check("stop", weir_atp_stop(client, from, number, 43));
    check("reset", weir_atp_reset(client, from, number, 42));
    run_for(50 * MS);
    EXPECT(there->streams[number].reset == 42 && there->streams[number].stopped && there->streams[number].stop == 43);
    /* Once more with a stream whose end here is open: the server is told that nobody reads it. */
    number = check("open", weir_atp_open(client, from));
    EXPECT(weir_atp_read(client, now_ns, from, number, &byte, 1, &code) == WEIR_EAGAIN);
    check("announce", weir_atp_announce(client, from, number));
    check("stop", weir_atp_stop(client, from, number, 43));
    run_for(50 * MS);
    EXPECT(there->streams[number].stopped && there->streams[number].stop == 43);
    EXPECT(weir_atp_write(server, now_ns, there - connections[SERVER], number, &byte, 1) == WEIR_ESTOPPED);
    EXPECT(strstr(weir_error(), "no more of the stream (43)"));
    EXPECT(weir_atp_finish(server, there - connections[SERVER], number) == WEIR_ESTOPPED);
}

/* A key for each endpoint, and less room than there is to write. */
static struct weir_atp_config
defaults(void)
{
    struct weir_atp_config config;

    check("defaults", weir_atp_defaults(&config));
    config.stream_send_bytes = 100000;
    return config;
}

int
main(void)
{
    struct weir_identity *identity = weir_identity_generate(), *known = weir_identity_generate();
    uint8_t fingerprint[WEIR_FINGERPRINT_BYTES], of_client[WEIR_FINGERPRINT_BYTES];
    uint8_t wrong[WEIR_FINGERPRINT_BYTES] = { 1 };
    struct weir_atp_endpoint_counters counters;
    struct weir_atp_config config;
    struct weir_address nobody = ipv4(99, 1);
    struct connection *c;
    uint64_t id;

    check("fingerprint", weir_identity_fingerprint(identity, fingerprint));
    check("fingerprint", weir_identity_fingerprint(known, of_client));
    config = defaults();
    config.connections = 3;
    add(weir_atp_server_new(&config, identity, NULL, 0), ipv6(1, 4000));
    config = defaults();
    add(weir_atp_client_new(&config, NULL), ipv6(2, 5000));
    config = defaults();
    add(weir_atp_client_new(&config, known), ipv4(3, 5000));
    config = defaults();
    add(weir_atp_server_new(&config, identity, of_client, 1), ipv4(4, 4000));
    weir_identity_free(identity);
    weir_identity_free(known);

    carry(fingerprint);
    give_up();
    loses = doubles = 0;

    /* Those that are not let in: there is no room; it is another server than it should be; the client is not one that
     * may; nobody is there. */
    id = connect_to(2, SERVER, fingerprint);
    run_for(100 * MS);
    c = &connections[2][id];
    EXPECT(c->closed && c->why == WEIR_ATP_REFUSED && c->code >= UINT64_C(1) << 32 && strstr(c->message, "no room"));
    EXPECT(!strcmp(c->reason, "no room for another connection"));
    EXPECT(weir_atp_open(hosts[2].endpoint, id) == WEIR_ECLOSED);
    id = connect_to(2, 3, wrong);
    run_for(100 * MS);
    c = &connections[2][id];
    EXPECT(c->closed && c->why == WEIR_ATP_TLS && c->message[0]);
    id = connect_to(1, 3, fingerprint);
    run_for(100 * MS);
    c = &connections[1][id];
    EXPECT(c->closed && !connections[3][0].connected && c->message[0]);
    id = check("connect", weir_atp_connect(hosts[1].endpoint, now_ns, &nobody, NULL, fingerprint));
    run_for(11000 * MS);
    EXPECT(connections[1][id].closed && connections[1][id].why == WEIR_ATP_UNANSWERED);
    id = connect_to(2, 3, fingerprint);
    run_for(100 * MS);
    EXPECT(connections[2][id].connected && !connections[2][id].closed);
    for (int i = 0; i < MOST_CONNECTIONS; i++) {
        if (connections[3][i].connected) {
            EXPECT(weir_atp_peer_fingerprint(hosts[3].endpoint, i, wrong) == 1);
            EXPECT(!memcmp(wrong, of_client, sizeof wrong));
        }
    }

    /* Ends of connections, and of endpoints. */
    check("close", weir_atp_close(hosts[2].endpoint, now_ns, 0, 7, "done"));
    run_for(3000 * MS);
    EXPECT(connections[2][0].closed && connections[2][0].why == WEIR_ATP_LOCALLY);
    id = 0;
    for (int i = 0; i < 3; i++) {
        c = &connections[SERVER][i];
        id += c->closed && c->why == WEIR_ATP_BY_PEER && c->code == 7 && !strcmp(c->reason, "done");
    }
    EXPECT(id == 1);
    EXPECT(weir_atp_close(hosts[2].endpoint, now_ns, 0, 7, "done") == WEIR_ECLOSED);
    check("close_when_done", weir_atp_close_when_done(hosts[1].endpoint, now_ns, 0, 8, "left"));
    check("leave", weir_atp_leave(hosts[1].endpoint, now_ns, 0, ""));
    check("close_all", weir_atp_close_all(hosts[2].endpoint, now_ns, 0, ""));
    EXPECT(weir_atp_connect(hosts[2].endpoint, now_ns, &nobody, "weir", fingerprint) == WEIR_ECLOSED);
    run_for(3000 * MS);
    for (int i = 0; i < 3; i++) {
        /* What has come whole and was not read is let go. */
        int status = weir_atp_forget(hosts[SERVER].endpoint, now_ns, i, 0, "");

        EXPECT(status == 0 || status == WEIR_ECLOSED);
    }
    run_for(100 * MS);
    for (uint32_t i = 0; i < n_hosts; i++) {
        check("counters", weir_atp_endpoint_counters(hosts[i].endpoint, &counters));
        EXPECT(counters.connections == 0);
        weir_atp_free(hosts[i].endpoint);
    }
    EXPECT(lost > 0 && doubled > 0 && marked > 0 && batches > 0 && partial > 0);
    printf("%llu bytes, each as it should be, after %llu ms; %llu datagrams sent, %llu lost, %llu doubled\n",
           (unsigned long long) n_read, (unsigned long long) now_ns / MS, (unsigned long long) sent,
           (unsigned long long) lost, (unsigned long long) doubled);
    return 0;
}
