/** Which rows of a long list to ask for. */

/** The API tells rows up to about here; farther down one comes by a search, or by another order. */
export const REACH = 100_000;

const LEAST = 100;
const STEP = 50;
const MOST = 1000;

/** Rows around those in sight, so that the next ones are there already. */
export function windowOf(first: number, last: number): { offset: number; limit: number } {
  const offset = Math.max(0, Math.floor(first / STEP) * STEP - STEP);
  const limit = Math.ceil((last + 1 + STEP - offset) / STEP) * STEP;
  return { offset, limit: Math.min(Math.max(limit, LEAST), MOST) };
}

export const ORDERS = ['volume', 'oldest', 'newest', 'src', 'dst'] as const;
export type Order = (typeof ORDERS)[number];

export const isOrder = (text: string | null): text is Order => ORDERS.some((one) => one === text);

/** What an order is called in a sentence. */
export const IN_WORDS: Record<Order, string> = {
  volume: 'the largest first',
  oldest: 'the oldest first',
  newest: 'the newest first',
  src: 'by source',
  dst: 'by destination',
};
