/** Words with hyphens, such as CN-H and leaf1-eth3, which are read with difficulty once they break. */

/** What is longer may break: a telephone shows about so much. */
const MOST = 24;

/** A text in parts; `whole`: a line must not break within it. */
export const words = (text: string): { part: string; whole: boolean }[] =>
  text
    .split(/([^\s-]+(?:-[^\s-]+)+)/)
    .map((part, n) => ({ part, whole: n % 2 === 1 && part.length <= MOST }))
    .filter(({ part }) => part !== '');
