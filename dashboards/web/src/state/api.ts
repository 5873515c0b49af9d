/** Questions to the API. The session is a cookie that scripts cannot read. */

import { parse } from '../model/json';

const PATIENCE_MS = 10_000;

/** What the API, or the way to it, has refused; the message is for the operator. */
export class ApiError extends Error {
  constructor(
    message: string,
    /** The status of the answer; 0 if there was none. */
    readonly status: number,
  ) {
    super(message);
  }
}

type Query = Record<string, string | number | null>;

let whenSignedOut: () => void = () => undefined;

/** What to do when the API no longer knows the session. */
export function onSignedOut(then: () => void): void {
  whenSignedOut = then;
}

export function url(path: string, query: Query = {}): string {
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== '');
  const search = new URLSearchParams(given.map(([name, value]) => [name, String(value)]));
  return given.length > 0 ? `${path}?${search}` : path;
}

/** Raises ApiError, also if nothing answers. */
export async function send(
  method: string,
  address: string,
  body?: unknown,
  signal?: AbortSignal,
  patience_ms = PATIENCE_MS,
): Promise<Response> {
  const headers: Record<string, string> = {};
  // A page of another origin cannot send this header unasked.
  if (method !== 'GET') headers['X-Weir-Page'] = '1';
  if (body !== undefined) headers['Content-Type'] = 'application/json';
  let response: Response;
  try {
    response = await fetch(address, {
      method,
      headers,
      body: body === undefined ? null : JSON.stringify(body),
      signal: signal ?? AbortSignal.timeout(patience_ms),
      credentials: 'same-origin',
      cache: 'no-store',
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError('Weir does not answer. Is its API running, and the network up?', 0);
  }
  if (response.ok) return response;
  if (response.status === 401 && address !== '/v1/session') whenSignedOut();
  throw new ApiError(await explanation(response), response.status);
}

/** The detail of a problem (RFC 9457). */
async function explanation(response: Response): Promise<string> {
  try {
    const problem = (await response.json()) as { detail?: unknown; title?: unknown };
    const said = problem.detail ?? problem.title;
    if (typeof said === 'string' && said !== '') return said;
  } catch {
    // Not a problem of the API's own, as of a proxy before it.
  }
  return `The server answered with status ${response.status}.`;
}

export async function get<T>(
  path: string,
  query: Query = {},
  patience_ms = PATIENCE_MS,
): Promise<T> {
  const response = await send('GET', url(path, query), undefined, undefined, patience_ms);
  return read<T>(response);
}

export async function read<T>(response: Response): Promise<T> {
  try {
    return parse(await response.text()) as T;
  } catch {
    throw new ApiError('The answer broke off. It is asked for again.', 0);
  }
}

const NOT_DONE = 503;

/** Whether what was asked for may have been done all the same: its answer was lost. */
export const mayBeDone = (error: unknown): boolean =>
  error instanceof ApiError &&
  (error.status === 0 || (error.status >= 500 && error.status !== NOT_DONE));

export const problemOf = (error: unknown): string =>
  error instanceof Error ? error.message : String(error);
