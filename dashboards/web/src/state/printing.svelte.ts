/** Whether the page is being printed: what is out of sight on a screen belongs on paper. */

import { flushSync } from 'svelte';

export const printing = $state({ now: false });

const set = (now: boolean) => (): void => {
  flushSync(() => (printing.now = now));
};
window.addEventListener('beforeprint', set(true));
window.addEventListener('afterprint', set(false));
