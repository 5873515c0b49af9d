/** Whether the tour is open, and where. This browser remembers that it was seen, and nothing else. */

const KEY = 'weir-tour';
const SEEN = 'seen';

export const tour = $state<{ at: number | null }>({ at: wasSeen() ? null : 0 });

function wasSeen(): boolean {
  try {
    return localStorage.getItem(KEY) === SEEN;
  } catch {
    // A browser may forbid storage.
    return false;
  }
}

export function open(): void {
  tour.at = 0;
}

export function close(): void {
  tour.at = null;
  try {
    localStorage.setItem(KEY, SEEN);
  } catch {
    // It is shown again at the next sign-in.
  }
}
