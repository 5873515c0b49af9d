/** Where the focus goes when a button is gone that had it: never to nowhere, which a keyboard would
 * have to leave by the top of the page. */

import { tick } from 'svelte';

type Found = HTMLElement | SVGElement | null | undefined;

/** Move the focus to what is there once the page shows what has just changed. */
export async function focusOn(find: () => Found): Promise<void> {
  await tick();
  find()?.focus();
}

/** The same, if nothing has the focus by then. */
export async function keepFocus(find: () => Found): Promise<void> {
  await tick();
  if (document.activeElement === document.body) find()?.focus({ preventScroll: true });
}
