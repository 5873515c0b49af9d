/** What the API answers, as far as the page reads it: docs/api.md, /v1/openapi.json. */

export interface Session {
  name: string;
  scopes: string[];
  expires: string | null;
}

/** What is told of whoever is not signed in. */
export interface Nobody {
  name: null;
}

export type Level = 'L' | 'M' | 'H';

export interface Totals {
  sent_bps: number | null;
  dropped_per_s: number | null;
  timeouts_per_s: number | null;
  requests_per_s: number | null;
  held_per_s: number | null;
  held_s_per_s: number | null;
  answer_s: number | null;
}

export interface CongestedPort {
  datapath_id: string;
  port: number;
  name: string;
  level: Level;
  queue_bytes: number;
  limit_bytes: number;
  sent_bps: number | null;
  rate_bps: number;
}

export interface Controller {
  ready: boolean;
  detail: string | null;
  version: string;
  /** It answered so long ago; null: never yet. */
  age_s: number | null;
  // What follows is absent where the API is older than the page.
  /** The share of a core that it used over the last second. */
  load?: number | null;
  /** How late timers had their turn over the last minute; null: not known, or off the scale. */
  loop_late_s?: { p99: number | null; worst: number | null };
  /** alone, master, leaving or standby */
  rank?: string | null;
  /** The controllers that it hears, and those of its configuration that it does not. */
  peers?: string[];
  silent?: string[];
}

export interface Overview {
  /** When the controller was asked last, `age_s` ago; null: it has not answered yet. */
  at_s: number | null;
  controller: Controller;
  switches: { ready: number; known: number };
  ports: { with_queue: number; congested: number };
  congested: CongestedPort[];
  totals: Totals;
  held_times: { bounds_s: number[]; counts: number[] };
  events_per_minute: number | null;
  /** What came over the last 10 minutes; absent where the API is older than the page. */
  lately?: { over_s: number; dropped_packets: number; timeouts: number; held_requests: number };
  /** Whether there is history of more than a day; absent from an older API. */
  longer_history?: boolean;
}

export type SeriesName =
  | 'sent_bps'
  | 'queue_bytes'
  | 'dropped_per_s'
  | 'requests_per_s'
  | 'held_per_s'
  | 'held_s_per_s'
  | 'timeouts_per_s'
  | 'answer_s';

export type Values = (number | null)[];

export interface History {
  step_s: number;
  begin_s: number;
  series: Record<SeriesName, Values>;
}

export interface Account {
  connections: number;
  held: number;
  expected_bytes: number;
  requests: number;
  held_requests: number;
  overdue_requests: number;
  full_requests: number;
  held_s: number;
  max_held_s: number;
}

/** The lengths at which a queue tells CN-L, CN-M and CN-H. */
export interface Levels {
  low_bytes: number;
  mid_bytes: number;
  high_bytes: number;
}

/** The same for a queue whose thresholds are in packets. */
export interface PacketLevels {
  low_packets: number;
  mid_packets: number;
  high_packets: number;
}

export interface Queue {
  queue: number;
  switch_time_ns: number;
  level: number;
  queue_bytes: number;
  queue_packets: number;
  max_queue_bytes: number;
  limit_bytes: number;
  rate_bps: number;
  sent_bytes: number;
  dropped_packets: number;
  marked_packets: number;
  can_have_account: boolean;
  account: Account | null;
  /** At most one of the two. Null where the switch does not tell them, absent where the controller
   * does not. */
  levels?: Levels | null;
  packet_levels?: PacketLevels | null;
}

export interface Tcp {
  connections: number;
  segments: number;
  retransmitted: number;
  timeouts: number;
  timeouts_s: number;
}

export interface Port {
  datapath_id: string;
  port: number;
  name: string;
  up: boolean;
  speed_bps: number;
  peer: string | null;
  link_rtt_s: number | null;
  hosts: number;
  queues: Queue[];
  tcp: Tcp | null;
}

export interface Switch {
  datapath_id: string;
  connected: boolean;
  ready: boolean;
  address: string | null;
  ports: number;
  control_rtt_s: number | null;
}

export interface Hold {
  window_bytes: number;
  credit: { bound_bytes: number; max_hold_ms: number; weight: number } | null;
}

export interface Regulation {
  datapath_id: string;
  port: number;
  name: string;
  scheme: string;
  capacity_bps: number | null;
  buffer_bytes: number | null;
  rtt_s: number | null;
  background_flows: number;
  burst_flows: number;
  idle_flows: number;
  mss_bytes: number;
  notice: string | null;
  holds: Record<string, Hold>;
  notices: Record<string, number>;
}

export interface Bypass {
  datapath_id: string | null;
  port: string | null;
  left_s: number | null;
  by: string;
}

export interface Flow {
  src: string;
  src_port: number;
  dst: string;
  dst_port: number;
  vlan: number | null;
  class: string;
  counted: boolean;
  idle: boolean;
  volume_bytes: number;
  age_s: number;
  mss_bytes: number;
  window_scale: number | null;
  treatment: string;
  ports: string[];
}

/** A port that a flow leaves by. */
export interface Hop {
  port: string;
  name: string;
  up: boolean;
  scheme: string;
  notice: string | null;
  capacity_bps: number | null;
  rtt_s: number | null;
  /** Null where the port is not regulated. */
  hold: Hold | null;
  queue: Queue | null;
}

export interface FlowDetail {
  flow: Flow;
  /** The port by which its data comes into the fabric. */
  enters: string | null;
  /** How long it has had no payload; null: not counted, so not known. */
  quiet_s: number | null;
  hops: Hop[];
}

export interface Flows {
  total: number;
  offset: number;
  next_offset: number | null;
  flows: Flow[];
}

/** An announced flow and what it may send; one that is gone has no ends. */
export interface Share {
  flow: string;
  src: string | null;
  dst: string | null;
  most_bps: number | null;
  rate_bps: number | null;
  /** A port, or "uplink" and the port by which its host sends; null: its own demand. */
  narrowest: string | null;
  dscp: number | null;
}

export interface PathLink {
  link: string;
  capacity_bps: number;
  used_bps: number | null;
  error_bps: number | null;
}

/** What the path from one host to another has left. */
export interface Path {
  src: string;
  dst: string;
  available_bps: number;
  error_bps: number | null;
  share_bps: number;
  links: PathLink[];
}

/** A line of the event log. `switch` is text where the number is too large for a double. */
export interface WeirEvent {
  event: string;
  serial?: number;
  wall_s?: number;
  [field: string]: unknown;
}

export interface Topology {
  switches: { datapath_id: string; connected: boolean; hosts: number; edge_ports: number }[];
  links: { a: string; b: string; rtt_s: number | null }[];
}

/** What each port with a queue sends, in columns. */
export interface PortUse {
  at_s: number;
  ids: string[];
  names: string[];
  levels: number[];
  sent_bps: (number | null)[];
  rate_bps: number[];
}

/** A setting, or another key of the configuration, before and after. */
export interface Step {
  key: string;
  from: string;
  to: string;
}

export interface Setting {
  key: string;
  section: string;
  value: string;
  /** What the configuration file says. */
  configured: string;
  default: string;
  kind: 'duration' | 'size' | 'rate' | 'number' | 'boolean' | 'choice' | 'text' | 'list';
  choices: string[] | null;
  description: string;
  scope: 'live' | 'restart';
  /** Who has changed it at work; null: the file's value is in force. */
  changed: { by: string; at_s: number } | null;
}

export interface Settings {
  version: number;
  settings: Setting[];
  undoable: Undoable | null;
}

export interface Undoable {
  id: string;
  at_s: number;
  by: string;
  changes: Step[];
}

export interface SettingsChange {
  version: number;
  changes: Step[];
  in_force: boolean;
  id: string | null;
  kept: boolean;
}

export interface AuditEntry {
  id: string;
  at_s: number;
  by: string;
  what: 'settings' | 'undo' | 'off' | 'on' | 'reload';
  changes: Step[];
  detail: string;
}

export interface AuditPage {
  next_before: string | null;
  entries: AuditEntry[];
}
