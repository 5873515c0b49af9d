/** The part of a long list of flows that is in sight. The server searches and sorts. */

import type { Flow, Flows } from '../model/types';
import { windowOf, REACH } from '../model/window';
import { get } from './api';
import { Poll } from './poll.svelte';

const EVERY_MS = 3000;
/** While somebody scrolls, most of what comes by is not asked for. */
const SETTLED_MS = 60;

type Query = Record<string, string | number | null>;

export class FlowRows {
  readonly poll: Poll<Flows>;
  /** The rows that have been told, by their places. */
  rows = $state.raw<ReadonlyMap<number, Flow>>(new Map());
  /** Null: not known yet. */
  total = $state<number | null>(null);
  #seen = { first: 0, last: 0 };
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly query: Query) {
    this.poll = new Poll(() => this.#ask(), EVERY_MS);
  }

  /** How many of them can be shown. */
  get reached(): number {
    return Math.min(this.total ?? 0, REACH);
  }

  /** Ask for these rows, the last included, until others are in sight. */
  see(first: number, last: number): void {
    this.#seen = { first, last };
    clearTimeout(this.#timer);
    for (let at = first; at <= Math.min(last, this.reached - 1); at += 1) {
      if (!this.rows.has(at)) {
        this.#timer = setTimeout(() => this.poll.now(), SETTLED_MS);
        return;
      }
    }
  }

  async #ask(): Promise<Flows> {
    const { offset, limit } = windowOf(this.#seen.first, this.#seen.last);
    const told = await get<Flows>('/v1/flows', { ...this.query, limit, offset });
    const rows = new Map(told.flows.map((flow, n) => [told.offset + n, flow]));
    // What is just out of sight stays until it is asked for again.
    for (const [at, flow] of this.rows) {
      const near = at >= offset - limit && at < offset + 2 * limit;
      if (near && at < told.total && !rows.has(at)) rows.set(at, flow);
    }
    this.rows = rows;
    this.total = told.total;
    return told;
  }
}
