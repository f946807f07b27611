// The current view, stored in the part of the URL after `#`, so that it can be bookmarked.
import { useSyncExternalStore } from 'react';

export type View = 'history' | 'context' | 'segments' | 'memory';
export type Route =
  | { at: 'home' }
  | { at: 'outbox' }
  | { at: 'live'; chat?: string }
  | { at: 'status' }
  | { at: 'usage' }
  | { at: 'chat'; chat: string; view: View; segment?: string };

const VIEWS: readonly string[] = ['context', 'segments', 'memory'];

export function parse(hash: string): Route {
  const [at, chat, view, segment] = hash.replace(/^#?\/?/, '').split('/').map(decoded);
  if (at === 'outbox' || at === 'status' || at === 'usage') return { at };
  if (at === 'live') return { at, ...(chat && { chat }) };
  if (at !== 'chat' || !chat) return { at: 'home' };
  return { at, chat, view: VIEWS.includes(view ?? '') ? (view as View) : 'history', ...(segment && { segment }) };
}

export function href(route: Route): string {
  if (route.at === 'live') return route.chat ? `#/live/${encodeURIComponent(route.chat)}` : '#/live';
  if (route.at !== 'chat') return route.at === 'home' ? '#/' : `#/${route.at}`;
  const parts = [route.chat, ...(route.view === 'history' ? [] : [route.view]), ...(route.segment ? [route.segment] : [])];
  return `#/chat/${parts.map(encodeURIComponent).join('/')}`;
}

export function go(route: Route): void {
  location.hash = href(route);
}

export function useRoute(): Route {
  const hash = useSyncExternalStore(subscribe, () => location.hash);
  return parse(hash);
}

function subscribe(changed: () => void): () => void {
  addEventListener('hashchange', changed);
  return () => removeEventListener('hashchange', changed);
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
