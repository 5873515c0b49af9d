/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * Which frames of TCP's data are lost, without a kernel.  Needs u16, u32, u64 and bool.
 */
#ifndef WEIR_DATALOSS_H
#define WEIR_DATALOSS_H 1

#include "splitmix.h"

/* Of a connection's frames so many are remembered one by one. */
#define DATALOSS_REMEMBERED 64

/* As testbed/dataloss.py writes it. */
struct dataloss {
	u64 share;		/* Of 2^32: how many frames are lost. */
	u64 seed;
	u64 spared;		/* The first frames of each connection, which pass. */
};

/* The frames of a connection that carry data, as testbed/dataloss.py reads it. */
struct dataloss_connection {
	u64 lost;		/* Bit n: the frame of this number was, of those that are not spared. */
	u32 frames;		/* Spared ones, too. */
	u32 longest_bytes;	/* The most data of a frame. */
};

/* Whether the next frame of the connection from 'port' is lost, one with 'bytes' of data.  That follows from seed,
 * port and number, however the frames of several connections mix. */
static inline bool dataloss_loses(const struct dataloss *of, struct dataloss_connection *at, u16 port, u32 bytes)
{
	u32 number = at->frames++;
	bool lost;

	if (bytes > at->longest_bytes)
		at->longest_bytes = bytes;
	if (number < of->spared)
		return false;
	number -= of->spared;
	lost = splitmix(of->seed + SPLITMIX_STEP * ((u64)port << 32 | number)) < of->share;
	if (lost && number < DATALOSS_REMEMBERED)
		at->lost |= 1ULL << number;
	return lost;
}

#endif
