/** Whether what is shown is live. Times are of a clock that does not jump, in milliseconds. */

/** After this long without an answer, nothing may look as if it were live. */
export const STALE_AFTER_S = 3;

export interface Answered {
  /** When the last answer came; null: none came yet. */
  at_ms: number | null;
  /** What went wrong since, if anything did. */
  problem: string | null;
}

export const NEVER: Answered = { at_ms: null, problem: null };

/** Since when no answer has come, in seconds; null if none ever came. */
export const silent_s = (answered: Answered, now_ms: number): number | null =>
  answered.at_ms === null ? null : Math.max(0, (now_ms - answered.at_ms) / 1000);

export function isStale(answered: Answered, now_ms: number): boolean {
  const silent = silent_s(answered, now_ms);
  return silent === null ? answered.problem !== null : silent > STALE_AFTER_S;
}

/** Of when an answer is. One that was long on its way may be as old as its question. */
export const answeredAt_ms = (asked_ms: number, came_ms: number): number =>
  came_ms - asked_ms > 1000 * STALE_AFTER_S ? asked_ms : came_ms;

const LONGEST_PAUSE_MS = 5000;
/** Shorter than what makes an answer stale: a server that is slow is not taken for one that is
 * silent. */
const LONGEST_REST_MS = 2000;

/** How long to wait until the next question: longer while nobody answers, and never so often that
 * answers are most of what the server does. An answer can be late for other reasons, such as a
 * network that was gone, so that is not for long either. */
export function pause_ms(every_ms: number, failures: number, took_ms: number): number {
  const patience_ms = every_ms * Math.min(2 ** failures, 8);
  const rest_ms = Math.min(4 * took_ms, LONGEST_REST_MS);
  return Math.max(every_ms, Math.min(patience_ms, LONGEST_PAUSE_MS), rest_ms);
}
