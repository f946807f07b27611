// The box for writing a message.
import { type KeyboardEvent, useRef, useState } from 'react';
import { Input, Label, TextArea, TextField } from 'react-aria-components';
import { attached, fits, isSeen } from './attach';
import { isComposing } from './shortcuts';
import { texts } from './text';
import type { Part } from './api';
import { type Draft, draft, keepDraft } from './unsent';
import { Button, Icon } from './widgets';

interface Props {
  /** Name of the draft that it keeps. */
  draftName: string;
  /** The default user id. */
  speaker: string;
  /** True if the message is sent as the bot, by the speaker. */
  isBot?: boolean;
  label: string;
  /** A note for the person who writes. */
  note?: string | undefined;
  onSend: (parts: Part[], userId: string) => void;
  /** Stops the answer that is being received. */
  onStop?: (() => void) | undefined;
}

export function Composer({ draftName, speaker, isBot = false, label, note, onSend, onStop }: Props) {
  const [shown, setShown] = useState(() => draft(draftName));
  const { text, files } = shown;
  /** The draft as it is now, also for a file that was chosen earlier and is still being read. */
  const latest = useRef(shown);
  /** Number of choices of files that are being read. */
  const [reading, setReading] = useState(0);
  const [refused, setRefused] = useState<string[]>([]);
  const [own, setOwn] = useState<string | null>(null);
  const chooser = useRef<HTMLInputElement>(null);
  const userId = own ?? speaker;
  const canSend = (text.trim() !== '' || files.length > 0) && userId !== '' && reading === 0;
  const write = (changed: Partial<Draft>) => {
    latest.current = { ...latest.current, ...changed };
    setShown(latest.current);
    keepDraft(draftName, latest.current);
  };
  const add = async (chosen: Iterable<File>) => {
    const reasons: string[] = [];
    setReading(now => now + 1);
    for (const file of chosen) {
      const { text, files } = latest.current;
      await attached(file, [...files, { type: 'text', text }]).then(
        part => write({ files: [...latest.current.files, part] }),
        (error: Error) => reasons.push(error.message),
      );
    }
    setReading(now => now - 1);
    setRefused(reasons);
  };
  const send = () => {
    if (!canSend) return;
    if (!fits(text, files)) return setRefused([texts.textTooLong]);
    onSend([...files, ...(text.trim() === '' ? [] : [{ type: 'text' as const, text }])], userId);
    write({ text: '', files: [] });
    setRefused([]);
  };
  const pressed = (event: KeyboardEvent) => {
    if (event.key !== 'Enter' || event.shiftKey || isComposing(event.nativeEvent)) return;
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
      onDragOver={event => event.preventDefault()}
      onDrop={event => {
        event.preventDefault();
        void add(event.dataTransfer.files);
      }}
    >
      {(files.length > 0 || refused.length > 0) && (
        <div className="files">
          {files.map((file, at) => (
            <span key={`${file.filename} ${at}`} className="chip">
              {isSeen(file) ? <img src={file.url} alt="" /> : <span aria-hidden="true">📄</span>}
              <span>{file.filename}</span>
              <Button look="icon" aria-label={texts.remove(file.filename ?? '')} onPress={() => write({ files: files.toSpliced(at, 1) })}>
                ×
              </Button>
            </span>
          ))}
          {!files.every(isSeen) && <p className="small">{texts.onlyNamed}</p>}
          {refused.map(reason => (
            <p key={reason} className="failure" role="alert">
              {reason}
            </p>
          ))}
        </div>
      )}
      <Button aria-label={texts.attach} onPress={() => chooser.current?.click()}>
        <Icon name="attach" />
      </Button>
      <input
        ref={chooser}
        type="file"
        multiple
        hidden
        onChange={event => {
          void add([...(event.target.files ?? [])]);
          // The same file may be chosen again.
          event.target.value = '';
        }}
      />
      <TextField className="say" value={text} onChange={text => write({ text })} aria-label={label}>
        <TextArea
          rows={1}
          placeholder={label}
          onKeyDown={pressed}
          onPaste={event => {
            const { files, types } = event.clipboardData;
            // Office programs add a picture of the text.
            const isText = types.includes('text/plain') && types.includes('text/html');
            if (files.length === 0 || isText) return;
            event.preventDefault();
            void add([...files]);
          }}
        />
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
        {!isBot && (
          <TextField value={userId} onChange={setOwn}>
            <Label>{texts.speakingAs}</Label>
            <Input size={Math.max(4, userId.length)} spellCheck="false" autoComplete="off" />
          </TextField>
        )}
        <span className={note ? 'small' : 'small roomy'}>{note ?? texts.keys}</span>
      </div>
    </form>
  );
}
