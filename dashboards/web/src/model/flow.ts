/** What is worked out of one flow: its rate, and where it is held most. */

import type { Flow, Hop } from './types';

/** The switches' counters are read every half second or so, hence over many readings. */
const OVER_S = 10;

interface Reading {
  age_s: number;
  volume_bytes: number;
}

/** The rate of a flow's payload over the last 10 s, by the controller's clock. */
export class FlowRate {
  #readings: Reading[] = [];

  take({ age_s, volume_bytes, counted }: Pick<Flow, 'age_s' | 'volume_bytes' | 'counted'>): void {
    const last = this.#readings.at(-1);
    if (last !== undefined && age_s === last.age_s) return;
    // Another connection between the same ports, or a controller that has learnt it anew.
    const another = last !== undefined && (age_s < last.age_s || volume_bytes < last.volume_bytes);
    if (!counted || another) this.#readings = [];
    if (!counted) return;
    this.#readings.push({ age_s, volume_bytes });
    while ((this.#readings[0]?.age_s ?? age_s) < age_s - OVER_S) this.#readings.shift();
  }

  /** In bit/s; null if it is not known (yet). */
  get bps(): number | null {
    const [first, last] = [this.#readings[0], this.#readings.at(-1)];
    if (first === undefined || last === undefined || last.age_s - first.age_s < 1) return null;
    return ((last.volume_bytes - first.volume_bytes) * 8) / (last.age_s - first.age_s);
  }
}

/** The smallest value above 0 that `of` finds along a path, and the hop that has it. */
export function least(
  hops: readonly Hop[],
  of: (hop: Hop) => number | undefined,
): { value: number; hop: Hop } | null {
  let found: { value: number; hop: Hop } | null = null;
  for (const hop of hops) {
    const value = of(hop) ?? 0;
    if (value > 0 && (found === null || value < found.value)) found = { value, hop };
  }
  return found;
}
