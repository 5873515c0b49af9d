/** Announced flows, and the links of a path, as they are shown. */

import type { PathLink, Share } from './types';

export class Announced {
  #byName = new Map<string, Share>();

  /** Take what is told of flows; one without ends is gone. */
  take(shares: readonly Share[]): void {
    for (const share of shares) {
      if (share.src === null) this.#byName.delete(share.flow);
      else this.#byName.set(share.flow, share);
    }
  }

  /** The largest share first, then by name. */
  get flows(): Share[] {
    return [...this.#byName.values()].sort(
      (a, b) => (b.rate_bps ?? -1) - (a.rate_bps ?? -1) || (a.flow < b.flow ? -1 : 1),
    );
  }
}

const UPLINK = /^uplink (.+)$/;

/** The port of a link, and whether it is that by which a host sends into the fabric. */
export function portOfLink(link: string): { port: string; uplink: boolean } {
  const port = UPLINK.exec(link)?.[1];
  return port === undefined ? { port: link, uplink: false } : { port, uplink: true };
}

/** What a link has left at most, in bit/s; it is what it has left if it was measured. */
export const left_bps = ({ capacity_bps, used_bps }: PathLink): number =>
  Math.max(0, capacity_bps - (used_bps ?? 0));

/** The link that has least left, of those that were measured if there are such; undefined without
 * any. */
export function narrowest(links: readonly PathLink[]): PathLink | undefined {
  const measured = links.filter(({ used_bps }) => used_bps !== null);
  return (measured.length > 0 ? measured : links).reduce<PathLink | undefined>(
    (found, link) => (found === undefined || left_bps(link) < left_bps(found) ? link : found),
    undefined,
  );
}
