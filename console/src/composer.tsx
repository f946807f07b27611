// The box for writing a message.
import { type KeyboardEvent, useState } from 'react';
import { Input, Label, TextArea, TextField } from 'react-aria-components';
import { texts } from './text';
import { type Part, draft, keepDraft } from './unsent';
import { Button, Icon } from './widgets';

interface Props {
  /** The chat whose draft it keeps. */
  chat: string;
  /** The default user id. */
  speaker: string;
  label: string;
  /** A note for the person who writes. */
  note?: string | undefined;
  onSend: (parts: Part[], userId: string) => void;
  /** Stops the answer that is being received. */
  onStop?: (() => void) | undefined;
}

export function Composer({ chat, speaker, label, note, onSend, onStop }: Props) {
  const [text, setText] = useState(() => draft(chat));
  const [own, setOwn] = useState<string | null>(null);
  const userId = own ?? speaker;
  const canSend = text.trim() !== '' && userId !== '';
  const write = (text: string) => {
    setText(text);
    keepDraft(chat, text);
  };
  const send = () => {
    if (!canSend) return;
    onSend([{ type: 'text', text }], userId);
    write('');
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
      <TextField className="say" value={text} onChange={write} aria-label={label}>
        <TextArea rows={1} placeholder={label} onKeyDown={pressed} />
      </TextField>
      <div className="row">
        {onStop && (
          <Button aria-label={texts.stop} onPress={onStop}>
            <Icon name="stop" />
          </Button>
        )}
        <Button look="main" type="submit" aria-label={texts.send} isDisabled={!canSend}>
          <Icon name="send" />
        </Button>
      </div>
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
