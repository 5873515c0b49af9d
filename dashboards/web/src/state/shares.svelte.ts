/** Announced flows and what they may send, as it changes. */

import { Announced } from '../model/shares';
import type { Share } from '../model/types';
import { get } from './api';
import { Stream } from './stream.svelte';

export class Shares extends Stream {
  /** Those that are announced, the largest share first; null: not known yet. */
  flows = $state.raw<readonly Share[] | null>(null);
  #announced = new Announced();

  constructor() {
    super('/v1/fountains/stream', 'announced flows');
  }

  protected async begin(): Promise<void> {
    this.#announced = new Announced();
    this.take((await get<{ fountains: Share[] }>('/v1/fountains')).fountains);
  }

  protected take(shares: readonly unknown[]): void {
    this.#announced.take(shares as readonly Share[]);
    this.flows = this.#announced.flows;
  }
}
