// First steps: start a chat here, or by the API.
import { useState } from 'react';
import { Input, Label, TextField } from 'react-aria-components';
import type { Stranger } from './api';
import { Composer } from './composer';
import { when } from './names';
import { PACE, usePoll } from './poll';
import { go } from './route';
import { useSession } from './session';
import type { Part } from './unsent';
import { Button, Copy } from './widgets';

interface Props {
  isEmpty: boolean;
  onStart: (parts: Part[], userId: string) => void;
}

export function Welcome({ isEmpty, onStart }: Props) {
  const { key, isWellKnown } = useSession();
  const secret = isWellKnown ? 'dev' : '<key>';
  const curl =
    `curl -X POST '${location.origin}/v1/chats/hello/messages?wait=20' -H 'Authorization: Bearer ${secret}' ` +
    `-H 'Content-Type: application/json' -d '{"userId":"ada","messageId":"hello-1","text":"hello"}'`;
  return (
    <main className="page welcome" id="main">
      <div className="scrolls">
        <h1>{isEmpty ? 'Nothing has been said yet' : 'Choose a chat, or start one'}</h1>
        <p>{isEmpty ? 'Say something, and the bot answers. The chat will be at the left, with all that others begin.' : 'A new one begins with what you say.'}</p>
        {key.admin && <Composer chat="" speaker={key.name} label="Say something to the bot" onSend={onStart} />}
        <OpenById />
        {key.admin && <Strangers />}
        <h2>Or by the API</h2>
        <div className="command">
          <pre tabIndex={0} aria-label="A call of the API">{curl}</pre>
          <Copy text={curl} label="Copy the call" />
        </div>
        <p className="small">
          All of the API is in <a href="/openapi.json">openapi.json</a>.
        </p>
      </div>
    </main>
  );
}

function Strangers() {
  const { api } = useSession();
  const [strangers, setStrangers] = useState<Stranger[]>([]);
  usePoll(async signal => {
    setStrangers((await api.get<{ strangers: Stranger[] }>('/v1/strangers', signal)).strangers);
  }, PACE.list);
  if (strangers.length === 0) return null;
  return (
    <>
      <h2>Refused</h2>
      <p className="small">
        They wrote to the bot and may not use it. Nothing that they said is kept. Add a person to ALLOW_FROM or a chat to ALLOW_CHATS to
        let them in.
      </p>
      <ul className="cards">
        {strangers.map(({ person, name, chatKey, at }) => (
          <li key={chatKey} className="card row spread">
            <span>
              <code>{person}</code> {name && `(${name}) `}in <code>{chatKey}</code>
            </span>
            <span className="small">{when(at)}</span>
          </li>
        ))}
      </ul>
    </>
  );
}

function OpenById() {
  const { key } = useSession();
  const [id, setId] = useState('');
  return (
    <form
      className="search"
      onSubmit={event => {
        event.preventDefault();
        if (id.trim() !== '') go({ at: 'chat', chat: id.trim(), view: 'history' });
      }}
    >
      <TextField value={id} onChange={setId} className="grow">
        <Label>{key.admin ? 'Open a chat by its ChatKey, or a conversation id of this key' : 'Open a conversation by its id'}</Label>
        <Input placeholder={key.admin ? 'telegram:chat:42' : 'hello'} spellCheck="false" autoComplete="off" />
      </TextField>
      <Button type="submit" isDisabled={id.trim() === ''}>
        Open
      </Button>
    </form>
  );
}
