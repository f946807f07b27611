// Form for the API key.
import { useState } from 'react';
import { Input, Label, TextField } from 'react-aria-components';
import { type Key, Problem } from './api';
import { keep, keyOf } from './session';
import { Button, Trouble } from './widgets';

export function SignIn({ first, onKey }: { first: Problem | null; onKey: (secret: string, key: Key) => void }) {
  const [secret, setSecret] = useState('');
  const [problem, setProblem] = useState<Problem | null>(first);
  const [isAsking, setAsking] = useState(false);
  const submit = async () => {
    setAsking(true);
    try {
      const key = await keyOf(secret.trim());
      keep(secret.trim());
      onKey(secret.trim(), key);
    } catch (error) {
      const what = Problem.from(error);
      setProblem(what.status === 401 ? new Problem(401, 'This key is not known here', 'Give the secret of one of HTTP_API_KEYS, without its name; if that is not set, the key that the program printed.') : what);
      setAsking(false);
    }
  };
  return (
    <main className="signin" id="main">
      <form
        className="card"
        onSubmit={event => {
          event.preventDefault();
          void submit();
        }}
      >
        <h1>Annals</h1>
        <p>Sign in with a key of the HTTP API. An admin’s key sees all chats.</p>
        <TextField value={secret} onChange={setSecret} type="password" autoFocus>
          <Label>API key</Label>
          <Input autoComplete="current-password" spellCheck="false" />
        </TextField>
        {problem && <Trouble problem={problem} />}
        <Button look="main" type="submit" isDisabled={secret.trim() === '' || isAsking}>
          Sign in
        </Button>
        <p className="small">It is kept until this tab is closed, and sent to {location.host} alone.</p>
      </form>
    </main>
  );
}
