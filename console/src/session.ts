// The key, and who is signed in by it.
import { createContext, useContext } from 'react';
import { Api, type Key } from './api';
import { isHere } from './poll';

/** In sessionStorage: gone with the tab, and no other site's. */
const KEY = 'annals-key';
/** The local program's key as long as no secret is set. */
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

/**
 * Takes the key out of an address that ends in `#key=…`, as the local program prints it, and out of the tab's history. No
 * browser sends what is behind `#`.
 */
export function keyOfAddress(): string | null {
  const given = /^#key=([\w-]+)$/.exec(location.hash)?.[1];
  if (given === undefined) return null;
  history.replaceState(null, '', `${location.pathname}#/`);
  return given;
}

/** The owner of the first key that the program takes: the address's, the kept one, and on this machine the well-known one. */
export async function restored(): Promise<{ secret: string; key: Key } | null> {
  const given = keyOfAddress();
  for (const secret of new Set([given, stored(), isHere ? WELL_KNOWN : null])) {
    if (secret === null) continue;
    try {
      const key = await keyOf(secret);
      if (secret === given) keep(secret);
      return { secret, key };
    } catch (error) {
      if ((error as { status?: number }).status !== 401) throw error;
      if (secret === stored()) drop();
    }
  }
  return null;
}

export const keyOf = (secret: string): Promise<Key> => new Api(secret).get('/v1/key');
export const isWellKnown = (secret: string): boolean => secret === WELL_KNOWN;

/** Whether this is the local program, which shows what it would have sent. */
export async function hasOutbox(secret: string): Promise<boolean> {
  return isHere && new Api(secret).send('GET', '/local/outbox').then(() => true, () => false);
}
