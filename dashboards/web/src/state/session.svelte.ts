/** Who is signed in. The token is sent once and kept nowhere. */

import type { Nobody, Session } from '../model/types';
import { onSignedOut, problemOf, read, send } from './api';
import { forgetAll } from './forgetting';

export const session = $state<{
  value: Session | null;
  /** Whether the API has been asked yet. */
  known: boolean;
  /** Why one is not signed in. */
  message: string | null;
  /** Whether that is because nobody has answered. */
  away: boolean;
}>({ value: null, known: false, message: null, away: false });

/** How often somebody has signed in or out. */
let changes = 0;

/** Nobody is signed in any more. */
function end(message: string | null): void {
  changes += 1;
  session.value = null;
  session.message = message;
  forgetAll();
}

onSignedOut(() => {
  if (session.value === null) return;
  end('You are signed out: your token has expired or was revoked.');
});

/** Ask who is signed in: there may be a session already, or another one by another tab. */
export async function resume(): Promise<void> {
  const before = changes;
  try {
    const told = await read<Session | Nobody>(await send('GET', '/v1/session'));
    if (before !== changes) return;
    if (told.name !== (session.value?.name ?? null)) end(null);
    session.value = told.name === null ? null : told;
    if (session.away) session.message = null;
    session.away = false;
  } catch (error) {
    // Who is signed in stays so: all else that is asked says what is wrong.
    if (session.value === null) {
      session.message = problemOf(error);
      session.away = true;
    }
  }
  session.known = true;
}

export async function signIn(token: string): Promise<void> {
  try {
    session.value = await read<Session>(await send('POST', '/v1/session', { token }));
    changes += 1;
    session.message = null;
  } catch (error) {
    session.message = problemOf(error);
  }
}

export async function signOut(): Promise<void> {
  try {
    await send('DELETE', '/v1/session');
    end(null);
  } catch (error) {
    if (session.value !== null) throw error;
  }
}

export const mayRegulate = (): boolean => session.value?.scopes.includes('regulate') ?? false;
