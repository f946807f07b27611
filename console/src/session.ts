// The key, and who is signed in by it.
import { createContext, useContext } from 'react';
import { Api, type Key } from './api';
import { isHere } from './poll';

/** In sessionStorage: gone with the tab, and no other site's. */
const KEY = 'annals-key';
/** What the local program takes where no key is set. */
const WELL_KNOWN = 'dev';

export interface Session {
  api: Api;
  key: Key;
  /** Whether the key is the well-known one, which may be shown. */
  isWellKnown: boolean;
  /** Whether the program has an outbox. */
  hasOutbox: boolean;
  /** Says something to whoever cannot see it, too. */
  tell: (what: string) => void;
  signOut: () => void;
}

export const SessionContext = createContext<Session | null>(null);

export function useSession(): Session {
  const session = useContext(SessionContext);
  if (session === null) throw new Error('nobody is signed in');
  return session;
}

export const stored = (): string | null => sessionStorage.getItem(KEY);
export const keep = (secret: string): void => sessionStorage.setItem(KEY, secret);
export const drop = (): void => sessionStorage.removeItem(KEY);

/** The kept key's owner; on this machine without one, the well-known key's, where the program takes that. */
export async function restored(): Promise<{ secret: string; key: Key } | null> {
  const secret = stored() ?? (isHere ? WELL_KNOWN : null);
  if (secret === null) return null;
  try {
    return { secret, key: await keyOf(secret) };
  } catch (error) {
    if (secret === stored()) drop();
    if ((error as { status?: number }).status === 401) return null;
    throw error;
  }
}

export const keyOf = (secret: string): Promise<Key> => new Api(secret).get('/v1/key');
export const isWellKnown = (secret: string): boolean => secret === WELL_KNOWN;

/** Whether this is the local program, which shows what it would have sent. */
export async function hasOutbox(): Promise<boolean> {
  if (!isHere) return false;
  const response = await fetch('/local/outbox').catch(() => null);
  return response?.ok ?? false;
}
