/** The history of a port, or of the totals, over a span that goes on. */

import { merge, since, SPANS, times, type Span } from '../model/series';
import type { History } from '../model/types';
import { get } from './api';
import { Poll } from './poll.svelte';
import { server_s } from './pulse.svelte';

/** How often each span moves on by something that can be seen. */
const EVERY_MS: Record<Span, number> = { '10min': 1000, '1h': 5000, '1d': 30_000 };

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
  ) {
    this.poll = new Poll(() => this.#ask(), EVERY_MS[span]);
  }

  get history(): History | null {
    return this.poll.data;
  }

  get times(): number[] {
    return this.poll.data === null ? [] : times(this.poll.data);
  }

  async #ask(): Promise<History> {
    const span_s = SPANS[this.span];
    const now_s = server_s();
    const from_s =
      now_s === null ? null : (since(this.#known, now_s, span_s) ?? now_s - span_s + 1);
    const newer = await get<History>('/v1/history', {
      switch: this.place?.datapath_id ?? null,
      port: this.place?.port ?? null,
      from: from_s?.toFixed(3) ?? null,
    });
    // Without Weir's time, that was only what it tells unasked.
    if (from_s === null) return newer;
    this.#known = merge(this.#known, newer, span_s);
    return this.#known;
  }
}
