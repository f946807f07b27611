// What happens in all chats, or in one, while it happens.
import { useEffect, useRef, useState } from 'react';
import { type Event, Feed } from './events';
import { moment, nameOf } from './names';
import { Page } from './page';
import { PACE, usePoll } from './poll';
import { go, href } from './route';
import { useSession } from './session';
import { texts } from './text';
import { Loading, Trouble } from './widgets';

/** Maximum number of shown events. */
const MOST = 500;
const exact = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', second: '2-digit' });

export function Live({ chat }: { chat: string | null }) {
  const { api } = useSession();
  const feed = useRef(new Feed(chat));
  const [events, setEvents] = useState<Event[] | null>(null);
  const [titles, setTitles] = useState(new Map<string, string>());
  const { problem } = usePoll(async signal => {
    try {
      await feed.current.poll(api, signal);
    } finally {
      // Also what was read before a request failed.
      const found = feed.current.take();
      if (found.length > 0) setEvents(shown => [...found.toReversed(), ...(shown ?? [])].slice(0, MOST));
    }
    setEvents(shown => shown ?? []);
  }, PACE.list);
  useEffect(() => {
    setTitles(known => new Map([...known, ...(events ?? []).map(event => [event.chat, event.title] as const)]));
  }, [events]);
  const choices = new Map([...(chat ? [[chat, nameOf(chat).title] as const] : []), ...titles]);
  return (
    <Page
      title={texts.live}
      why={texts.liveWhy}
      content={texts.events}
      controls={
        <select aria-label={texts.followed} value={chat ?? ''} onChange={({ target }) => go({ at: 'live', ...(target.value && { chat: target.value }) })}>
          <option value="">{texts.followAll}</option>
          {[...choices].map(([key, title]) => (
            <option key={key} value={key}>
              {title}
            </option>
          ))}
        </select>
      }
    >
      {problem && <Trouble problem={problem} />}
      {events === null && !problem && <Loading what={texts.loadingEvents} />}
      {events?.length === 0 && <p className="empty">{texts.noEvents}</p>}
      <ol className="events">
        {events?.map(({ at, kind, chat, title, who, messageId, text }) => (
          <li key={`${chat} ${messageId} ${kind}`}>
            <time className="small" dateTime={new Date(at).toISOString()} title={moment(at)}>
              {exact.format(at)}
            </time>
            <span className={`tag event ${kind}`}>{texts.eventKinds[kind]}</span>
            <a href={href({ at: 'chat', chat, view: 'history' })}>{title}</a>
            <span className="by">{who}</span>
            <span className="said">{text}</span>
          </li>
        ))}
      </ol>
    </Page>
  );
}
