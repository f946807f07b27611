// History of a chat, loaded page by page and kept up to date.
import { useCallback, useRef, useState } from 'react';
import { type Api, type Message, type Page, ofChat } from './api';
import { usePoll } from './poll';

const PAGE = 40;
/** Maximum number of pages to load in order to reach a message. Every loaded message is rendered, a page at a time. */
const MOST_REACHED = 15;
/** Maximum number of pages to load in order to close the gap to the newest page. With a larger gap only the newest page is shown. */
const MOST_CAUGHT_UP = 10;

interface Shown {
  messages: Message[];
  /** Cursor of the page before; null if there is none. */
  before: string | null;
}

export function useHistory(api: Api, chat: string, pause: number) {
  const [shown, setShown] = useState<Shown | null>(null);
  const latest = useRef<Shown | null>(null);
  const [isLoadingEarlier, setLoadingEarlier] = useState(false);
  const show = (next: Shown) => {
    latest.current = next;
    setShown(next);
  };

  const read = (query: string, signal?: AbortSignal) =>
    api.get<Page>(`${ofChat(chat, 'messages')}?limit=${PAGE}${query}`, signal);

  const { problem, again } = usePoll(async signal => {
    let page = await read('', signal);
    const known = latest.current?.messages ?? [];
    let pages = 1;
    // There may be more new messages than a page has.
    while (known.length > 0 && page.before !== null && !meets(known, page.messages) && pages++ < MOST_CAUGHT_UP) {
      const earlier: Page = await read(`&before=${page.before}`, signal);
      page = { ...earlier, messages: [...earlier.messages, ...page.messages] };
    }
    if (signal.aborted) return;
    const next = joined(latest.current, page);
    if (next !== latest.current) show(next);
  }, pause);

  const loadEarlier = useCallback(async () => {
    const from = latest.current?.before;
    if (!from) return;
    setLoadingEarlier(true);
    try {
      const page = await read(`&before=${from}`);
      const now = latest.current;
      if (now?.before === from) show({ messages: [...page.messages, ...now.messages], before: page.before });
    } finally {
      setLoadingEarlier(false);
    }
  }, [api, chat]);

  /** Loads earlier pages until a message is there. Resolves to false if it is further back than a few. */
  const reach = useCallback(
    async ({ id }: Message): Promise<boolean> => {
      for (let pages = 0; ; pages++) {
        if (latest.current?.messages.some(message => message.id === id)) return true;
        if (!latest.current?.before || pages === MOST_REACHED) return false;
        await loadEarlier();
      }
    },
    [loadEarlier],
  );

  return {
    reach,
    messages: shown?.messages ?? [],
    isLoaded: shown !== null,
    hasEarlier: shown?.before != null,
    isLoadingEarlier,
    loadEarlier,
    problem,
    refresh: again,
  };
}

const meets = (known: Message[], page: Message[]): boolean => {
  const ids = new Set(known.map(message => message.id));
  return page.some(message => ids.has(message.id));
};

/** Returns `shown` with the newest `page` at its end, or `shown` itself if that changes nothing. */
function joined(shown: Shown | null, page: Page): Shown {
  if (shown === null || page.before === null) return kept(shown, { messages: page.messages, before: page.before });
  const ids = new Map(page.messages.map((message, at) => [message.id, at]));
  const from = shown.messages.findIndex(message => ids.has(message.id));
  if (from < 0) return { messages: page.messages, before: page.before };
  // Messages of the page before the first known one arrived late, and belong there.
  return kept(shown, { messages: [...shown.messages.slice(0, from), ...page.messages], before: shown.before });
}

/** Returns `next`, reusing the objects of `shown` that are equal, so that they are not rendered again. */
function kept(shown: Shown | null, next: Shown): Shown {
  if (shown === null) return next;
  const known = new Map(shown.messages.map(message => [message.id, message]));
  const messages = next.messages.map(message => {
    const before = known.get(message.id);
    return before && before !== message && JSON.stringify(before) === JSON.stringify(message) ? before : message;
  });
  const isSame =
    next.before === shown.before &&
    messages.length === shown.messages.length &&
    messages.every((message, at) => message === shown.messages[at]);
  return isSame ? shown : { messages, before: next.before };
}
