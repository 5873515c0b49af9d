/** What is known of a session outside of views is forgotten when it ends: the next person who signs
 * in on this page sees nothing of it. */

interface Holder {
  forget(): void;
}

const holders: Holder[] = [];

/** Returns what it is given. */
export function ofSession<T extends Holder>(holder: T): T {
  holders.push(holder);
  return holder;
}

export const forgetAll = (): void => holders.forEach((holder) => holder.forget());
