// The box for writing a message.
import { type KeyboardEvent, useRef, useState } from 'react';
import { Input, Label, TextArea, TextField } from 'react-aria-components';
import { type FilePart, attached, fits, isSeen } from './attach';
import { isComposing } from './shortcuts';
import { texts } from './text';
import type { Part } from './api';
import { draft, keepDraft } from './unsent';
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
  const [text, setText] = useState(() => draft(draftName).text);
  const [files, setFiles] = useState<FilePart[]>(() => draft(draftName).files);
  const [refused, setRefused] = useState<string[]>([]);
  const [own, setOwn] = useState<string | null>(null);
  const chooser = useRef<HTMLInputElement>(null);
  const userId = own ?? speaker;
  const canSend = (text.trim() !== '' || files.length > 0) && userId !== '';
  const write = (text: string, files: FilePart[]) => {
    setText(text);
    setFiles(files);
    keepDraft(draftName, { text, files });
  };
  const add = async (chosen: Iterable<File>) => {
    const [taken, reasons] = [[...files], [] as string[]];
    for (const file of chosen) {
      await attached(file, [...taken, { type: 'text', text }]).then(part => taken.push(part), (error: Error) => reasons.push(error.message));
    }
    write(text, taken);
    setRefused(reasons);
  };
  const send = () => {
    if (!canSend) return;
    if (!fits(text, files)) return setRefused([texts.textTooLong]);
    onSend([...files, ...(text.trim() === '' ? [] : [{ type: 'text' as const, text }])], userId);
    write('', []);
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
              <Button look="icon" aria-label={texts.remove(file.filename ?? '')} onPress={() => write(text, files.toSpliced(at, 1))}>
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
      <TextField className="say" value={text} onChange={text => write(text, files)} aria-label={label}>
        <TextArea
          rows={1}
          placeholder={label}
          onKeyDown={pressed}
          onPaste={event => {
            if (event.clipboardData.files.length === 0) return;
            event.preventDefault();
            void add([...event.clipboardData.files]);
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
