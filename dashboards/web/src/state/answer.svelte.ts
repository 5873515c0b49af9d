/** A question about what is past: asked until it is answered, and then no more. */

import { untrack } from 'svelte';

import { pause_ms } from '../model/freshness';
import { ApiError, problemOf } from './api';

const AGAIN_MS = 1000;

export class Answer<T> {
  data = $state.raw<T | null>(null);
  problem = $state<string | null>(null);
  /** Whether it is asked again, and `data` is what was told before. */
  renewing = $state(false);

  constructor(private readonly ask: () => Promise<T>) {}

  /** Ask until there is an answer, or the returned function is called. A question that is refused
   * is not asked again. */
  start(): () => void {
    let ended = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const round = async (failures: number): Promise<void> => {
      try {
        const data = await this.ask();
        if (ended) return;
        this.data = data;
        this.problem = null;
        this.renewing = false;
      } catch (error) {
        if (ended) return;
        this.problem = problemOf(error);
        if (error instanceof ApiError && REFUSED.has(error.status)) return;
        timer = setTimeout(() => void round(failures + 1), pause_ms(AGAIN_MS, failures, 0));
      }
    };
    // Whether something was told is no reason for an effect to start this anew.
    this.renewing = untrack(() => this.data !== null);
    void round(1);
    return () => {
      ended = true;
      clearTimeout(timer);
    };
  }
}

/** Not found, and not to be understood. */
const REFUSED = new Set([400, 404, 422]);
