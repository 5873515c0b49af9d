/** Where in the page one is: the part of the address after `#`, which servers never see. */

import { queryOf, type Interval } from './interval';

export type View =
  | 'overview'
  | 'fabric'
  | 'port'
  | 'flows'
  | 'flow'
  | 'bandwidth'
  | 'events'
  | 'incident'
  | 'settings';

/** One direction of a connection, by where its data goes. */
export interface FlowEnds {
  src: string;
  src_port: number;
  dst: string;
  dst_port: number;
  vlan: number | null;
}

export interface Route {
  view: View;
  /** Of the view `port`. */
  datapath_id: string;
  port: number;
  /** Of the view `flow`. */
  flow: FlowEnds | null;
  /** Filters and the like. */
  query: URLSearchParams;
}

const NOWHERE = { datapath_id: '', port: 0, flow: null };

/** The route of an address; what is not known leads to the overview. */
export function parseRoute(hash: string): Route {
  const [path = '', search = ''] = hash.replace(/^#\/?/, '').split('?', 2);
  const query = new URLSearchParams(search);
  const [view, ...parts] = path.split('/');
  const [id = '', port = ''] = parts;
  switch (view) {
    case 'fabric':
    case 'flows':
    case 'bandwidth':
    case 'events':
    case 'incident':
    case 'settings':
      return { view, ...NOWHERE, query };
    case 'port':
      if (/^[0-9a-f]{16}$/.test(id) && /^[1-9]\d{0,9}$/.test(port)) {
        return { view, ...NOWHERE, datapath_id: id, port: Number(port), query };
      }
      break;
    case 'flow': {
      const flow = flowOf(parts);
      if (flow !== null) return { view, ...NOWHERE, flow, query };
    }
  }
  return { view: 'overview', ...NOWHERE, query };
}

function flowOf(parts: readonly string[]): FlowEnds | null {
  const [src = '', src_port = '', dst = '', dst_port = '', vlan = ''] = parts;
  const are = (form: RegExp, ...texts: string[]): boolean => texts.every((text) => form.test(text));
  // What is no address or no port, the API says.
  if (!are(/^[0-9a-fA-F.:]{2,45}$/, src, dst) || !are(/^\d{1,5}$/, src_port, dst_port)) return null;
  if (!are(/^\d{0,4}$/, vlan)) return null;
  const ports = { src_port: Number(src_port), dst_port: Number(dst_port) };
  return { src, dst, ...ports, vlan: vlan === '' ? null : Number(vlan) };
}

/** The address of a flow. */
export const flowHash = ({ src, src_port, dst, dst_port, vlan = null }: FlowEnds): string =>
  `#/flow/${src}/${src_port}/${dst}/${dst_port}${vlan === null ? '' : `/${vlan}`}`;

/** The address of a view; empty values are left out. */
export function hashOf(
  view: Exclude<View, 'port' | 'flow'>,
  values: Record<string, string> = {},
): string {
  return `#/${view === 'overview' ? '' : view}${search(values)}`;
}

/** The address of a port, from its id: "datapath_id:port". */
export function portHash(id: string, values: Record<string, string> = {}): string {
  return `#/port/${id.replace(':', '/')}${search(values)}`;
}

/** The same address with another part of the time axis; null: with none. */
export function withInterval(hash: string, interval: Interval | null): string {
  const [path = '', before = ''] = hash.split('?', 2);
  const query = new URLSearchParams(before);
  query.delete('from');
  query.delete('to');
  const { from = '', to = '' } = interval === null ? {} : queryOf(interval);
  return `${path || '#/'}${search({ ...Object.fromEntries(query), from, to })}`;
}

export function search(values: Record<string, string>): string {
  const query = new URLSearchParams(Object.entries(values).filter(([, value]) => value !== ''));
  return query.size > 0 ? `?${query}` : '';
}
