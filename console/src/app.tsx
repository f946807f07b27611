// The whole page: sign-in and layout.
import { useCallback, useEffect, useMemo, useState } from 'react';
import { Api, type Key, type Part, Problem } from './api';
import { Chat } from './chat';
import { Live } from './live';
import { ChatList, NO_FILTER, useChats } from './list';
import { nameOf } from './names';
import { Outbox } from './outbox';
import { go, href, useRoute } from './route';
import { type Session, SessionContext, drop, hasOutbox, isWellKnown, restored, useSession } from './session';
import { Shortcuts } from './shortcuts';
import { SignIn } from './signin';
import { Status } from './status';
import { THEMES, type Theme, setTheme, theme } from './theme';
import { texts } from './text';
import { clear, compose, useUnsentChats } from './unsent';
import { Usage } from './usage';
import { Welcome } from './welcome';
import { Button, Icon, Loading, Sure } from './widgets';

type State = { is: 'asking' } | { is: 'out'; why: Problem | null } | { is: 'in'; secret: string; key: Key; outbox: boolean };

export function App() {
  const [state, setState] = useState<State>({ is: 'asking' });
  const [told, setTold] = useState('');
  const enter = useCallback(async (secret: string, key: Key) => {
    setState({ is: 'in', secret, key, outbox: await hasOutbox(secret) });
  }, []);
  const signOut = useCallback((why: Problem | null = null) => {
    drop();
    setState({ is: 'out', why });
  }, []);

  useEffect(() => {
    const restore = () =>
      restored().then(
        found => (found ? enter(found.secret, found.key) : setState({ is: 'out', why: null })),
        error => setState({ is: 'out', why: Problem.from(error) }),
      );
    // A URL with a key may also be opened in this tab.
    const changed = () => location.hash.startsWith('#key=') && void restore();
    addEventListener('hashchange', changed);
    void restore();
    return () => removeEventListener('hashchange', changed);
  }, []);

  const session = useMemo<Session | null>(() => {
    if (state.is !== 'in') return null;
    const refused = new Problem(401, texts.keyRefused, texts.signInAgain);
    return {
      api: new Api(state.secret, () => signOut(refused)),
      key: state.key,
      isWellKnown: isWellKnown(state.secret),
      hasOutbox: state.outbox,
      // Clearing first makes screen readers announce the same text again.
      tell: what => (setTold(''), setTimeout(() => setTold(what), 50)),
      signOut: () => {
        clear();
        signOut();
      },
    };
  }, [state, signOut]);

  return (
    <>
      {state.is === 'asking' && <Loading what={texts.signingIn} />}
      {state.is === 'out' && <SignIn first={state.why} onKey={(secret, key) => void enter(secret, key)} />}
      {session && (
        <SessionContext value={session}>
          <Console />
        </SessionContext>
      )}
      <p className={`toast${told ? ' shown' : ''}`} role="status" onAnimationEnd={() => setTold('')}>
        {told}
      </p>
    </>
  );
}

function Console() {
  const { api, key, hasOutbox, signOut, isWellKnown } = useSession();
  const hasUnsent = useUnsentChats() !== '';
  const route = useRoute();
  const [filter, setFilter] = useState(NO_FILTER);
  const { chats, query, more, problem, again } = useChats(api, key.admin, filter);
  const [isJumping, setJumping] = useState(false);
  const chat = route.at === 'chat' ? route.chat : null;
  const listed = chats?.find(listed => listed.chatKey === chat);

  useEffect(() => {
    const pages: Partial<Record<typeof route.at, string>> = { outbox: texts.outbox, live: texts.live, status: texts.statusPage, usage: texts.usagePage };
    const where = chat ? nameOf(chat, listed).title : pages[route.at];
    document.title = where ? `${where} · Annals` : 'Annals';
  }, [chat, listed, route.at]);

  const start = (parts: Part[], userId: string) => {
    const made = new Date().toISOString().slice(0, 19).replaceAll(/[-:]/g, '').replace('T', '-');
    const room = `web:room:${key.name.replaceAll('%', '%25').replaceAll(':', '%3A')}:console-${made}`;
    compose(room, parts, userId);
    go({ at: 'chat', chat: room, view: 'history' });
  };

  const shown = route.at === 'chat' ? (route.view === 'history' ? 'is-chat' : 'is-details') : route.at === 'home' ? 'is-home' : 'is-page';
  return (
    <div className={`console ${shown}`}>
      <a className="skip" href="#main" onClick={event => (event.preventDefault(), focusMain())}>
        {texts.skip}
      </a>
      <div className="side">
        <header className="bar">
          <p className="brand grow">
            <a href={href({ at: 'home' })}>Annals</a>
          </p>
          <Button look="icon" aria-label={texts.jump} onPress={() => setJumping(true)}>
            <Icon name="find" />
          </Button>
          <ThemeSwitch />
          {key.admin && (
            <a className="button icon" href={href({ at: 'live' })} aria-label={texts.live} aria-current={route.at === 'live' ? 'page' : undefined}>
              <Icon name="live" />
            </a>
          )}
          {key.admin && (
            <a className="button icon" href={href({ at: 'usage' })} aria-label={texts.usagePage} aria-current={route.at === 'usage' ? 'page' : undefined}>
              <Icon name="usage" />
            </a>
          )}
          {hasOutbox && (
            <a className="button icon" href={href({ at: 'outbox' })} aria-label={texts.outbox} aria-current={route.at === 'outbox' ? 'page' : undefined}>
              <Icon name="outbox" />
            </a>
          )}
          {key.admin && (
            <a className="button icon" href={href({ at: 'status' })} aria-label={texts.statusPage} aria-current={route.at === 'status' ? 'page' : undefined}>
              <Icon name="status" />
            </a>
          )}
          <a className="button icon" href={href({ at: 'home' })} aria-label={texts.newChat}>
            <Icon name="plus" />
          </a>
          {!isWellKnown && hasUnsent && (
            <Sure label={texts.signOut} icon="signout" title={texts.signOutUnsent} does={texts.signOut} onSure={signOut}>
              <p>{texts.signOutUnsentWhy}</p>
            </Sure>
          )}
          {!isWellKnown && !hasUnsent && (
            <Button look="icon" aria-label={texts.signOut} onPress={signOut}>
              <Icon name="signout" />
            </Button>
          )}
        </header>
        <ChatList chats={chats} query={query} more={more} problem={problem} current={chat} isAdmin={key.admin} filter={filter} onFilter={setFilter} />
      </div>
      <Shortcuts chats={chats} isJumping={isJumping} onJump={setJumping} />
      {route.at === 'home' && <Welcome isEmpty={chats?.length === 0 && key.admin && filter === NO_FILTER} onStart={start} />}
      {route.at === 'outbox' && <Outbox />}
      {route.at === 'live' && <Live key={route.chat} chat={route.chat ?? null} />}
      {route.at === 'status' && <Status />}
      {route.at === 'usage' && <Usage chats={chats} />}
      {route.at === 'chat' && (
        <Chat
          key={route.chat}
          route={route}
          fromList={listed}
          onChanged={() => void again()}
        />
      )}
    </div>
  );
}

function focusMain() {
  const main = document.querySelector<HTMLElement>('#main');
  (main?.querySelector<HTMLElement>('h1') ?? main)?.focus();
}

function ThemeSwitch() {
  const [now, setNow] = useState<Theme>(theme);
  const next = THEMES[(THEMES.indexOf(now) + 1) % THEMES.length] ?? 'system';
  const choose = () => {
    setTheme(next);
    setNow(next);
  };
  const icon = now === 'light' ? 'sun' : now === 'dark' ? 'moon' : 'system';
  return (
    <Button look="icon" aria-label={texts.theme(now, next)} onPress={choose}>
      <Icon name={icon} />
    </Button>
  );
}
