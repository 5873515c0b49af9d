/** The settings while somebody changes them. What was typed stays while other views are shown. */

import { changesOf, lostText, refusals, typedSince, type Drafts } from '../model/settings';
import type { Setting, Settings, SettingsChange, Step, Undoable } from '../model/types';
import { ApiError, get, mayBeDone, problemOf, read, send } from './api';
import { ofSession } from './forgetting';
import { Poll } from './poll.svelte';

const EVERY_MS = 3000;
const CONFLICT = 409;
const REFUSED = 422;

/** A change that the API would take, and that nobody has confirmed yet. */
interface Review {
  version: number;
  changes: Record<string, string | null>;
  /** What it was made of. */
  drafts: Drafts;
  steps: Step[];
}

export class Editing {
  readonly poll = new Poll(() => get<Settings>('/v1/settings'), EVERY_MS);
  drafts = $state.raw<Drafts>({});
  /** What was refused, by key; under '' what is about none of them. */
  refused = $state.raw<Record<string, string>>({});
  review = $state.raw<Review | null>(null);
  busy = $state(false);
  note = $state<string | null>(null);
  /** A change whose answer was lost, why, and when. */
  #lost = $state.raw<{ why: string; steps: readonly Step[]; at_ms: number } | null>(null);
  /** Answers of former sessions are nobody's. */
  #session = 0;

  /** What is known of a change whose answer was lost; null if none was. */
  get lost(): string | null {
    if (this.#lost === null) return null;
    const { why, steps, at_ms } = this.#lost;
    const isTold = (this.poll.answered.at_ms ?? -Infinity) > at_ms;
    return lostText(why, steps, isTold ? this.settings : null);
  }

  get settings(): readonly Setting[] {
    return this.poll.data?.settings ?? [];
  }

  get changes(): Record<string, string | null> {
    return changesOf(this.settings, this.drafts);
  }

  begin({ key, value }: Setting, text: string | null = value): void {
    this.note = null;
    this.#forgive(key);
    const was = this.drafts[key]?.was ?? value;
    this.drafts = { ...this.drafts, [key]: { text, was } };
  }

  cancel(key: string): void {
    this.#forgive(key);
    this.drafts = without(this.drafts, key);
  }

  discard(): void {
    this.drafts = {};
    this.leave();
    this.refused = {};
  }

  /** Forget all but what was typed. */
  leave(): void {
    this.review = null;
    this.note = null;
    this.#lost = null;
  }

  /** Forget all, of whoever was signed in. */
  forget(): void {
    this.#session += 1;
    this.discard();
    this.busy = false;
    this.poll.forget();
  }

  /** Ask whether the API would take it; `review` has the difference then. */
  async check(): Promise<void> {
    const { changes, drafts } = this;
    const version = this.poll.data?.version;
    if (version === undefined) return;
    const told = await this.#patch({ version, changes, only_try: true }, []);
    if (told === null) return;
    if (told.changes.length > 0) {
      this.review = { version, changes, drafts, steps: told.changes };
    } else {
      this.drafts = typedSince(this.drafts, drafts, []);
      this.note = 'That is in force already.';
    }
  }

  /** Put in force what was looked at, unless somebody has changed something since. */
  async confirm(): Promise<void> {
    if (this.review === null) return;
    const { version, changes, drafts, steps } = this.review;
    const told = await this.#patch({ version, changes, only_try: false }, steps);
    this.review = null;
    if (told === null) return;
    this.drafts = typedSince(this.drafts, drafts, told.changes);
    this.note = inForce(told);
  }

  async undo({ id, changes }: Undoable): Promise<void> {
    const steps = changes.map(({ key, from, to }) => ({ key, from: to, to: from }));
    const told = await this.#send('POST', '/v1/settings/undo', { id }, steps);
    if (told !== null) this.note = inForce(told);
  }

  #patch(body: unknown, steps: readonly Step[]): Promise<SettingsChange | null> {
    return this.#send('PATCH', '/v1/settings', body, steps);
  }

  /** `steps`: what this changes. Returns null if it was refused, or is nobody's any more. */
  async #send(
    method: string,
    path: string,
    body: unknown,
    steps: readonly Step[],
  ): Promise<SettingsChange | null> {
    const session = this.#session;
    this.busy = true;
    this.refused = {};
    this.note = null;
    this.#lost = null;
    try {
      const told = await read<SettingsChange>(await send(method, path, body));
      return session === this.#session ? told : null;
    } catch (error) {
      if (session !== this.#session) return null;
      if (steps.length > 0 && mayBeDone(error)) {
        this.#lost = { why: problemOf(error), steps, at_ms: performance.now() };
      } else {
        this.refused = this.#why(error);
      }
      return null;
    } finally {
      if (session === this.#session) {
        this.busy = false;
        this.poll.now();
      }
    }
  }

  #why(error: unknown): Record<string, string> {
    const text = problemOf(error);
    const status = error instanceof ApiError ? error.status : 0;
    if (status === CONFLICT) {
      return {
        '': 'Somebody has changed settings since you looked. What is in force is shown now, and what you have typed is still here: look at it again.',
      };
    }
    const keys = status === REFUSED ? this.settings.map(({ key }) => key) : [];
    return refusals(text, keys);
  }

  #forgive(key: string): void {
    this.refused = without(this.refused, key);
  }
}

export const editing = ofSession(new Editing());

function without<T>(all: Readonly<Record<string, T>>, key: string): Record<string, T> {
  return Object.fromEntries(Object.entries(all).filter(([name]) => name !== key));
}

function inForce({ changes, kept }: SettingsChange): string {
  const what = changes.map(({ key, to }) => `${key} is ${to}`).join(', ');
  const ends = kept
    ? ''
    : ' The controller could not keep it, or has no state directory: it ends with its next start.';
  return `In force: ${what}.${ends}`;
}
