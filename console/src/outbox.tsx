// Messages that the local program did not send, since their platform is not set up.
import { useState } from 'react';
import type { OutboxEntry } from './api';
import { asPart, nameOf, when } from './names';
import { Page } from './page';
import { PACE, usePoll } from './poll';
import { href } from './route';
import { useSession } from './session';
import { texts } from './text';
import { ChannelBadge, Loading, Trouble } from './widgets';

export function Outbox() {
  const { api } = useSession();
  const [entries, setEntries] = useState<OutboxEntry[] | null>(null);
  const { problem } = usePoll(async signal => {
    setEntries((await api.get<OutboxEntry[]>('/local/outbox', signal)).toReversed());
  }, PACE.list);
  return (
    <Page title={texts.outbox} why={texts.outboxWhy} content={texts.replies}>
      {problem && <Trouble problem={problem} />}
      {entries === null && !problem && <Loading what={texts.loadingOutbox} />}
      {entries?.length === 0 && <p className="empty">{texts.outboxEmpty}</p>}
      {entries && entries.length > 0 && <p className="small">{texts.repliesCount(entries.length)}</p>}
      <ol className="cards">
        {entries?.map((entry, at) => {
          // A channel of Discord does not name its chat.
          const chat = entry.channel === 'discord' ? `agent::channel::${asPart(entry.chatId)}` : `${entry.channel}:chat:${asPart(entry.chatId)}`;
          return (
            <li key={entries.length - at}>
              <article className="card">
                <p className="row spread small">
                  <span>
                    <ChannelBadge name={nameOf(chat)} /> {texts.to}{' '}
                    {entry.channel === 'discord' ? entry.chatId : <a href={href({ at: 'chat', chat, view: 'history' })}>{entry.chatId}</a>}
                  </span>
                  <span>{when(entry.ts)}</span>
                </p>
                <p className="plain">{entry.text}</p>
              </article>
            </li>
          );
        })}
      </ol>
    </Page>
  );
}
