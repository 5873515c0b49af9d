/** What is picked on the charts of one time axis: picked on one of them, shown on all. */

import { getContext, setContext } from 'svelte';

import type { Interval } from '../model/interval';

const KEY = Symbol('picking');

export class Picking {
  picked = $state.raw<Interval | null>(null);

  constructor(
    /** What the charts show, where that does not follow from their values. */
    readonly shown: () => Interval | null,
    /** Show all of it again. */
    readonly reset: () => void,
  ) {}
}

export const offer = (picking: Picking): Picking => setContext(KEY, picking);
/** Undefined where nothing can be picked. */
export const offered = (): Picking | undefined => getContext(KEY);
