/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * The arithmetic of DCTCP (RFC 8257), in fixed point and without a kernel: compiled for BPF, and for
 * the host by its test.  Needs u32, s32, u64 and bool.
 */
#ifndef WEIR_DCTCP_H
#define WEIR_DCTCP_H 1

/* Section 4.2: DCTCP.Alpha times this, and the estimation gain g (section 3.3), too. */
#define DCTCP_ONE 65536

/* The gain that section 4.2 recommends: 1/16. */
#define DCTCP_USUAL_GAIN 4096

/* RFC 5681, Eq. (4): never less than two segments. */
#define DCTCP_MIN_SSTHRESH 2

static inline u32 dctcp_share(u32 of, u32 gain)
{
	return (u64)of * gain / DCTCP_ONE;
}

/* The congestion estimate at the end of an observation window (sections 3.3, steps 5 and 6, and 4.2).
 *
 * 'alpha' is the estimate so far; 'marked' of the 'delivered' segments of the window were reported to
 * have met congestion. */
static inline u32 dctcp_alpha(u32 alpha, u32 delivered, u32 marked, u32 gain)
{
	u32 level;

	if (!delivered)
		return alpha;
	level = marked < delivered ? (u64)DCTCP_ONE * marked / delivered : DCTCP_ONE;

	/* What no longer reaches the gain would otherwise stay for ever. */
	if (!dctcp_share(alpha, gain))
		alpha = 0;
	return alpha + dctcp_share(level, gain) - dctcp_share(alpha, gain);
}

static inline u32 dctcp_at_least_min(u32 segments)
{
	return segments > DCTCP_MIN_SSTHRESH ? segments : DCTCP_MIN_SSTHRESH;
}

/* The window, in segments, after one in which congestion was reported (section 3.3, step 9). */
static inline u32 dctcp_reduced(u32 cwnd, u32 alpha)
{
	return dctcp_at_least_min(cwnd - (u32)((u64)cwnd * alpha / (2 * DCTCP_ONE)));
}

/* The window, in segments, after a loss: as any TCP's (section 3.5, RFC 5681). */
static inline u32 dctcp_halved(u32 cwnd)
{
	return dctcp_at_least_min(cwnd / 2);
}

/* Whether the observation window that ends at sequence number 'end' is over (section 3.3, step 4). */
static inline bool dctcp_window_over(u32 acknowledged, u32 end)
{
	return (s32)(acknowledged - end) > 0;
}

#endif
