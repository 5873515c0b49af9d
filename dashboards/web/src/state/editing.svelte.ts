/** The settings while somebody changes them. What was typed stays while other views are shown. */

import { changesOf, refusals, type Drafts } from '../model/settings';
import type { Setting, Settings, SettingsChange, Step } from '../model/types';
import { ApiError, get, problemOf, read, send } from './api';
import { Poll } from './poll.svelte';

const EVERY_MS = 3000;
const CONFLICT = 409;
const REFUSED = 422;

/** A change that the API would take, and that nobody has confirmed yet. */
interface Review {
  version: number;
  changes: Record<string, string | null>;
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
    this.refused = {};
    this.review = null;
  }

  /** Ask whether the API would take it; `review` has the difference then. */
  async check(): Promise<void> {
    const { changes } = this;
    const version = this.poll.data?.version;
    if (version === undefined) return;
    const told = await this.#patch({ version, changes, only_try: true });
    if (told === null) return;
    if (told.changes.length > 0) {
      this.review = { version, changes, steps: told.changes };
    } else {
      this.discard();
      this.note = 'That is in force already.';
    }
  }

  /** Put in force what was looked at, unless somebody has changed something since. */
  async confirm(): Promise<void> {
    if (this.review === null) return;
    const { version, changes } = this.review;
    const told = await this.#patch({ version, changes, only_try: false });
    this.review = null;
    if (told === null) return;
    this.discard();
    this.note = inForce(told);
  }

  async undo(id: string): Promise<void> {
    const told = await this.#send('POST', '/v1/settings/undo', { id });
    if (told !== null) this.note = inForce(told);
  }

  #patch(body: unknown): Promise<SettingsChange | null> {
    return this.#send('PATCH', '/v1/settings', body);
  }

  async #send(method: string, path: string, body: unknown): Promise<SettingsChange | null> {
    this.busy = true;
    this.refused = {};
    this.note = null;
    try {
      return await read<SettingsChange>(await send(method, path, body));
    } catch (error) {
      this.refused = this.#why(error);
      return null;
    } finally {
      this.busy = false;
      this.poll.now();
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

export const editing = new Editing();

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
