// First steps: start a chat here, or by the API.
import { useState } from 'react';
import { Input, Label, TextField } from 'react-aria-components';
import type { Part, Stranger } from './api';
import { Composer } from './composer';
import { when } from './names';
import { PACE, usePoll } from './poll';
import { go } from './route';
import { useSession } from './session';
import { texts } from './text';
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
        <h1>{isEmpty ? texts.nothingYet : texts.choose}</h1>
        <p>{isEmpty ? texts.nothingYetWhy : texts.chooseWhy}</p>
        {key.admin && <Composer draftName="" speaker={key.name} label={texts.sayToBot} onSend={onStart} />}
        <OpenById />
        {key.admin && <Strangers />}
        <h2>{texts.byTheApi}</h2>
        <div className="command">
          <pre tabIndex={0} aria-label={texts.apiCall}>{curl}</pre>
          <Copy text={curl} label={texts.copyCall} />
        </div>
        <p className="small">
          {texts.wholeApi[0]}
          <a href="/openapi.json">openapi.json</a>
          {texts.wholeApi[1]}
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
      <h2>{texts.refused}</h2>
      <p className="small">
        {texts.refusedWhy}
      </p>
      <ul className="cards">
        {strangers.map(({ person, name, chatKey, at }) => (
          <li key={chatKey} className="card row spread">
            <span>
              <code>{person}</code> {name && `(${name}) `}
              {texts.refusedIn} <code>{chatKey}</code>
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
        <Label>{key.admin ? texts.openAny : texts.openOwn}</Label>
        <Input placeholder={key.admin ? 'telegram:chat:42' : 'hello'} spellCheck="false" autoComplete="off" />
      </TextField>
      <Button type="submit" isDisabled={id.trim() === ''}>
        {texts.open}
      </Button>
    </form>
  );
}
