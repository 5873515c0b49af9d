/** What happened in a part of the time, as the API has recorded it. */

import type { Incident } from '../model/incident';
import type { Interval } from '../model/interval';
import { Answer } from './answer.svelte';
import { get } from './api';

/** An hour with a thousand events a second takes the API some 8 s. */
const PATIENCE_MS = 30_000;

/** `port`: "datapath_id:port", or null for the whole fabric. */
export function incidentOf({ from_s, to_s }: Interval, port: string | null): Answer<Incident> {
  const [datapath_id = null, number = null] = port?.split(':') ?? [];
  const query = {
    from: from_s.toFixed(3),
    to: to_s.toFixed(3),
    switch: datapath_id,
    port: number,
  };
  return new Answer(() => get<Incident>('/v1/incident', query, PATIENCE_MS));
}
