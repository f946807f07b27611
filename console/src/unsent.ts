// Messages that the server has not confirmed yet, and drafts: in sessionStorage, so that they outlive a reload, and end with the tab
// as the key does.
import { useSyncExternalStore } from 'react';
import type { Message, Part, Problem } from './api';
import type { FilePart } from './attach';

/** A message on its way to the server. */
export interface Outgoing {
  /** The message's id, the same in each try: however often it arrives, it is stored once. */
  id: string;
  userId: string;
  parts: Part[];
  /** True if it is to be sent as the bot: `userId` is the operator. */
  asBot?: boolean;
  /** When it was written, in epoch milliseconds. */
  at: number;
  /** `stored`: confirmed, and not listed yet. */
  state: 'new' | 'sending' | 'stored' | 'failed';
  problem?: Problem;
}

const UNSENT = 'annals-unsent ';
const DRAFT = 'annals-draft ';
const FILES = 'annals-files ';

const chats = new Map<string, readonly Outgoing[]>();
const listeners = new Set<() => void>();
const NONE: readonly Outgoing[] = [];

/** Returns the messages of `chat` that are on their way. Those of a page before this one may have arrived or not. */
export function outgoing(chat: string): readonly Outgoing[] {
  let known = chats.get(chat);
  if (!known) {
    const kept: Outgoing[] = JSON.parse(sessionStorage.getItem(UNSENT + chat) ?? '[]');
    known = kept.length > 0 ? kept.map(one => ({ ...one, state: 'failed' })) : NONE;
    chats.set(chat, known);
  }
  return known;
}

function set(chat: string, next: readonly Outgoing[]): void {
  chats.set(chat, next);
  const kept = next.filter(one => one.state !== 'stored').map(({ problem, ...one }) => one);
  put(UNSENT + chat, kept.length > 0 ? JSON.stringify(kept) : null);
  for (const changed of listeners) changed();
}

/** Adds a message to `chat`, which the chat's view sends. */
export function compose(chat: string, parts: Part[], userId: string, asBot = false): void {
  // Over plain HTTP, browsers have no `randomUUID`.
  const id = [...crypto.getRandomValues(new Uint8Array(16))].map(byte => byte.toString(16).padStart(2, '0')).join('');
  set(chat, [...outgoing(chat), { id: `console-${id}`, userId, parts, at: Date.now(), state: 'new', ...(asBot && { asBot }) }]);
}

export function mark(chat: string, id: string, state: Outgoing['state'], problem?: Problem): void {
  const marked = ({ problem: _, ...one }: Outgoing): Outgoing => ({ ...one, state, ...(problem && { problem }) });
  set(chat, outgoing(chat).map(one => (one.id === id ? marked(one) : one)));
}

/** Marks what the view of `chat`, which is closed now, has not begun to send: it is listed as not sent, and is not sent unasked later. */
export function abandon(chat: string): void {
  for (const { id, state } of outgoing(chat)) if (state === 'new') mark(chat, id, 'failed');
}

export function discard(chat: string, ids: ReadonlySet<string>): void {
  if (outgoing(chat).some(one => ids.has(one.id))) set(chat, outgoing(chat).filter(one => !ids.has(one.id)));
}

export const useOutgoing = (chat: string): readonly Outgoing[] => useSyncExternalStore(subscribe, () => outgoing(chat));

/** The chats with messages that were not sent, in one string: each followed by a line feed, which no key contains. */
export const useUnsentChats = (): string => useSyncExternalStore(subscribe, unsentChats);

function unsentChats(): string {
  const keys = Array.from({ length: sessionStorage.length }, (_, at) => sessionStorage.key(at) ?? '');
  const found = new Set([...keys.flatMap(key => (key.startsWith(UNSENT) ? [key.slice(UNSENT.length)] : [])), ...chats.keys()]);
  return [...found].filter(chat => outgoing(chat).some(one => one.state === 'failed')).sort().join('\n');
}

function subscribe(changed: () => void): () => void {
  listeners.add(changed);
  return () => listeners.delete(changed);
}

/** What is written in a box, and attached to it. */
export interface Draft { text: string; files: FilePart[] }

/** Files as they were kept last, by the draft's name. */
const kept = new Map<string, FilePart[]>();

export function draft(name: string): Draft {
  const files = sessionStorage.getItem(FILES + name);
  return { text: sessionStorage.getItem(DRAFT + name) ?? '', files: files === null ? [] : JSON.parse(files) };
}

export function keepDraft(name: string, { text, files }: Draft): void {
  put(DRAFT + name, text === '' ? null : text);
  // Files may be large, and do not change with each letter.
  if (kept.get(name) === files) return;
  kept.set(name, files);
  put(FILES + name, files.length === 0 ? null : JSON.stringify(files));
}

/** Forgets all drafts and unsent messages: somebody else may sign in. */
export function clear(): void {
  chats.clear();
  kept.clear();
  sessionStorage.clear();
  for (const changed of listeners) changed();
}

function put(key: string, value: string | null): void {
  try {
    if (value === null) sessionStorage.removeItem(key);
    else sessionStorage.setItem(key, value);
  } catch {
    // It is full, of attached files. The message stays in this page, but not over a reload.
  }
}

/** Returns a message that is on its way, as the history would list it. */
export const asMessage = ({ id, userId, parts, at, asBot }: Outgoing): Message => ({
  id,
  role: asBot ? 'assistant' : 'user',
  parts,
  metadata: { ts: at, kind: 'normal', messageId: id, userId, chatKey: '', channel: 'web', chatId: '', ...(asBot && { sentBy: userId }) },
});
