/** The day by Weir's clock, or by this browser's until that is known. */

import { localDate } from '../model/interval';
import { server_s } from './pulse.svelte';

const day = $derived(localDate(server_s() ?? Date.now() / 1000));

/** 2026-11-25, in local time */
export const today = (): string => day;
