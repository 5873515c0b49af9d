/** Words with hyphens, such as CN-H and leaf1-eth3, and figures with their units: they are read with
 * difficulty once they break. */

/** What is longer may break: a telephone shows about so much. */
const MOST = 24;
const HYPHENED = String.raw`[^\s-]+(?:-[^\s-]+)+`;
const UNITS = 'B|[KMGT]iB|[kMGT]B|[kMGT]?b/s|ns|µs|us|ms|s|min|h|%';
const FIGURE = String.raw`(?:\b[LMH] )?\d[\d.,]* (?:${UNITS})(?![\w/])`;
const TOGETHER = new RegExp(`(${HYPHENED}|${FIGURE})`);

/** A text in parts; `whole`: a line must not break within it. */
export const words = (text: string): { part: string; whole: boolean }[] =>
  text
    .split(TOGETHER)
    .map((part, n) => ({ part, whole: n % 2 === 1 && part.length <= MOST }))
    .filter(({ part }) => part !== '');
