/** What ports send, from two readings of their counters. */

import type { Port, Queue } from './types';

export const portId = (port: { datapath_id: string; port: number }): string =>
  `${port.datapath_id}:${port.port}`;

export const LEVELS = [null, 'L', 'M', 'H'] as const;

/** The queue of a port that says most of it. */
export const worstQueue = (port: Port): Queue | undefined =>
  port.queues.reduce<Queue | undefined>(
    (worst, queue) =>
      worst === undefined ||
      queue.level > worst.level ||
      (queue.level === worst.level && queue.queue_bytes > worst.queue_bytes)
        ? queue
        : worst,
    undefined,
  );

/** The rate that a port can send at: that of its queues, which may be slower than the port. */
export function capacity_bps(port: Port): number {
  const served = Math.max(0, ...port.queues.map((queue) => queue.rate_bps));
  return served || port.speed_bps;
}

/** A switch tells of its queues every 2 s or sooner. */
const BELIEVED_MS = 6000;

interface Reading {
  /** When it was first seen, by the page's clock. */
  at_ms: number;
  sent_bytes: number;
  switch_time_ns: number;
}

/** Rates by the switches' own clocks. A reading that its switch has not renewed
 * changes nothing, until it is too old to be believed. */
export class Rates {
  #readings = new Map<string, Reading>();
  #rates = new Map<string, number>();

  take(ports: readonly Port[], now_ms = performance.now()): void {
    for (const port of ports) {
      const first = port.queues[0];
      if (first === undefined) continue;
      const id = portId(port);
      const now: Reading = {
        at_ms: now_ms,
        sent_bytes: port.queues.reduce((sum, queue) => sum + queue.sent_bytes, 0),
        switch_time_ns: first.switch_time_ns,
      };
      const before = this.#readings.get(id);
      const passed_ns = before ? now.switch_time_ns - before.switch_time_ns : 0;
      if (before && passed_ns === 0) {
        if (now_ms - before.at_ms > BELIEVED_MS) this.#rates.delete(id);
        continue;
      }
      if (before && passed_ns > 0 && now.sent_bytes >= before.sent_bytes) {
        this.#rates.set(id, ((now.sent_bytes - before.sent_bytes) * 8e9) / passed_ns);
      } else {
        // The first reading, or a switch that has started anew.
        this.#rates.delete(id);
      }
      this.#readings.set(id, now);
    }
  }

  /** In bit/s; null if it is not known (yet). */
  of(id: string): number | null {
    return this.#rates.get(id) ?? null;
  }
}
