// Form for the API key.
import { useState } from 'react';
import { Input, Label, TextField } from 'react-aria-components';
import { type Key, Problem } from './api';
import { keep, keyOf } from './session';
import { texts } from './text';
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
      setProblem(what.status === 401 ? new Problem(401, texts.unknownKey, texts.unknownKeyWhy) : what);
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
        <p>{texts.signInWhy}</p>
        <TextField value={secret} onChange={setSecret} type="password" autoFocus>
          <Label>{texts.apiKey}</Label>
          <Input autoComplete="current-password" spellCheck="false" />
        </TextField>
        {problem && <Trouble problem={problem} />}
        <Button look="main" type="submit" isDisabled={secret.trim() === '' || isAsking}>
          {texts.signIn}
        </Button>
        <p className="small">{texts.keptUntil(location.host)}</p>
      </form>
    </main>
  );
}
