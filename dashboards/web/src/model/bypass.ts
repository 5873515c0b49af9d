/** Where regulation is turned off. */

import type { Bypass } from './types';

/** A port by its name; without one a switch; without a switch everything. */
export interface Place {
  datapath_id: string | null;
  port: string | null;
}

/** Whether exactly this place is off, so that it can be turned on. */
export const isOff = (bypasses: readonly Bypass[], place: Place): boolean =>
  bypasses.some((bypass) => bypass.datapath_id === place.datapath_id && bypass.port === place.port);

/** What keeps a place off: itself, its switch, or everything. */
export const offHere = (bypasses: readonly Bypass[], place: Place): Bypass[] =>
  bypasses.filter(
    ({ datapath_id, port }) =>
      datapath_id === null ||
      (datapath_id === place.datapath_id && (port === null || port === place.port)),
  );

export function placeText({ datapath_id, port }: Place): string {
  if (datapath_id === null) return 'everything';
  return port === null ? `switch ${datapath_id}` : `port ${port} of switch ${datapath_id}`;
}
