/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * What becomes of a frame at a bottleneck, in fixed point and without a kernel: random loss, in bursts
 * or not, and RED (Floyd and Jacobson 1993).  Needs u8, u32, u64 and bool.
 */
#ifndef WEIR_BOTTLENECK_H
#define WEIR_BOTTLENECK_H 1

#include "splitmix.h"

#define BOTTLENECK_PASSES 0
#define BOTTLENECK_LOST 1
#define BOTTLENECK_RED 2

/* What one frame less than a mean one takes of the link, for the queue's idle time. */
#define BOTTLENECK_MOST_IDLE 128

/* As testbed/bottleneck.py writes and reads it. */
struct bottleneck {
	/* Of 2^32: how many frames are lost after one that was not, and after one that was. */
	u64 loss_after_kept, loss_after_lost;
	u64 random;			/* The state of the generator, first its seed. */
	u64 time_ns;			/* When the latest frame came. */
	u64 frame_ns;			/* What a mean frame takes of the link. */
	u32 min_bytes, max_bytes;	/* RED's thresholds; none if the second is 0. */
	u32 max_p;			/* Of 2^16: the probability as the average reaches max_bytes. */
	u32 weight_shift;		/* The weight of the queue's length in its average is 2^-this. */
	u32 average;			/* Bytes, times 2^weight_shift. */
	u32 since_drop;			/* Frames above min_bytes since RED has dropped one. */
	u32 lost;			/* Whether the latest frame was. */
	u32 longest_bytes;		/* Of all frames. */
	u64 seen[2], dropped[2], red[2];	/* Of the first receiver, and of the others. */
};

/* Which frames are lost follows from the seed and their numbers. */
static inline u32 bottleneck_random(struct bottleneck *at)
{
	return splitmix(at->random += SPLITMIX_STEP);
}

/* A chain of two states: the mean burst is 1 / (1 - loss_after_lost). */
static inline bool bottleneck_loses(struct bottleneck *at)
{
	u64 share = at->lost ? at->loss_after_lost : at->loss_after_kept;

	at->lost = bottleneck_random(at) < share;
	return at->lost;
}

/* Whether RED drops the frame that finds 'queue' bytes. */
static inline bool bottleneck_red(struct bottleneck *at, u64 now_ns, u32 queue)
{
	u64 idle = at->frame_ns ? (now_ns - at->time_ns) / at->frame_ns : 0, p;
	u32 average;

	if (queue) {
		at->average += queue - (at->average >> at->weight_shift);
	} else if (idle >= BOTTLENECK_MOST_IDLE) {
		at->average = 0;
	} else {
		/* As if so many frames had come and found nothing. */
		for (int n = 0; n < BOTTLENECK_MOST_IDLE && n < idle; n++)
			at->average -= at->average >> at->weight_shift;
	}
	average = at->average >> at->weight_shift;
	if (average < at->min_bytes) {
		at->since_drop = 0;
		return false;
	}
	at->since_drop++;
	if (average < at->max_bytes) {
		p = (u64)at->max_p * (average - at->min_bytes) / (at->max_bytes - at->min_bytes);
		/* p / (1 - n p): drops come at even distances rather than in bursts. */
		if (p * at->since_drop < 65536 &&
		    (bottleneck_random(at) >> 16) * (65536 - p * at->since_drop) >= p << 16)
			return false;
	}
	at->since_drop = 0;
	return true;
}

/* What becomes of a frame of 'bytes' to the receiver 'who' that finds 'queue' bytes. */
static inline int bottleneck_decide(struct bottleneck *at, u64 now_ns, u32 queue, u32 bytes, u32 who)
{
	u32 class = who ? 1 : 0;
	int what = BOTTLENECK_PASSES;

	at->seen[class]++;
	if (bytes > at->longest_bytes)
		at->longest_bytes = bytes;
	if (bottleneck_loses(at)) {
		at->dropped[class]++;
		what = BOTTLENECK_LOST;
	} else if (at->max_bytes && bottleneck_red(at, now_ns, queue)) {
		at->red[class]++;
		what = BOTTLENECK_RED;
	}
	at->time_ns = now_ns;
	return what;
}

#endif
