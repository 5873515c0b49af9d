/** What the whole page needs all the time: the overview, and where regulation is off. */

import { clockOff, controllerIsSilent, health, toldAt_s } from '../model/health';
import type { Bypass, Overview } from '../model/types';
import { get } from './api';
import { ofSession } from './forgetting';
import { Poll } from './poll.svelte';

/** So often that congestion is on the screen within a second: the API hears of it in a tenth. */
const OVERVIEW_MS = 500;

export const overview = ofSession(new Poll(() => get<Overview>('/v1/overview'), OVERVIEW_MS));
export const bypasses = ofSession(
  new Poll(async () => (await get<{ bypasses: Bypass[] }>('/v1/bypasses')).bypasses, 3000),
);

export function start(): () => void {
  const ends = [overview.start(), bypasses.start()];
  return () => ends.forEach((end) => end());
}

/** Whether nothing on the page can be live: the API is silent, or the controller behind it. */
export const silent = (): boolean =>
  overview.stale || (overview.data !== null && controllerIsSilent(overview.data));

export const told = () => health(overview.data, bypasses.stale ? null : bypasses.data);

/** What to add to this browser's clock that does not jump to have Weir's time of day, in seconds
 * since 1970; null if it is not known yet. */
function offset_s(): number | null {
  const { data, answered } = overview;
  const told_s = data === null ? null : toldAt_s(data);
  return told_s === null || answered.at_ms === null ? null : told_s - answered.at_ms / 1000;
}

/** Weir's time of day, in seconds since 1970; null if it is not known yet. */
export function server_s(): number | null {
  const offset = offset_s();
  return offset === null ? null : offset + performance.now() / 1000;
}

export function clockNote(): string | null {
  const now_s = server_s();
  return now_s === null ? null : clockOff(now_s, Date.now() / 1000);
}
