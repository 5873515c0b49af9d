/** Events as they come: those of the last while, then the stream. */

import { MISSED, MOST, Tail } from '../model/events';
import type { WeirEvent } from '../model/types';
import { get } from './api';
import { Stream } from './stream.svelte';

const REMEMBERED = 1000;

export class Feed extends Stream {
  /** The latest events, the newest last. Another array whenever there are new ones. */
  events = $state.raw<readonly WeirEvent[]>([]);
  /** From when on all of them are there, in seconds since 1970; null: not known yet. */
  since_s = $state<number | null>(null);
  #tail = new Tail();
  #newest_s = -Infinity;

  /** Without `wanted`, of all events. */
  constructor(private readonly wanted: (event: WeirEvent) => boolean = () => true) {
    super('/v1/events/stream', 'events');
  }

  protected async begin(): Promise<void> {
    const { events } = await get<{ events: WeirEvent[] }>('/v1/events', { limit: REMEMBERED });
    const first_s = events[0]?.wall_s ?? Infinity;
    // More has happened, while nobody listened, than is told now: what is from before would be
    // taken for the event before these.
    const hole = events.length >= REMEMBERED && first_s > this.#newest_s;
    if (hole) this.#tail = new Tail();
    if (hole || this.since_s === null) this.since_s = first_s;
    this.take(events);
  }

  protected take(events: readonly unknown[]): void {
    const told = events as readonly WeirEvent[];
    for (const { event, wall_s } of told) {
      // What is from before a hole is not all there was.
      if (event === MISSED) this.since_s = Infinity;
      else if (this.since_s === Infinity) this.since_s = wall_s ?? Infinity;
      this.#newest_s = Math.max(this.#newest_s, wall_s ?? -Infinity);
    }
    if (!this.#tail.take(told.filter(this.wanted))) return;
    this.events = [...this.#tail.events];
    const oldest_s = this.events[0]?.wall_s;
    if (this.events.length === MOST && oldest_s !== undefined) {
      this.since_s = Math.max(this.since_s ?? oldest_s, oldest_s);
    }
  }
}
