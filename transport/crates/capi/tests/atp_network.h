/* A network for endpoints of ATP, which loses, doubles, reorders and marks datagrams: the same ones in each run. */
#include "network.h"

#define MOST_HOSTS 4

struct host {
    struct weir_atp *endpoint;
    struct weir_address address;
};

static struct host hosts[MOST_HOSTS];
static uint32_t n_hosts;
static uint64_t now_ns, doubled, marked, batches;
/* Of 1000 datagrams. */
static uint32_t loses = 30, doubles = 20, marks = 10;

static uint32_t
draw(uint32_t below)
{
    static uint64_t state = 42;

    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % below;
}

static void
expect(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "%s: does not hold after %llu us (%s)\n", what, (unsigned long long) now_ns / 1000,
                weir_error());
        exit(1);
    }
}

#define EXPECT(what) expect((what) ? 1 : 0, #what)

static uint32_t
add(struct weir_atp *endpoint, struct weir_address address)
{
    EXPECT(endpoint && n_hosts < MOST_HOSTS);
    hosts[n_hosts] = (struct host) { endpoint, address };
    return n_hosts++;
}

static inline struct weir_address
ipv4(uint8_t last, uint16_t port)
{
    return (struct weir_address) { .family = 4, .port = port, .ip = { 10, 0, 0, last } };
}

static inline struct weir_address
ipv6(uint8_t last, uint16_t port)
{
    return (struct weir_address) { .family = 6, .port = port, .ip = { 0x20, 0x01, 0x0d, 0xb8, [15] = last } };
}

static void
send_one(uint32_t from, const struct weir_atp_transmit *what, const uint8_t *bytes, size_t n_bytes)
{
    struct weir_output output = { .kind = WEIR_DATAGRAM, .ecn = what->ecn, .bytes = bytes, .n_bytes = n_bytes };

    while (output.to < n_hosts && memcmp(&hosts[output.to].address, &what->to, sizeof what->to)) {
        output.to++;
    }
    sent++;
    if (output.to == n_hosts || draw(1000) < loses) {
        lost++;
        return;
    }
    if (output.ecn == WEIR_ECT_0 && draw(1000) < marks) {
        output.ecn = WEIR_CE;
        marked++;
    }
    /* Delays differ by more than there is between datagrams. */
    later(now_ns + DELAY_NS + draw(DELAY_NS), from, &output);
    if (draw(1000) < doubles) {
        doubled++;
        later(now_ns + DELAY_NS + draw(3 * DELAY_NS), from, &output);
    }
}

/* Sends what a host has to send, cut as a network interface would. */
static void
transmit(uint32_t host)
{
    struct weir_atp_transmit next;

    while (check("poll_transmit", weir_atp_poll_transmit(hosts[host].endpoint, now_ns, 10, 15000, &next))) {
        size_t cut = next.segment_bytes;

        EXPECT(next.n_bytes > 0 && cut > 0 && cut <= next.n_bytes && (next.n_bytes <= 15000 || cut == next.n_bytes));
        batches += next.n_bytes > cut;
        for (size_t at = 0; at < next.n_bytes; at += cut) {
            send_one(host, &next, next.bytes + at, next.n_bytes - at < cut ? next.n_bytes - at : cut);
        }
    }
}

/* What is told of a connection. */
static void happened(uint32_t host, const struct weir_atp_event *);

static void
news(uint32_t host)
{
    struct weir_atp_event event;

    while (check("poll_event", weir_atp_poll_event(hosts[host].endpoint, &event))) {
        happened(host, &event);
    }
}

/* What is next happens: a datagram, or timers. False if nothing is going to happen before 'until_ns'. */
static bool
proceed(uint64_t until_ns)
{
    uint64_t next_ns = until_ns;
    struct event *e;

    for (uint32_t i = 0; i < n_hosts; i++) {
        news(i);
        transmit(i);
        news(i);
        if (weir_atp_poll_timeout(hosts[i].endpoint) < next_ns) {
            next_ns = weir_atp_poll_timeout(hosts[i].endpoint);
        }
    }
    if (events && events->at_ns <= next_ns) {
        e = events;
        events = e->next;
        now_ns = e->at_ns > now_ns ? e->at_ns : now_ns;
        check("datagram", weir_atp_handle_datagram(hosts[e->to].endpoint, now_ns, &hosts[e->from].address,
                                                   &hosts[e->to].address, e->what.ecn, e->what.bytes, e->what.n_bytes));
        free((void *) e->what.bytes);
        free(e);
        return true;
    }
    now_ns = next_ns > now_ns ? next_ns : now_ns;
    for (uint32_t i = 0; i < n_hosts; i++) {
        check("timeout", weir_atp_handle_timeout(hosts[i].endpoint, now_ns));
    }
    return now_ns < until_ns;
}

static void
run_for(uint64_t ns)
{
    uint64_t until_ns = now_ns + ns;

    while (proceed(until_ns)) {
    }
}
