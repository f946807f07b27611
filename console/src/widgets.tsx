// Small components used throughout the console.
import { type CSSProperties, type ReactNode, useState } from 'react';
import { Button as AriaButton, type ButtonProps, Dialog, DialogTrigger, Heading, Modal, ModalOverlay } from 'react-aria-components';
import type { Problem } from './api';
import { type ChatName, hueOf, isPlatform } from './names';
import { texts } from './text';

const PATHS = {
  attach: 'M20 11l-8.5 8.5a5 5 0 01-7-7L13 4a3.3 3.3 0 014.7 4.7l-8.5 8.5a1.7 1.7 0 01-2.4-2.4L14.5 7',
  edit: 'M4 20l1-4L16 5l3 3L8 19l-4 1zM13.5 7.5l3 3',
  find: 'M11 4a7 7 0 100 14 7 7 0 000-14zM16 16l4.5 4.5',
  back: 'M15 5l-7 7 7 7',
  copy: 'M9 9h10v10H9zM5 15V5h10',
  details: 'M4 6h16M4 12h16M4 18h10',
  live: 'M3 12h4l3-7 4 14 3-7h4',
  moon: 'M20 14.5A8 8 0 019.5 4a8 8 0 1010.5 10.5z',
  outbox: 'M4 13v6h16v-6M12 4v11M7.5 8.5L12 4l4.5 4.5',
  plus: 'M12 5v14M5 12h14',
  send: 'M4 12l16-8-6 16-3-7z',
  signout: 'M14 4h5v16h-5M4 12h10M10 8l4 4-4 4',
  status: 'M12 3l7 3v5c0 5-3 8-7 10-4-2-7-5-7-10V6zM9 12l2 2 4-4',
  stop: 'M7 7h10v10H7z',
  sun: 'M12 8a4 4 0 100 8 4 4 0 000-8zM12 2v3M12 19v3M2 12h3M19 12h3M5 5l2 2M17 17l2 2M19 5l-2 2M7 17l-2 2',
  system: 'M4 5h16v11H4zM9 20h6',
  steps: 'M4 5h7M9 10h8M7 15h4M13 20h7',
  usage: 'M4 20h16M7 16v-5M12 16V5M17 16V9',
  again: 'M20 11a8 8 0 10-2.5 6.5M20 4v7h-7',
};

export const Icon = ({ name }: { name: keyof typeof PATHS }) => (
  <svg className="icon" viewBox="0 0 24 24" aria-hidden="true">
    <path d={PATHS[name]} />
  </svg>
);

export const Button = ({ look = 'plain', ...props }: ButtonProps & { look?: 'plain' | 'main' | 'bad' | 'icon' }) => (
  <AriaButton {...props} className={`button ${look}`} />
);

/** A problem and its solution. */
export const Trouble = ({ problem, children }: { problem: Problem; children?: ReactNode }) => (
  <div className="trouble" role="alert">
    <strong>{problem.title}</strong>
    <p>{problem.detail}</p>
    {problem.requestId && <p className="small">{texts.request(problem.requestId)}</p>}
    {children}
  </div>
);

export const Loading = ({ what }: { what: string }) => (
  <p className="loading" role="status">
    <span className="dots" aria-hidden="true">
      <i /><i /><i />
    </span>
    {what}
  </p>
);

export const ChannelBadge = ({ name: { channel, channelName } }: { name: ChatName }) => (
  <span className={`badge ${isPlatform(channel) ? 'platform' : channel}`} style={{ '--hue': hueOf(channel) } as CSSProperties}>
    {channelName}
  </span>
);

/** A button that asks for confirmation before an action that cannot be undone. With `bad` it destroys something. */
export function Sure(props: { label: string; icon?: keyof typeof PATHS; title: string; children: ReactNode; does: string; onSure: () => void; look?: 'plain' | 'bad' }) {
  return (
    <DialogTrigger>
      {props.icon ? (
        <Button look="icon" aria-label={props.label}>
          <Icon name={props.icon} />
        </Button>
      ) : (
        <Button look={props.look ?? 'plain'}>{props.label}</Button>
      )}
      <ModalOverlay className="overlay" isDismissable>
        <Modal className="modal">
          <Dialog role="alertdialog">
            {({ close }) => (
              <>
                <Heading slot="title">{props.title}</Heading>
                <div>{props.children}</div>
                <div className="row end">
                  <Button onPress={close} autoFocus>
                    {texts.cancel}
                  </Button>
                  <Button look={props.look === 'plain' ? 'main' : 'bad'} onPress={() => (close(), props.onSure())}>
                    {props.does}
                  </Button>
                </div>
              </>
            )}
          </Dialog>
        </Modal>
      </ModalOverlay>
    </DialogTrigger>
  );
}

export function Copy({ text, label }: { text: string; label: string }) {
  const [isDone, setDone] = useState(false);
  // Over plain HTTP, browsers have none.
  if (!navigator.clipboard) return null;
  const copy = async () => {
    await navigator.clipboard.writeText(text).then(() => setDone(true), () => {});
    setTimeout(() => setDone(false), 2000);
  };
  return (
    <Button look="icon" aria-label={isDone ? texts.copied : label} onPress={() => void copy()}>
      {isDone ? '✓' : <Icon name="copy" />}
    </Button>
  );
}

/** Shows a text of the console, with what is between `**` in bold. */
export const Rich = ({ text }: { text: string }) => (
  <>{text.split('**').map((piece, at) => (at % 2 === 1 ? <b key={at}>{piece}</b> : piece))}</>
);

/** Shows `text` from the first match of `words` on, which is highlighted: all of them, or else one of them. */
export function Marked({ text, words: all }: { text: string; words: string }) {
  const lower = text.toLowerCase();
  const words = [all, ...all.split(/\s+/)].find(words => words !== '' && lower.includes(words.toLowerCase())) ?? '';
  const at = lower.indexOf(words.toLowerCase());
  if (words === '') return <>{text}</>;
  const from = Math.max(0, at - 60);
  return (
    <>
      {from > 0 && '…'}
      {text.slice(from, at)}
      <mark>{text.slice(at, at + words.length)}</mark>
      {text.slice(at + words.length)}
    </>
  );
}
