/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * SplitMix64 (Steele, Lea and Flood 2014), without a kernel.  Needs u32 and u64.
 */
#ifndef WEIR_SPLITMIX_H
#define WEIR_SPLITMIX_H 1

/* By this its state grows from one number to the next. */
#define SPLITMIX_STEP 0x9e3779b97f4a7c15ULL

/* The number that belongs to a state. */
static inline u32 splitmix(u64 z)
{
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return (z ^ (z >> 31)) >> 32;
}

#endif
