// The list of chats, the latest first.
import { memo, useEffect, useRef, useState } from 'react';
import { Input, SearchField } from 'react-aria-components';
import { type Api, type ListedChat, Problem } from './api';
import { brief, moment, nameOf, short, when } from './names';
import { PACE, usePoll } from './poll';
import { href } from './route';
import { texts } from './text';
import { useUnsentChats } from './unsent';
import { Button, ChannelBadge, Loading, Trouble } from './widgets';

const PAGE = 50;
/** Maximum length of the words to look for, in characters. */
export const LONGEST = 512;
/** Every so many polls also ask for token counts, for which the API has to read every context. */
const TOKENS_EVERY = 10;

interface Chats { chats: ListedChat[]; before: string | null }

/** What the list is narrowed to. */
export interface Filter { q: string; state: '' | 'failed' | 'unanswered' | 'waiting' }
export const NO_FILTER: Filter = { q: '', state: '' };
const STATES: readonly Filter['state'][] = ['', 'failed', 'unanswered', 'waiting'];
/** Pause after a letter before the chats are asked for, in milliseconds. */
export const TYPING = 250;

const queryOf = ({ q, state }: Filter): string => (q.trim() === '' ? '' : `&q=${encodeURIComponent(q.trim())}`) + (state === '' ? '' : `&state=${state}`);

export function useChats(api: Api, isAllowed: boolean, filter: Filter) {
  const [known, setKnown] = useState<Known | null>(null);
  const latest = useRef<Known | null>(null);
  const tokens = useRef(new Map<string, Pick<ListedChat, 'tokens' | 'window'>>());
  const asked = useRef(0);
  const query = queryOf(filter);
  const show = (next: Known) => setKnown((latest.current = next));

  const read = async (more: string, signal?: AbortSignal): Promise<Chats> => {
    const page: Chats = await api.get(`/v1/chats?limit=${PAGE}${query}${more}`, signal);
    for (const { chatKey, tokens: counted, window } of page.chats) if (counted !== undefined) tokens.current.set(chatKey, { tokens: counted, window } as never);
    return { ...page, chats: page.chats.map(chat => ({ ...tokens.current.get(chat.chatKey), ...chat })) };
  };

  // However many pages are loaded, only the first is asked for again: a chat in which something happens moves there.
  const poll = usePoll(async signal => {
    if (!isAllowed) return show({ chats: [], before: null, newest: new Set(), query });
    const withTokens = asked.current++ % TOKENS_EVERY === 0;
    const page = await read(withTokens ? '&context=true' : '', signal);
    if (!signal.aborted) show(joined(latest.current?.query === query ? latest.current : null, page, query));
  }, PACE.list);

  const asksFor = useRef(query);
  useEffect(() => {
    if (asksFor.current === query) return;
    asksFor.current = query;
    const timer = setTimeout(() => void poll.again(), TYPING);
    return () => clearTimeout(timer);
  }, [query]);

  const [problem, setProblem] = useState<Problem | null>(null);
  const more = async () => {
    const from = latest.current;
    if (!from?.before) return;
    setProblem(null);
    try {
      const page = await read(`&context=true&before=${from.before}`);
      const now = latest.current;
      // Another filter, or the list began anew.
      if (now?.before !== from.before || now.query !== from.query) return;
      const there = new Set(now.chats.map(chat => chat.chatKey));
      show({ ...now, chats: [...now.chats, ...page.chats.filter(chat => !there.has(chat.chatKey))], before: page.before });
    } catch (error) {
      setProblem(Problem.from(error));
    }
  };
  return { chats: known?.chats ?? null, query: known?.query ?? '', more: known?.before ? more : null, problem: problem ?? poll.problem, again: poll.again };
}

/** The chats that are loaded. */
interface Known extends Chats {
  /** Those of the first page. */
  newest: Set<string>;
  query: string;
}

/** Returns `known` with a new first page, reusing the objects of chats that are the same, so that they are not rendered again. */
function joined(known: Known | null, page: Chats, query: string): Known {
  const newest = new Set(page.chats.map(chat => chat.chatKey));
  if (known === null) return { ...page, newest, query };
  const before = new Map(known.chats.map((chat, at) => [chat.chatKey, { chat, at }]));
  const chats = page.chats.map(chat => {
    const same = before.get(chat.chatKey)?.chat;
    return same && JSON.stringify(same) === JSON.stringify(chat) ? same : chat;
  });
  if (page.before === null || known.chats.length === known.newest.size) return { chats, before: page.before, newest, query };
  // The last chat of the page that has not moved: what follows it in `known` follows it now.
  const last = page.chats.findLast(chat => before.get(chat.chatKey)?.chat.lastInteractionAt === chat.lastInteractionAt);
  // So much is new that there may be more between the page and what is known.
  if (last === undefined && page.chats.length === PAGE) return { ...page, newest, query };
  const end = page.chats.length === PAGE ? before.get(last!.chatKey)!.at : known.chats.length;
  // What was on the first page and is not, though there is room for it, was deleted or does not fit the filter any more.
  const rest = known.chats.filter(({ chatKey }, at) => !newest.has(chatKey) && !(at < end && known.newest.has(chatKey)));
  return { chats: [...chats, ...rest], before: known.before, newest, query };
}

interface Props {
  chats: ListedChat[] | null;
  /** What `chats` are narrowed to. */
  query: string;
  more: (() => Promise<void>) | null;
  problem: ReturnType<typeof usePoll>['problem'];
  current: string | null;
  isAdmin: boolean;
  filter: Filter;
  onFilter: (filter: Filter) => void;
}

export function ChatList({ chats, query, more, problem, current, isAdmin, filter, onFilter }: Props) {
  const isFiltered = queryOf(filter) !== '';
  const [isLoading, setLoading] = useState(false);
  const load = async () => {
    setLoading(true);
    await more?.();
    setLoading(false);
  };
  const today = new Date().toDateString();
  return (
    <nav aria-label={texts.chats} className="chats">
      {isAdmin && (
        <search className="filter" aria-label={texts.filter}>
          <SearchField aria-label={texts.filter} value={filter.q} onChange={q => onFilter({ ...filter, q })}>
            <Input placeholder={texts.filter} maxLength={LONGEST} />
          </SearchField>
          <select aria-label={texts.whichChats} value={filter.state} onChange={event => onFilter({ ...filter, state: event.target.value as Filter['state'] })}>
            {STATES.map(state => (
              <option key={state} value={state}>
                {texts.chatStates[state]}
              </option>
            ))}
          </select>
        </search>
      )}
      {problem && <Trouble problem={problem} />}
      {chats === null && !problem && <Loading what={texts.loadingChats} />}
      {!isAdmin && <p className="empty">{texts.ownAlone}</p>}
      <Unsent current={current} />
      {isAdmin && chats?.length === 0 && <p className="empty">{isFiltered ? texts.noneFits : texts.noChats}</p>}
      {/* Another list is removed as a whole, which takes much less than removing its rows one by one. */}
      <ul key={query}>
        {chats?.map(chat => (
          <li key={chat.chatKey}>
            <Row chat={chat} isCurrent={chat.chatKey === current} today={today} />
          </li>
        ))}
      </ul>
      {more && (
        <Button isDisabled={isLoading} onPress={() => void load()}>
          {texts.moreChats}
        </Button>
      )}
    </nav>
  );
}

/** Links to chats in which something was not sent: some have no entry in the list yet. */
function Unsent({ current }: { current: string | null }) {
  const chats = useUnsentChats().split('\n').filter(chat => chat !== '' && chat !== current);
  if (chats.length === 0) return null;
  return (
    <p className="failure unsent">
      {texts.unsentIn}{' '}
      {chats.map(chat => (
        <a key={chat} href={href({ at: 'chat', chat, view: 'history' })}>
          {nameOf(chat).title}
        </a>
      ))}
    </p>
  );
}

/** One chat. `today` is there since what a row says of a time depends on it. */
const Row = memo(({ chat, isCurrent }: { chat: ListedChat; isCurrent: boolean; today: string }) => {
  const name = nameOf(chat.chatKey, chat);
  const last = chat.lastMessage;
  const failure = chat.deliveryFailure;
  return (
    <a className="chat-row" href={href({ at: 'chat', chat: chat.chatKey, view: 'history' })} aria-current={isCurrent ? 'page' : undefined}>
      <span className="row spread">
        <b className="title">{name.title}</b>
        <time className="small" dateTime={new Date(chat.lastInteractionAt).toISOString()} title={moment(chat.lastInteractionAt)}>
          {brief(last?.ts ?? chat.lastInteractionAt)}
        </time>
      </span>
      <span className="excerpt">
        {last?.role === 'assistant' && <span className="by">{texts.bot} </span>}
        {last?.text}
      </span>
      <span className="row tags">
        <ChannelBadge name={name} />
        {name.hint && <span className="small hint">{name.hint}</span>}
        {chat.pendingTurn && <span className="tag live">{chat.pendingTurn === 'answering' ? texts.answering : texts.waits}</span>}
        {chat.takeover && <span className="tag live">{texts.withOperator(chat.takeover.by)}</span>}
        {chat.stale && (
          <span className="tag" title={chat.staleAt ? texts.since(when(chat.staleAt)) : undefined}>
            {texts.sessionOver}
          </span>
        )}
        {chat.tokens !== undefined && chat.window !== undefined && (
          <span className="small tokens-left" title={texts.tokensOf(chat.tokens, chat.window)}>
            {texts.tokens(short(chat.tokens))}
          </span>
        )}
      </span>
      {failure && <span className="failure">{texts.notDeliveredBecause(failure.reason)}</span>}
      {chat.blocked && !failure && <span className="failure">{texts.blockedBecause(chat.blocked.reason)}</span>}
    </a>
  );
});
