// What to do first: say something here, or by the API.
import { useState } from 'react';
import { Input, Label, TextField } from 'react-aria-components';
import { Composer } from './composer';
import { go } from './route';
import { useSession } from './session';
import { Button, Copy } from './widgets';

interface Props {
  isEmpty: boolean;
  onStart: (text: string, userId: string) => void;
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
        {key.admin && <Composer speaker={key.name} label="Say something to the bot" onSend={onStart} />}
        <OpenById />
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
