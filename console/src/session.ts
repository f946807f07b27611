// The API key and its owner.
import { createContext, useContext } from 'react';
import { Api, type Key } from './api';
import { isHere } from './poll';

/** In sessionStorage, which ends with the tab and is not shared with other sites. */
const KEY = 'annals-key';
/** Key of the local program if no secret is set. */
const WELL_KNOWN = 'dev';

export interface Session {
  api: Api;
  key: Key;
  /** True if the key is the well-known one, which may be shown. */
  isWellKnown: boolean;
  /** True if the program has an outbox. */
  hasOutbox: boolean;
  /** Announces a text to screen readers. */
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
 * Takes the key out of a URL that ends in `#key=…`, as the local program prints it, and out of the tab's history. Browsers do
 * not send the part after `#`.
 */
export function keyOfAddress(): string | null {
  const given = /^#key=([\w-]+)$/.exec(location.hash)?.[1];
  if (given === undefined) return null;
  history.replaceState(null, '', `${location.pathname}#/`);
  return given;
}

/** Returns the owner of the first key that the API accepts: that of the URL, the stored one, and on this machine the well-known one. */
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

/** Returns true for the local program, which shows the messages that it does not send to platforms. */
export async function hasOutbox(secret: string): Promise<boolean> {
  return isHere && new Api(secret).send('GET', '/local/outbox').then(() => true, () => false);
}
