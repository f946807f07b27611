// The list of chats, the latest first.
import { useEffect, useRef, useState } from 'react';
import { Input, SearchField } from 'react-aria-components';
import type { Api, ListedChat } from './api';
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
  const [chats, setChats] = useState<ListedChat[] | null>(null);
  const [before, setBefore] = useState<string | null>(null);
  const tokens = useRef(new Map<string, Pick<ListedChat, 'tokens' | 'window'>>());
  const [pages, setPages] = useState(1);
  const asked = useRef(0);
  const poll = usePoll(async signal => {
    if (!isAllowed) return setChats([]);
    const withTokens = asked.current++ % TOKENS_EVERY === 0;
    const found: ListedChat[] = [];
    let cursor: string | null = null;
    for (let page = 0; page < pages; page++) {
      const query: string = `limit=${PAGE}${queryOf(filter)}${withTokens ? '&context=true' : ''}${cursor ? `&before=${cursor}` : ''}`;
      const answer: Chats = await api.get(`/v1/chats?${query}`, signal);
      found.push(...answer.chats);
      cursor = answer.before;
      if (cursor === null) break;
    }
    if (withTokens) tokens.current = new Map(found.map(({ chatKey, tokens, window }) => [chatKey, { tokens, window } as never]));
    setChats(found.map(chat => ({ ...tokens.current.get(chat.chatKey), ...chat })));
    setBefore(cursor);
  }, PACE.list);
  const wanted = `${pages} ${queryOf(filter)}`;
  const asksFor = useRef(wanted);
  useEffect(() => {
    if (asksFor.current === wanted) return;
    asksFor.current = wanted;
    const timer = setTimeout(() => void poll.again(), TYPING);
    return () => clearTimeout(timer);
  }, [wanted]);
  useEffect(() => setPages(1), [queryOf(filter)]);
  const more = before === null ? null : () => setPages(now => now + 1);
  return { chats, more, problem: poll.problem, again: poll.again };
}

interface Props {
  chats: ListedChat[] | null;
  more: (() => void) | null;
  problem: ReturnType<typeof usePoll>['problem'];
  current: string | null;
  isAdmin: boolean;
  filter: Filter;
  onFilter: (filter: Filter) => void;
}

export function ChatList({ chats, more, problem, current, isAdmin, filter, onFilter }: Props) {
  const isFiltered = queryOf(filter) !== '';
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
      <ul>
        {chats?.map(chat => (
          <li key={chat.chatKey}>
            <Row chat={chat} isCurrent={chat.chatKey === current} />
          </li>
        ))}
      </ul>
      {more && <Button onPress={more}>{texts.moreChats}</Button>}
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

function Row({ chat, isCurrent }: { chat: ListedChat; isCurrent: boolean }) {
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
}
