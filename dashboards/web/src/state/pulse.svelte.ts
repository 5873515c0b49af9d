/** What the whole page needs all the time: the overview, and where regulation is off. */

import { clockOff, controllerIsSilent, health } from '../model/health';
import type { Bypass, Overview } from '../model/types';
import { get } from './api';
import { Poll } from './poll.svelte';

export const overview = new Poll(() => get<Overview>('/v1/overview'), 1000);
export const bypasses = new Poll(
  async () => (await get<{ bypasses: Bypass[] }>('/v1/bypasses')).bypasses,
  3000,
);

export function start(): () => void {
  const ends = [overview.start(), bypasses.start()];
  return () => ends.forEach((end) => end());
}

/** Whether nothing on the page can be live: the API is silent, or the controller behind it. */
export const silent = (): boolean =>
  overview.stale || (overview.data !== null && controllerIsSilent(overview.data));

export const told = () => health(overview.data, bypasses.data ?? []);

/** Weir's time of day, in seconds since 1970, by its last answer; null without one. */
export function server_s(): number | null {
  const { data, answered } = overview;
  if (data === null || answered.at_ms === null) return null;
  return data.at_s + (performance.now() - answered.at_ms) / 1000;
}

export function clockNote(): string | null {
  const { data, answered } = overview;
  if (data === null || answered.at_ms === null) return null;
  const browser_s = (Date.now() - (performance.now() - answered.at_ms)) / 1000;
  return clockOff(data.at_s, browser_s);
}
