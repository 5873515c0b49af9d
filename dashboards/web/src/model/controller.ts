/** What the overview says of the controller, in words. */

import { duration, percent } from './format';
import type { Controller } from './types';

const NOT_TOLD = 'not told';
/** The last bound of the histogram that the controller keeps. */
const MOST_MEASURED_S = 0.1;

/** How busy it is. */
export const loadText = ({ load }: Controller): string =>
  load == null ? NOT_TOLD : `${percent(load)} of a core`;

/** How late its main loop was over the last minute at worst, and mostly. Times are bounds. */
export function stallText({ load, loop_late_s }: Controller): { worst: string; mostly: string } {
  // It looks at its loop ten times a second, so what has no bound was later than the last one.
  if (load == null || loop_late_s == null) return { worst: NOT_TOLD, mostly: '' };
  const { p99, worst } = loop_late_s;
  return {
    worst: worst === null ? `> ${duration(MOST_MEASURED_S)}` : `≤ ${duration(worst)}`,
    mostly: p99 === null ? '' : `99 % ≤ ${duration(p99)}`,
  };
}

/** Its rank, and which controllers could take over, or could not. */
export function standbyText({ rank, peers = [], silent = [] }: Controller): string {
  if (rank == null) return NOT_TOLD;
  if (peers.length + silent.length === 0) return rank === 'alone' ? 'none configured' : rank;
  const heard = peers.length > 0 ? [`hears ${peers.join(', ')}`] : [];
  const missed = silent.length > 0 ? [`does not hear ${silent.join(', ')}`] : [];
  return [rank, ...heard, ...missed].join('; ');
}
