/* What must not be asked of ATP's interface: each function answers with an error that says what is wrong. */
#include "atp_network.h"

#define NO_CONNECTION 77
#define NO_STREAM 99

static uint64_t over, n_refused;

static void
happened(uint32_t host, const struct weir_atp_event *event)
{
    over += host == 1 && event->kind == WEIR_ATP_CLOSED;
}

/* A call that has failed with this status, and words that have 'word' among them. */
static void
refused(int64_t status, int64_t expected, const char *word, int line)
{
    if (status != expected || !strstr(weir_error(), word)) {
        fprintf(stderr, "line %d: %lld instead of %lld, \"%s\" without \"%s\"\n", line, (long long) status,
                (long long) expected, weir_error(), word);
        exit(1);
    }
    n_refused++;
}

#define INVALID(call, word) refused(call, WEIR_EINVAL, word, __LINE__)
#define OVER(call, word) refused(call, WEIR_ECLOSED, word, __LINE__)
#define NOTHING(call, word) refused((call) ? 1 : 0, 0, word, __LINE__)

static void
identities(void)
{
    const char *pem = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    const uint8_t *text = (const uint8_t *) pem;
    uint8_t fingerprint[WEIR_FINGERPRINT_BYTES];

    NOTHING(weir_identity_new(NULL, 5, text, strlen(pem)), "certificate is NULL");
    NOTHING(weir_identity_new(text, strlen(pem), NULL, 5), "key is NULL");
    NOTHING(weir_identity_new(text, SIZE_MAX, text, strlen(pem)), "certificate cannot have");
    NOTHING(weir_identity_new(text, strlen(pem), text, strlen(pem)), "private key");
    NOTHING(weir_identity_new(text, strlen(pem), NULL, 0), "key is neither");
    NOTHING(weir_identity_new(fingerprint, 0, NULL, 0), "key is neither");
    INVALID(weir_identity_fingerprint(NULL, fingerprint), "identity is NULL");
    weir_identity_free(NULL);
}

static void
endpoints(const struct weir_identity *identity)
{
    struct weir_atp_config config, bad;

    INVALID(weir_identity_fingerprint(identity, NULL), "fingerprint is NULL");
    INVALID(weir_atp_defaults(NULL), "config is NULL");
    check("defaults", weir_atp_defaults(&config));
    NOTHING(weir_atp_client_new(NULL, NULL), "config is NULL");
    NOTHING(weir_atp_server_new(NULL, identity, NULL, 0), "config is NULL");
    NOTHING(weir_atp_server_new(&config, NULL, NULL, 0), "identity is NULL");
    NOTHING(weir_atp_server_new(&config, identity, NULL, 1), "clients is NULL");
    NOTHING(weir_atp_server_new(&config, identity, config.key, SIZE_MAX / 16), "clients cannot have");
    bad = config;
    memset(bad.key, 0, sizeof bad.key);
    NOTHING(weir_atp_client_new(&bad, NULL), "config.key");
    bad = config;
    bad.datagram_bytes = 100;
    NOTHING(weir_atp_client_new(&bad, NULL), "config.datagram_bytes is 100");
    weir_atp_free(NULL);
}

/* There is no endpoint. */
static void
nowhere(void)
{
    struct weir_atp_endpoint_counters all;
    struct weir_address address = ipv4(1, 1);
    struct weir_atp_transmit transmit;
    struct weir_atp_counters counters;
    struct weir_atp_event event;
    struct weir_atp_state state;
    uint8_t bytes[WEIR_FINGERPRINT_BYTES] = { 0 };
    const char *word = "endpoint is NULL";

    INVALID(weir_atp_connect(NULL, 0, &address, "weir", bytes), word);
    INVALID(weir_atp_remote(NULL, 0, &address), word);
    INVALID(weir_atp_peer_fingerprint(NULL, 0, bytes), word);
    INVALID(weir_atp_close(NULL, 0, 0, 0, ""), word);
    INVALID(weir_atp_close_when_done(NULL, 0, 0, 0, ""), word);
    INVALID(weir_atp_forget(NULL, 0, 0, 0, ""), word);
    INVALID(weir_atp_close_all(NULL, 0, 0, ""), word);
    INVALID(weir_atp_leave(NULL, 0, 0, ""), word);
    INVALID(weir_atp_open(NULL, 0), word);
    INVALID(weir_atp_announce(NULL, 0, 0), word);
    INVALID(weir_atp_write(NULL, 0, 0, 0, bytes, 1), word);
    INVALID(weir_atp_finish(NULL, 0, 0), word);
    INVALID(weir_atp_read(NULL, 0, 0, 0, bytes, 1, NULL), word);
    INVALID(weir_atp_reset(NULL, 0, 0, 0), word);
    INVALID(weir_atp_stop(NULL, 0, 0, 0), word);
    INVALID(weir_atp_poll_event(NULL, &event), word);
    INVALID(weir_atp_handle_datagram(NULL, 0, &address, NULL, WEIR_NOT_ECT, bytes, 1), word);
    INVALID(weir_atp_handle_timeout(NULL, 0), word);
    INVALID(weir_atp_poll_transmit(NULL, 0, 1, 1500, &transmit), word);
    INVALID(weir_atp_endpoint_counters(NULL, &all), word);
    INVALID(weir_atp_counters(NULL, 0, &counters), word);
    INVALID(weir_atp_state(NULL, 0, &state), word);
    EXPECT(weir_atp_poll_timeout(NULL) == WEIR_NEVER);
}

/* The connection is over, or never was. */
static void
of_no_connection(struct weir_atp *endpoint, uint64_t id)
{
    struct weir_atp_counters counters;
    struct weir_address address;
    struct weir_atp_state state;
    uint8_t bytes[WEIR_FINGERPRINT_BYTES] = { 0 };
    char word[40];

    snprintf(word, sizeof word, "connection %llu is over", (unsigned long long) id);
    OVER(weir_atp_remote(endpoint, id, &address), word);
    OVER(weir_atp_peer_fingerprint(endpoint, id, bytes), word);
    OVER(weir_atp_close(endpoint, now_ns, id, 0, ""), word);
    OVER(weir_atp_close_when_done(endpoint, now_ns, id, 0, ""), word);
    OVER(weir_atp_forget(endpoint, now_ns, id, 0, ""), word);
    OVER(weir_atp_open(endpoint, id), word);
    OVER(weir_atp_announce(endpoint, id, 0), word);
    OVER(weir_atp_write(endpoint, now_ns, id, 0, bytes, 1), word);
    OVER(weir_atp_finish(endpoint, id, 0), word);
    OVER(weir_atp_read(endpoint, now_ns, id, 0, bytes, 1, NULL), word);
    OVER(weir_atp_reset(endpoint, id, 0, 0), word);
    OVER(weir_atp_stop(endpoint, id, 0, 0), word);
    OVER(weir_atp_counters(endpoint, id, &counters), word);
    OVER(weir_atp_state(endpoint, id, &state), word);
}

/* The connection is there, and what is asked of it cannot be. */
static void
of_a_connection(struct weir_atp *endpoint, uint64_t id)
{
    const uint64_t protocols = UINT64_C(1) << 32, streams[] = { NO_STREAM, NO_STREAM + 1, UINT64_MAX };
    int64_t stream = check("open", weir_atp_open(endpoint, id));
    uint8_t bytes[8] = { 0 };

    for (int i = 0; i < 3; i++) {
        OVER(weir_atp_announce(endpoint, id, streams[i]), "or never was");
        OVER(weir_atp_write(endpoint, now_ns, id, streams[i], bytes, 8), "or never was");
        OVER(weir_atp_finish(endpoint, id, streams[i]), "or never was");
        OVER(weir_atp_read(endpoint, now_ns, id, streams[i], bytes, 8, NULL), "or never was");
        OVER(weir_atp_reset(endpoint, id, streams[i], 0), "or never was");
        OVER(weir_atp_stop(endpoint, id, streams[i], 0), "or never was");
    }
    INVALID(weir_atp_write(endpoint, now_ns, id, stream, NULL, 8), "bytes is NULL");
    INVALID(weir_atp_write(endpoint, now_ns, id, stream, bytes, SIZE_MAX), "bytes cannot have");
    INVALID(weir_atp_read(endpoint, now_ns, id, stream, NULL, 8, NULL), "bytes is NULL");
    INVALID(weir_atp_read(endpoint, now_ns, id, stream, bytes, 0, NULL), "room for 0");
    INVALID(weir_atp_read(endpoint, now_ns, id, stream, bytes, SIZE_MAX, NULL), "room for");
    INVALID(weir_atp_reset(endpoint, id, stream, protocols), "below 2^32");
    INVALID(weir_atp_stop(endpoint, id, stream, UINT64_MAX), "below 2^32");
    INVALID(weir_atp_close(endpoint, now_ns, id, protocols, ""), "below 2^32");
    INVALID(weir_atp_close(endpoint, now_ns, id, 0, NULL), "reason is NULL");
    INVALID(weir_atp_close(endpoint, now_ns, id, 0, "\xff"), "reason is not UTF-8");
    INVALID(weir_atp_close_when_done(endpoint, now_ns, id, protocols, ""), "below 2^32");
    INVALID(weir_atp_close_when_done(endpoint, now_ns, id, 0, NULL), "reason is NULL");
    INVALID(weir_atp_forget(endpoint, now_ns, id, 0, NULL), "reason is NULL");
    INVALID(weir_atp_remote(endpoint, id, NULL), "remote is NULL");
    INVALID(weir_atp_peer_fingerprint(endpoint, id, NULL), "fingerprint is NULL");
    INVALID(weir_atp_counters(endpoint, id, NULL), "counters is NULL");
    INVALID(weir_atp_state(endpoint, id, NULL), "state is NULL");
    EXPECT(weir_atp_write(endpoint, now_ns, id, stream, NULL, 0) == 0);
    EXPECT(weir_atp_read(endpoint, now_ns, id, stream, bytes, 8, NULL) == WEIR_EAGAIN);
    check("finish", weir_atp_finish(endpoint, id, stream));
    OVER(weir_atp_finish(endpoint, id, stream), "is over for this");
    OVER(weir_atp_write(endpoint, now_ns, id, stream, bytes, 8), "is over for this");
    /* As many streams as the peer lets be, and one more. */
    for (int i = 1; i < 64; i++) {
        check("open", weir_atp_open(endpoint, id));
    }
    refused(weir_atp_open(endpoint, id), WEIR_ENOROOM, "no more streams", __LINE__);
}

static void
of_an_endpoint(struct weir_atp *endpoint)
{
    struct weir_address address = ipv4(1, 4000), bad = address;
    struct weir_atp_transmit transmit;
    uint8_t bytes[WEIR_FINGERPRINT_BYTES] = { 0 };
    struct weir_atp_endpoint_counters counters;

    INVALID(weir_atp_connect(endpoint, now_ns, NULL, "weir", bytes), "server is NULL");
    INVALID(weir_atp_connect(endpoint, now_ns, &address, "weir", NULL), "fingerprint is NULL");
    INVALID(weir_atp_connect(endpoint, now_ns, &address, "no name", bytes), "neither a host's name");
    INVALID(weir_atp_connect(endpoint, now_ns, &address, "", bytes), "neither a host's name");
    bad.family = 5;
    INVALID(weir_atp_connect(endpoint, now_ns, &bad, "weir", bytes), "family 5");
    INVALID(weir_atp_handle_datagram(endpoint, now_ns, &bad, NULL, WEIR_NOT_ECT, bytes, 8), "family 5");
    INVALID(weir_atp_handle_datagram(endpoint, now_ns, &address, &bad, WEIR_NOT_ECT, bytes, 8), "family 5");
    bad = address;
    bad.port = 0;
    INVALID(weir_atp_connect(endpoint, now_ns, &bad, "weir", bytes), "port 0");
    INVALID(weir_atp_handle_datagram(endpoint, now_ns, &bad, NULL, WEIR_NOT_ECT, bytes, 8), "port 0");
    INVALID(weir_atp_handle_datagram(endpoint, now_ns, NULL, NULL, WEIR_NOT_ECT, bytes, 8), "from is NULL");
    INVALID(weir_atp_handle_datagram(endpoint, now_ns, &address, NULL, WEIR_NOT_ECT, NULL, 8), "bytes is NULL");
    INVALID(weir_atp_handle_datagram(endpoint, now_ns, &address, NULL, WEIR_NOT_ECT, bytes, 65536), "65536 bytes");
    INVALID(weir_atp_handle_datagram(endpoint, now_ns, &address, NULL, (enum weir_ecn) 4, bytes, 8), "ecn is 4");
    INVALID(weir_atp_poll_transmit(endpoint, now_ns, 0, 1500, &transmit), "most_datagrams is 0");
    INVALID(weir_atp_poll_transmit(endpoint, now_ns, 1, 1500, NULL), "transmit is NULL");
    INVALID(weir_atp_poll_event(endpoint, NULL), "event is NULL");
    INVALID(weir_atp_endpoint_counters(endpoint, NULL), "counters is NULL");
    INVALID(weir_atp_close_all(endpoint, now_ns, 0, NULL), "reason is NULL");
    INVALID(weir_atp_leave(endpoint, now_ns, UINT64_MAX, ""), "below 2^32");
    INVALID(weir_atp_handle_timeout(endpoint, now_ns - 1), "time goes back");
    INVALID(weir_atp_poll_transmit(endpoint, 0, 1, 1500, &transmit), "time goes back");
    /* What is no datagram of anybody's is counted, and no error: it comes from outside. */
    check("datagram", weir_atp_handle_datagram(endpoint, now_ns, &address, NULL, WEIR_NOT_ECT, bytes, 0));
    check("datagram", weir_atp_handle_datagram(endpoint, now_ns, &address, NULL, WEIR_CE, bytes, 20));
    check("counters", weir_atp_endpoint_counters(endpoint, &counters));
    EXPECT(counters.strays == 2 && counters.connections == 1);
}

int
main(void)
{
    struct weir_identity *identity = weir_identity_generate();
    uint8_t fingerprint[WEIR_FINGERPRINT_BYTES];
    struct weir_atp_config config;
    struct weir_atp *client;
    uint64_t id;

    EXPECT(!*weir_error());
    identities();
    endpoints(identity);
    nowhere();
    loses = doubles = marks = 0;
    now_ns = DELAY_NS;
    check("fingerprint", weir_identity_fingerprint(identity, fingerprint));
    check("defaults", weir_atp_defaults(&config));
    add(weir_atp_server_new(&config, identity, NULL, 0), ipv4(1, 4000));
    check("defaults", weir_atp_defaults(&config));
    client = hosts[add(weir_atp_client_new(&config, NULL), ipv4(2, 5000))].endpoint;
    of_no_connection(client, NO_CONNECTION);
    of_no_connection(client, UINT64_MAX);
    id = check("connect", weir_atp_connect(client, now_ns, &hosts[0].address, NULL, fingerprint));
    run_for(100 * DELAY_NS);
    of_a_connection(client, id);
    of_an_endpoint(client);
    EXPECT(!over);
    check("close", weir_atp_close(client, now_ns, id, 0, "done"));
    run_for(10000 * UINT64_C(1000000));
    EXPECT(over == 1);
    of_no_connection(client, id);
    check("timeout", weir_atp_handle_timeout(client, UINT64_MAX));
    for (uint32_t i = 0; i < n_hosts; i++) {
        weir_atp_free(hosts[i].endpoint);
    }
    weir_identity_free(identity);
    printf("%llu calls refused, each with words\n", (unsigned long long) n_refused);
    return 0;
}
