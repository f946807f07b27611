// What a person may do to an entry of the chat that is shown. An archived one has none of these.
import { createContext, useCallback, useRef } from 'react';
import type { Message } from './api';

export interface Actions {
  /** The chat, as the API names it. */
  chat: string;
  sendAgain: (messageId: string) => void;
  discard: (messageId: string) => void;
  /** Returns true if the person who is signed in may edit this message. */
  mayEdit: (message: Message) => boolean;
  /** Sends a new text for it. Rejects with the problem. */
  edit: (message: Message, text: string) => Promise<void>;
  /** What an edit leads to. */
  editNote: string;
}

export const ActionsContext = createContext<Actions | null>(null);

/** Returns a function that is always the same, and calls the latest `of`: entries that get it are not rendered again. */
export function useStable<A extends unknown[], R>(of: (...args: A) => R): (...args: A) => R {
  const latest = useRef(of);
  latest.current = of;
  return useCallback((...args: A) => latest.current(...args), []);
}
