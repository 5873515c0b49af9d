/** Whether anybody may be looking: a tab that has been hidden for a while asks for nothing. */

const PATIENCE_MS = 10_000;

type Change = (looked: boolean) => void;

const followers = new Set<Change>();
let looked = true;
let timer: ReturnType<typeof setTimeout> | undefined;

function follow(): void {
  clearTimeout(timer);
  if (document.hidden) timer = setTimeout(() => tell(false), PATIENCE_MS);
  else tell(true);
}

function tell(now: boolean): void {
  // A browser may have kept this tab from running for longer than the timer says.
  if (now === looked || now === document.hidden) return;
  looked = now;
  for (const change of [...followers]) change(now);
}

document.addEventListener('visibilitychange', follow);
follow();

/** Whether the tab is seen, or was a moment ago. */
export const isLookedAt = (): boolean => looked;

/** Call when that changes, until the returned function is called. */
export function whenLookedAt(change: Change): () => void {
  followers.add(change);
  return () => followers.delete(change);
}

/** Resolves when the tab is seen, at once if it is. */
export function untilLookedAt(): Promise<void> {
  if (looked) return Promise.resolve();
  return new Promise((resume) => {
    const end = whenLookedAt(() => {
      end();
      resume();
    });
  });
}
