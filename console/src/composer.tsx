// The box for writing a message.
import { type KeyboardEvent, useState } from 'react';
import { Input, Label, TextArea, TextField } from 'react-aria-components';
import { Button, Icon } from './widgets';

interface Props {
  /** The default user id. */
  speaker: string;
  label: string;
  /** A note for the person who writes. */
  note?: string | undefined;
  isBusy?: boolean;
  onSend: (text: string, userId: string) => void;
  onStop?: (() => void) | undefined;
}

export function Composer({ speaker, label, note, isBusy, onSend, onStop }: Props) {
  const [text, setText] = useState('');
  const [own, setOwn] = useState<string | null>(null);
  const userId = own ?? speaker;
  const canSend = text.trim() !== '' && userId !== '' && !isBusy;
  const send = () => {
    if (!canSend) return;
    onSend(text, userId);
    setText('');
  };
  const pressed = (event: KeyboardEvent) => {
    // Enter also confirms a word of a Chinese or Japanese input method.
    if (event.key !== 'Enter' || event.shiftKey || event.nativeEvent.isComposing) return;
    event.preventDefault();
    send();
  };
  return (
    <form
      className="composer"
      onSubmit={event => {
        event.preventDefault();
        send();
      }}
    >
      <TextField className="say" value={text} onChange={setText} aria-label={label}>
        <TextArea rows={1} placeholder={label} onKeyDown={pressed} />
      </TextField>
      {isBusy && onStop ? (
        <Button look="main" aria-label="Stop" onPress={onStop}>
          <Icon name="stop" />
        </Button>
      ) : (
        <Button look="main" type="submit" aria-label="Send" isDisabled={!canSend}>
          <Icon name="send" />
        </Button>
      )}
      <div className="as">
        <TextField value={userId} onChange={setOwn}>
          <Label>Speaking as</Label>
          <Input size={Math.max(4, userId.length)} spellCheck="false" autoComplete="off" />
        </TextField>
        <span className={note ? 'small' : 'small roomy'}>{note ?? 'Enter sends, Shift+Enter is a new line'}</span>
      </div>
    </form>
  );
}
