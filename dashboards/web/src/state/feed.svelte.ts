/** Events as they come: those of the last while, then the stream. */

import { Tail } from '../model/events';
import type { WeirEvent } from '../model/types';
import { get } from './api';
import { Stream } from './stream.svelte';

const REMEMBERED = 1000;

export class Feed extends Stream {
  /** The latest events, the newest last. Another array whenever there are new ones. */
  events = $state.raw<readonly WeirEvent[]>([]);
  #tail = new Tail();

  constructor() {
    super('/v1/events/stream', 'events');
  }

  protected async begin(): Promise<void> {
    this.take((await get<{ events: WeirEvent[] }>('/v1/events', { limit: REMEMBERED })).events);
  }

  protected take(events: readonly unknown[]): void {
    if (this.#tail.take(events as readonly WeirEvent[])) this.events = [...this.#tail.events];
  }
}
