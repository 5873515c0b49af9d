/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * DCTCP (RFC 8257) as a congestion control of Linux, in BPF.
 *
 * The kernel does what DCTCP has in common with every TCP: growth, fast retransmit, recovery, the
 * timeout, the restart after idle time (RFC 5681), negotiation of ECN, ECT also on SYN and retransmitted
 * segments, and at most one reduction per window of data (its state CWR).  Here is the rest: the
 * estimate, the size of a reduction, and the echo.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "dctcp.h"

/* Macros of the kernel are not in its type information. */
#define TCP_CONG_NON_RESTRICTED 1	/* Or no other network namespace could have it as a default. */
#define TCP_CONG_NEEDS_ECN 2
#define TCP_ECN_OK 1
#define TCP_ECN_DEMAND_CWR 4
#define SOL_TCP 6
#define TCP_CONGESTION 13

/* Some of what is called here is for programs of a licence compatible with the GPL only. */
char _license[] SEC("license") = "Dual MIT/GPL";

/* The estimation gain g, times DCTCP_ONE: set before the program is loaded. */
const volatile u32 dctcp_gain = DCTCP_USUAL_GAIN;

extern void tcp_reno_cong_avoid(struct sock *sk, u32 ack, u32 acked) __ksym;

/* A connection, both as sender and as receiver. */
struct dctcp {
	/* Sender.  Segments stand for bytes: the kernel counts them, those that SACK reports, too. */
	u32 alpha;
	u32 window_end;		/* Of the observation window: a sequence number. */
	u32 delivered;		/* Segments by its beginning... */
	u32 delivered_ce;	/* ...and those of them that met congestion. */
	u32 prior_cwnd;		/* Before the latest reduction. */

	/* Receiver. */
	u32 received;		/* All up to here, before the latest segment. */
	bool ce;		/* DCTCP.CE: that segment had met congestion. */
};

static struct dctcp *dctcp_of(struct sock *sk)
{
	return (struct dctcp *)((struct inet_connection_sock *)sk)->icsk_ca_priv;
}

static void observe_next_window(struct dctcp *ca, const struct tcp_sock *tp, u32 end)
{
	ca->window_end = end;
	ca->delivered = tp->delivered;
	ca->delivered_ce = tp->delivered_ce;
}

SEC("struct_ops/dctcp_init")
void BPF_PROG(dctcp_init, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct dctcp *ca = dctcp_of(sk);

	/* RFC 3168, section 6.1.1: no ECT on a connection whose peer does not take part. */
	if (!(tp->ecn_flags & TCP_ECN_OK)) {
		char reno[] = "reno";

		bpf_setsockopt(sk, SOL_TCP, TCP_CONGESTION, reno, sizeof(reno));
		return;
	}
	ca->alpha = DCTCP_ONE;
	ca->prior_cwnd = tp->snd_cwnd;
	ca->received = tp->rcv_nxt;
	ca->ce = false;
	observe_next_window(ca, tp, tp->snd_una);
}

/* An acknowledgement has come; if it ends an observation window, estimate (section 3.3). */
SEC("struct_ops/dctcp_in_ack_event")
void BPF_PROG(dctcp_in_ack_event, struct sock *sk, u32 flags)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct dctcp *ca = dctcp_of(sk);

	if (!dctcp_window_over(tp->snd_una, ca->window_end))
		return;
	ca->alpha = dctcp_alpha(ca->alpha, tp->delivered - ca->delivered,
				tp->delivered_ce - ca->delivered_ce, dctcp_gain);
	observe_next_window(ca, tp, tp->snd_nxt);
}

/* A reduction begins.  The kernel does not say why; if it turns out to be a loss, dctcp_set_state()
 * corrects what is returned here for a mark. */
SEC("struct_ops/dctcp_ssthresh")
u32 BPF_PROG(dctcp_ssthresh, struct sock *sk)
{
	struct dctcp *ca = dctcp_of(sk);

	ca->prior_cwnd = ((struct tcp_sock *)sk)->snd_cwnd;
	return dctcp_reduced(ca->prior_cwnd, ca->alpha);
}

/* Section 3.5: a loss halves the window, once per window of data.  Half is of the window before the
 * reduction that is under way: a mark seen before the loss does not make it a second one. */
SEC("struct_ops/dctcp_set_state")
void BPF_PROG(dctcp_set_state, struct sock *sk, u8 state)
{
	if (state == TCP_CA_Recovery || state == TCP_CA_Loss)
		((struct tcp_sock *)sk)->snd_ssthresh = dctcp_halved(dctcp_of(sk)->prior_cwnd);
}

SEC("struct_ops/dctcp_undo_cwnd")
u32 BPF_PROG(dctcp_undo_cwnd, struct sock *sk)
{
	u32 prior = dctcp_of(sk)->prior_cwnd, now = ((struct tcp_sock *)sk)->snd_cwnd;

	return prior > now ? prior : now;
}

SEC("struct_ops/dctcp_cong_avoid")
void BPF_PROG(dctcp_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	tcp_reno_cong_avoid(sk, ack, acked);
}

/* Has acknowledgements sent from now on tell that congestion was met, or was not. */
static void echo(struct tcp_sock *tp, bool ce)
{
	if (ce)
		tp->ecn_flags |= TCP_ECN_DEMAND_CWR;
	else
		tp->ecn_flags &= ~TCP_ECN_DEMAND_CWR;
}

/* The receiver (section 3.2): what a segment tells is echoed by the acknowledgement of that segment,
 * whatever the peer says about CWR.  Where it differs from what the segment before told, that one is
 * acknowledged by itself, if it has not been, and this one at once. */
SEC("struct_ops/dctcp_cwnd_event")
void BPF_PROG(dctcp_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	struct inet_connection_sock *icsk = (struct inet_connection_sock *)sk;
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct dctcp *ca = dctcp_of(sk);
	bool ce = event == CA_EVENT_ECN_IS_CE;

	if (!ce && event != CA_EVENT_ECN_NO_CE)
		return;
	if (ce != ca->ce) {
		if (icsk->icsk_ack.pending & ICSK_ACK_TIMER) {
			echo(tp, ca->ce);
			bpf_tcp_send_ack(tp, ca->received);
		}
		icsk->icsk_ack.pending |= ICSK_ACK_NOW;
		ca->ce = ce;
	}
	ca->received = tp->rcv_nxt;
	echo(tp, ce);
}

/* The name is made unique when it is registered: it is the whole machine's. */
SEC(".struct_ops")
struct tcp_congestion_ops dctcp = {
	.init = (void *)dctcp_init,
	.in_ack_event = (void *)dctcp_in_ack_event,
	.ssthresh = (void *)dctcp_ssthresh,
	.set_state = (void *)dctcp_set_state,
	.undo_cwnd = (void *)dctcp_undo_cwnd,
	.cong_avoid = (void *)dctcp_cong_avoid,
	.cwnd_event = (void *)dctcp_cwnd_event,
	.flags = TCP_CONG_NEEDS_ECN | TCP_CONG_NON_RESTRICTED,
	.name = "dctcp_00000000",
};
