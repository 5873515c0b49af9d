/** The page's clock: one that does not jump, and that views follow. */

const TICK_MS = 500;

export const clock = $state({ now_ms: performance.now() });

setInterval(() => {
  clock.now_ms = performance.now();
}, TICK_MS);
