/** A question that is asked again and again while somebody looks at the answer. */

import { untrack } from 'svelte';

import {
  answeredAt_ms,
  isStale,
  NEVER,
  pause_ms,
  type Answered,
  STALE_AFTER_S,
} from '../model/freshness';
import { problemOf } from './api';
import { clock } from './clock.svelte';
import { isLookedAt, whenLookedAt } from './tab';

export class Poll<T> {
  /** The last answer. */
  data = $state.raw<T | null>(null);
  answered = $state.raw<Answered>(NEVER);
  /** Whether it has not asked for a while, since nobody looked, and has hardly had time to since. */
  rested = $state(false);
  #again: () => void = () => undefined;
  /** Answers to what was asked before it forgot are not taken. */
  #forgotten = 0;

  constructor(
    private readonly ask: () => Promise<T>,
    private readonly every_ms: number,
  ) {}

  get problem(): string | null {
    return this.answered.problem;
  }

  /** Whether the answer is too old to be shown as live. Slow questions have their own pace. */
  get stale(): boolean {
    const slack_ms = Math.max(0, this.every_ms - 1000);
    return isStale(this.answered, clock.now_ms - slack_ms);
  }

  /** Ask until the returned function is called, but not while nobody looks. */
  start(): () => void {
    let ended = false;
    let failures = 0;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let asking = false;
    let due = false;
    const round = async (): Promise<void> => {
      if (ended) return;
      if (!isLookedAt()) {
        this.rested = true;
        return;
      }
      if (this.rested) setTimeout(() => (this.rested &&= !isLookedAt()), STALE_AFTER_S * 1000);
      if (asking) return;
      due = false;
      asking = true;
      clearTimeout(timer);
      const begun_ms = performance.now();
      const forgotten = this.#forgotten;
      const isVain = (): boolean => ended || forgotten !== this.#forgotten;
      try {
        const data = await this.ask();
        if (isVain()) return;
        this.data = data;
        this.answered = { at_ms: answeredAt_ms(begun_ms, performance.now()), problem: null };
        this.rested = false;
        failures = 0;
      } catch (error) {
        if (isVain()) return;
        this.answered = { ...this.answered, problem: problemOf(error) };
        this.rested = false;
        failures += 1;
      } finally {
        asking = false;
      }
      // What was asked for meanwhile may not be what this answer was about.
      if (due) return round();
      const took_ms = performance.now() - begun_ms;
      timer = setTimeout(
        () => void round(),
        pause_ms(this.every_ms, failures, failures ? 0 : took_ms),
      );
    };
    // A browser slows the timers of what nobody sees.
    const seen = (): void => {
      if (!document.hidden) void round();
    };
    this.#again = () => {
      due = true;
      void round();
    };
    document.addEventListener('visibilitychange', seen);
    const forget = whenLookedAt(seen);
    // What the question reads is no reason for an effect to start this anew.
    untrack(() => void round());
    return () => {
      ended = true;
      clearTimeout(timer);
      document.removeEventListener('visibilitychange', seen);
      forget();
    };
  }

  /** Nothing is known any more. Whoever goes on with it starts it anew. */
  forget(): void {
    this.#forgotten += 1;
    this.data = null;
    this.answered = NEVER;
    this.rested = false;
  }

  /** Ask at once. */
  now(): void {
    this.#again();
  }
}
