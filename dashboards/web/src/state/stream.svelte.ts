/** A stream of the API: connected again when it ends, and given up while nobody looks. */

import { parse } from '../model/json';
import { Parser } from '../model/sse';
import { problemOf, send } from './api';
import { silent } from './pulse.svelte';
import { isLookedAt, untilLookedAt, whenLookedAt } from './tab';

const AGAIN_MS = 1000;
const FLUSH_MS = 200;
/** The API sends something at least every 10 s, so that a stream that is gone can be told. */
const QUIET_MS = 40_000;

export abstract class Stream {
  connected = $state(false);
  problem = $state<string | null>(null);

  constructor(
    private readonly path: string,
    /** What it tells of, for people. */
    private readonly name: string,
  ) {}

  /** Whether what it has told is all there is now. */
  get live(): boolean {
    return this.connected && !silent();
  }

  /** That it is live, or why it is not. */
  get state(): string {
    if (this.live) return 'Live';
    return this.problem ?? (this.connected ? 'Not live' : 'Connecting…');
  }

  /** Ask for what was before. The stream is open already, so that nothing is missed between. */
  protected abstract begin(): Promise<void>;

  /** Take what the stream has told. */
  protected abstract take(messages: readonly unknown[]): void;

  /** Listen until the returned function is called. */
  start(): () => void {
    const end = new AbortController();
    void this.#listen(end.signal);
    return () => end.abort();
  }

  async #listen(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await untilLookedAt();
      const end = new AbortController();
      const forget = whenLookedAt(() => end.abort());
      try {
        await this.#follow(AbortSignal.any([signal, end.signal]));
        this.problem = `The stream of ${this.name} has ended.`;
      } catch (error) {
        if (signal.aborted) return;
        this.problem = isLookedAt() ? problemOf(error) : null;
      } finally {
        forget();
        end.abort();
        this.connected = false;
      }
      if (isLookedAt()) await new Promise((resume) => setTimeout(resume, AGAIN_MS));
    }
  }

  async #follow(signal: AbortSignal): Promise<void> {
    const response = await send('GET', this.path, undefined, signal);
    if (response.body === null) return;
    await this.begin();
    this.connected = true;
    this.problem = null;
    const parser = new Parser();
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let waiting: unknown[] = [];
    const flush = (): void => {
      if (waiting.length > 0) this.take(waiting);
      waiting = [];
    };
    const timer = setInterval(flush, FLUSH_MS);
    try {
      for (;;) {
        const { done, value } = await this.#within(reader.read());
        if (done) return;
        for (const { data } of parser.take(value)) waiting.push(parse(data));
      }
    } finally {
      clearInterval(timer);
      flush();
    }
  }

  async #within<T>(work: Promise<T>): Promise<T> {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const late = new Promise<never>((_, refuse) => {
      const silent = new Error(`The stream of ${this.name} is silent.`);
      timer = setTimeout(() => refuse(silent), QUIET_MS);
    });
    try {
      return await Promise.race([work, late]);
    } finally {
      clearTimeout(timer);
    }
  }
}
