/** The history of a port, or of the totals: over a span that goes on, or of one interval. */

import type { Interval } from '../model/interval';
import { merge, since, SPANS, times, type Span } from '../model/series';
import type { History } from '../model/types';
import { get } from './api';
import { Poll } from './poll.svelte';
import { server_s } from './pulse.svelte';

/** How often each span moves on by something that can be seen. */
const EVERY_MS: Record<Span, number> = { '10min': 1000, '1h': 5000, '1d': 30_000, '1w': 120_000 };

export interface Place {
  datapath_id: string;
  port: number;
}

export class Past {
  readonly poll: Poll<History>;
  #known: History | null = null;

  constructor(
    private readonly span: Span,
    private readonly place: Place | null,
    interval: Interval | null = null,
  ) {
    this.poll =
      interval === null
        ? new Poll(() => this.#ask(), EVERY_MS[span])
        : new Poll(() => this.#askFor(interval), 5000);
  }

  get history(): History | null {
    return this.poll.data;
  }

  get times(): number[] {
    return this.poll.data === null ? [] : times(this.poll.data);
  }

  /** With a value before and after it, so that lines go on to its ends. */
  #askFor({ from_s, to_s }: Interval): Promise<History> {
    const more_s = 20;
    return this.#get(from_s - more_s, to_s + more_s);
  }

  async #ask(): Promise<History> {
    const span_s = SPANS[this.span];
    const now_s = server_s();
    const from_s =
      now_s === null ? null : (since(this.#known, now_s, span_s) ?? now_s - span_s + 1);
    const newer = await this.#get(from_s, null);
    // Without Weir's time, that was only what it tells unasked.
    if (from_s === null) return newer;
    this.#known = merge(this.#known, newer, span_s);
    return this.#known;
  }
  #get(from_s: number | null, to_s: number | null): Promise<History> {
    return get<History>('/v1/history', {
      switch: this.place?.datapath_id ?? null,
      port: this.place?.port ?? null,
      from: from_s?.toFixed(3) ?? null,
      to: to_s?.toFixed(3) ?? null,
    });
  }
}
