/** The route of the page's address, as it changes. */

import { parseRoute } from '../model/route';

export const location = $state({
  hash: window.location.hash,
  route: parseRoute(window.location.hash),
});

window.addEventListener('hashchange', () => {
  take(window.location.hash);
});

/** Go to an address; without `push`, in place of the present one. */
export function go(hash: string, push = true): void {
  if (push) {
    window.location.hash = hash;
  } else {
    window.history.replaceState(null, '', hash);
    take(hash);
  }
}

function take(hash: string): void {
  location.hash = hash;
  location.route = parseRoute(hash);
}
