/** The health of the fabric in one line. */

import { duration } from './format';
import { STALE_AFTER_S } from './freshness';
import type { Bypass, Overview } from './types';

export type Mood = 'good' | 'watch' | 'bad' | 'unknown';

export interface Health {
  mood: Mood;
  text: string;
}

const plural = (n: number, one: string, many = `${one}s`): string => `${n} ${n === 1 ? one : many}`;

/** Weir's time of day when it told this; null if it is not known yet. */
export const toldAt_s = ({ at_s, controller }: Overview): number | null =>
  at_s === null ? null : at_s + (controller.age_s ?? 0);

/** Whether the controller no longer answers the API. */
export const controllerIsSilent = (overview: Overview): boolean =>
  overview.controller.age_s === null || overview.controller.age_s > STALE_AFTER_S;

/** The worst comes first; the mood is that of the worst. `bypasses`: null if they are not known. */
export function health(overview: Overview | null, bypasses: readonly Bypass[] | null): Health {
  if (overview === null) return { mood: 'unknown', text: 'No answer yet' };
  const { controller, switches, ports, congested } = overview;
  const told: Health[] = [];
  if (controllerIsSilent(overview)) {
    const since = controller.age_s === null ? '' : ` for ${duration(controller.age_s)}`;
    told.push({ mood: 'bad', text: `the controller has not answered${since}` });
  } else if (!controller.ready) {
    told.push({ mood: 'bad', text: controller.detail ?? 'the controller is not ready' });
  }
  const away = switches.known - switches.ready;
  if (away > 0) told.push({ mood: 'bad', text: `${away} of ${switches.known} switches not ready` });
  if (switches.known === 0) told.push({ mood: 'watch', text: 'no switch has connected yet' });
  if (ports.congested > 0) {
    const worst = congested[0];
    const where = worst ? `, worst ${worst.name} at CN-${worst.level}` : '';
    const mood = worst?.level === 'H' ? 'bad' : 'watch';
    told.push({ mood, text: `${plural(ports.congested, 'congested port')}${where}` });
  }
  const silent = controller.silent ?? [];
  if (silent.length > 0) {
    const who =
      silent.length === 1 ? `controller ${silent[0]} is` : `${silent.length} controllers are`;
    told.push({ mood: 'watch', text: `${who} not heard` });
  }
  if (bypasses === null) {
    told.push({ mood: 'watch', text: 'where regulation is on is not known' });
  } else if (bypasses.length > 0) {
    const everywhere = bypasses.some((bypass) => bypass.datapath_id === null);
    const where = everywhere ? 'everywhere' : `at ${plural(bypasses.length, 'place')}`;
    told.push({ mood: 'watch', text: `regulation is off ${where}` });
  }
  if (told.length === 0) {
    const all = `all ${plural(switches.known, 'switch', 'switches')} ready`;
    return { mood: 'good', text: `Healthy: ${all}, no congested port` };
  }
  const text = told.map((one) => one.text).join('; ');
  const mood = told.some((one) => one.mood === 'bad') ? 'bad' : 'watch';
  return { mood, text: text.charAt(0).toUpperCase() + text.slice(1) };
}

const MOST_CERTAIN_S = 10;

/** What to say of a browser's clock that is off; null while it is not. */
export function clockOff(server_s: number, browser_s: number): string | null {
  const off = browser_s - server_s;
  if (Math.abs(off) <= MOST_CERTAIN_S) return null;
  return `This browser's clock is ${duration(Math.abs(off))} ${off > 0 ? 'ahead of' : 'behind'} Weir's; times here are Weir's.`;
}
