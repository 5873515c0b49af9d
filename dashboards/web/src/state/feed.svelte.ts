/** Events as they come: those of the last while, then the stream; connected again when it ends. */

import { Tail } from '../model/events';
import { parse } from '../model/json';
import { Parser } from '../model/sse';
import type { WeirEvent } from '../model/types';
import { get, problemOf, send } from './api';

const AGAIN_MS = 1000;
const FLUSH_MS = 200;
const REMEMBERED = 1000;
/** The API sends something at least every 10 s, so that a stream that is gone can be told. */
const QUIET_MS = 40_000;

export class Feed {
  /** The latest events, the newest last. Another array whenever there are new ones. */
  events = $state.raw<readonly WeirEvent[]>([]);
  connected = $state(false);
  problem = $state<string | null>(null);
  #tail = new Tail();

  /** Listen until the returned function is called. */
  start(): () => void {
    const end = new AbortController();
    void this.#listen(end.signal);
    return () => end.abort();
  }

  async #listen(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        const end = new AbortController();
        try {
          await this.#follow(AbortSignal.any([signal, end.signal]));
        } finally {
          end.abort();
        }
        this.problem = 'The stream of events has ended.';
      } catch (error) {
        if (signal.aborted) return;
        this.problem = problemOf(error);
      }
      this.connected = false;
      await new Promise((resume) => setTimeout(resume, AGAIN_MS));
    }
  }

  async #follow(signal: AbortSignal): Promise<void> {
    const response = await send('GET', '/v1/events/stream', undefined, signal);
    if (response.body === null) return;
    // The stream first, so that nothing is missed between the two.
    const earlier = await get<{ events: WeirEvent[] }>('/v1/events', { limit: REMEMBERED });
    this.#take(earlier.events);
    this.connected = true;
    this.problem = null;
    const parser = new Parser();
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let waiting: WeirEvent[] = [];
    const flush = setInterval(() => {
      if (waiting.length > 0) this.#take(waiting);
      waiting = [];
    }, FLUSH_MS);
    try {
      for (;;) {
        const { done, value } = await within(reader.read(), QUIET_MS);
        if (done) return;
        for (const { data } of parser.take(value)) waiting.push(parse(data) as WeirEvent);
      }
    } finally {
      clearInterval(flush);
      this.#take(waiting);
    }
  }

  #take(events: readonly WeirEvent[]): void {
    if (this.#tail.take(events)) this.events = [...this.#tail.events];
  }
}

async function within<T>(work: Promise<T>, patience_ms: number): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, refuse) => {
    timer = setTimeout(() => refuse(new Error('The stream of events is silent.')), patience_ms);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}
