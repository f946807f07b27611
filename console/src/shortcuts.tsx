// Keys of the whole page, the list of them, and the way to a chat by its name.
import { type KeyboardEvent as ReactKeyboardEvent, type ReactNode, useEffect, useState } from 'react';
import { Dialog, Heading, Modal, ModalOverlay } from 'react-aria-components';
import type { ListedChat } from './api';
import { LONGEST, TYPING } from './list';
import { nameOf } from './names';
import { go } from './route';
import { useSession } from './session';
import { texts } from './text';
import { Button, ChannelBadge } from './widgets';

/** Maximum number of chats that are shown. */
const MOST = 12;

/** Returns true if a dialog is open, which has the keys then. */
export const hasDialog = (): boolean => document.querySelector('[role="dialog"], [role="alertdialog"]') !== null;

/**
 * Returns true if an input method has the key, such as the Enter that ends a word of Chinese or Japanese. Safari sends that one after the
 * end of the composition, with the key code that input methods have.
 */
export const isComposing = (event: KeyboardEvent): boolean => event.isComposing || event.keyCode === 229;

interface Props {
  chats: ListedChat[] | null;
  isJumping: boolean;
  onJump: (isJumping: boolean) => void;
}

export function Shortcuts({ chats, isJumping, onJump }: Props) {
  const [isHelping, setHelping] = useState(false);
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      if (event.key.toLowerCase() === 'k' && (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey) {
        event.preventDefault();
        if (!hasDialog()) onJump(true);
        return;
      }
      const isTyping = event.target instanceof HTMLElement && event.target.matches('input, textarea, select, [contenteditable]');
      if (isTyping || event.ctrlKey || event.metaKey || event.altKey || hasDialog()) return;
      const box = document.querySelector<HTMLElement>('.composer textarea');
      if (event.key === '/' && box) {
        event.preventDefault();
        box.focus();
      } else if (event.key === '?') {
        event.preventDefault();
        setHelping(true);
      }
    };
    addEventListener('keydown', pressed);
    return () => removeEventListener('keydown', pressed);
  }, []);
  return (
    <>
      <Pane isOpen={isHelping} onOpen={setHelping} title={texts.shortcuts}>
        <dl className="keys">
          {texts.shortcutList.map(([keys, does]) => (
            <div key={keys}>
              <dt>
                <kbd>{keys}</kbd>
              </dt>
              <dd>{does}</dd>
            </div>
          ))}
        </dl>
        <div className="row end">
          <Button onPress={() => setHelping(false)} autoFocus>
            {texts.close}
          </Button>
        </div>
      </Pane>
      <Pane isOpen={isJumping} onOpen={onJump} title={texts.jump}>
        <Jump chats={chats ?? []} onDone={() => onJump(false)} />
      </Pane>
    </>
  );
}

function Pane(props: { isOpen: boolean; onOpen: (isOpen: boolean) => void; title: string; children: ReactNode }) {
  return (
    <ModalOverlay className="overlay" isDismissable isOpen={props.isOpen} onOpenChange={props.onOpen}>
      <Modal className="modal">
        <Dialog>
          <Heading slot="title">{props.title}</Heading>
          {props.children}
        </Dialog>
      </Modal>
    </ModalOverlay>
  );
}

function Jump({ chats, onDone }: { chats: ListedChat[]; onDone: () => void }) {
  const [typed, setTyped] = useState('');
  const [at, setAt] = useState(0);
  const { api, key } = useSession();
  // Chats that the list has not loaded.
  const [others, setOthers] = useState<ListedChat[]>([]);
  useEffect(() => {
    setOthers([]);
    const q = typed.trim();
    if (q === '' || !key.admin) return;
    const ended = new AbortController();
    const ask = () => api.get<{ chats: ListedChat[] }>(`/v1/chats?limit=${MOST}&q=${encodeURIComponent(q)}`, ended.signal);
    // What cannot be asked for is not among those to choose from.
    const timer = setTimeout(() => void ask().then(({ chats }) => setOthers(chats), () => {}), TYPING);
    return () => {
      clearTimeout(timer);
      ended.abort();
    };
  }, [typed]);
  const words = typed.trim().toLowerCase();
  const known = chats.filter(chat => textOfChat(chat).includes(words));
  const isKnown = new Set(known.map(chat => chat.chatKey));
  const found = [...known, ...others.filter(chat => !isKnown.has(chat.chatKey))].slice(0, MOST);
  // What is not in the list may be opened by its id.
  const keys = [...found.map(chat => chat.chatKey), ...(found.length === 0 && words !== '' ? [typed.trim()] : [])];
  const open = (key: string | undefined) => {
    if (key === undefined) return;
    go({ at: 'chat', chat: key, view: 'history' });
    onDone();
  };
  const pressed = (event: ReactKeyboardEvent) => {
    if (isComposing(event.nativeEvent)) return;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step === undefined && event.key !== 'Enter') return;
    event.preventDefault();
    if (step === undefined) open(keys[at]);
    else setAt((at + step + keys.length) % Math.max(1, keys.length));
  };
  return (
    <>
      <input
        autoFocus
        maxLength={LONGEST}
        value={typed}
        onChange={event => {
          setTyped(event.target.value);
          setAt(0);
        }}
        onKeyDown={pressed}
        role="combobox"
        aria-label={texts.jumpTo}
        aria-expanded={keys.length > 0}
        aria-controls="jump-list"
        aria-activedescendant={keys.length > 0 ? `jump-${at}` : undefined}
        aria-autocomplete="list"
        placeholder={texts.jumpTo}
        spellCheck="false"
        autoComplete="off"
      />
      {keys.length > 0 && (
        <ul id="jump-list" className="jump" role="listbox" aria-label={texts.chats}>
          {keys.map((key, place) => {
            const chat = found[place];
            const name = nameOf(key, chat);
            return (
              <li key={key} id={`jump-${place}`} role="option" aria-selected={place === at} onClick={() => open(key)} onPointerMove={() => setAt(place)}>
                <ChannelBadge name={name} /> <b>{chat ? name.title : texts.openById(key)}</b> <span className="small">{name.hint}</span>
              </li>
            );
          })}
        </ul>
      )}
    </>
  );
}

const textOfChat = (chat: ListedChat): string => {
  const { title, channelName } = nameOf(chat.chatKey, chat);
  return [title, channelName, chat.chatKey, chat.speaker, chat.lastMessage?.text].join('\n').toLowerCase();
};
