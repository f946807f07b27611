// One chat: its history, the composer, and the details beside it.
import { useEffect, useMemo, useRef, useState } from 'react';
import { type Context, type ListedChat, type Message, Problem, ofChat } from './api';
import { type Actions, ActionsContext, useStable } from './actions';
import { Composer } from './composer';
import { Details } from './details';
import { Export } from './export';
import { useHistory } from './history';
import { isPlatform, isRoom, nameOf, platformOf, textOf } from './names';
import { PACE, usePoll } from './poll';
import { say, useRoom } from './room';
import { Rename } from './rename';
import { type Route, go, href } from './route';
import { Search } from './search';
import { useSession } from './session';
import { hasDialog, isComposing } from './shortcuts';
import { Timeline } from './timeline';
import { texts } from './text';
import { type Outgoing, abandon, asMessage, compose, discard, mark, useOutgoing } from './unsent';
import { Button, Copy, ChannelBadge, Icon, Rich, Sure, Trouble } from './widgets';
import { isTalk, unseenBy } from './seen';

interface Props {
  route: Route & { at: 'chat' };
  /** Its entry in the list, if it has one. */
  fromList: ListedChat | undefined;
  onChanged: () => void;
}

export function Chat({ route, fromList, onChanged }: Props) {
  const { chat } = route;
  const { api, key, tell } = useSession();
  const [own, setOwn] = useState<ListedChat | null>(null);
  const listed = own ?? fromList;
  const takeover = listed?.takeover ?? null;
  // While an operator has the chat, messages may wait for long.
  const isPending = listed?.pendingTurn != null && takeover === null;
  const history = useHistory(api, chat, isPending ? PACE.pending : PACE.chat);
  const [context, setContext] = useState<Context | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);

  // A chat without messages is none: the API would answer 404, which browsers log as an error.
  const isKnown = fromList !== undefined || history.messages.length > 0;
  const state = usePoll(
    async signal => {
      if (!isKnown) return;
      setOwn(await api.get<ListedChat>(ofChat(chat), signal).catch(error => {
        // It was forgotten.
        if (error instanceof Problem && error.status === 404) return null;
        throw error;
      }));
    },
    isPending ? PACE.pending : PACE.chat,
  );
  const wasKnown = useRef(isKnown);
  useEffect(() => {
    if (isKnown && !wasKnown.current) void state.again();
    wasKnown.current = isKnown;
  }, [isKnown]);
  const newest = history.messages.at(-1);
  const asked = useRef(0);
  const askContext = async () => {
    const number = ++asked.current;
    const seen = await api.get<Context>(ofChat(chat, 'context')).catch(() => null);
    if (seen && number === asked.current) setContext(seen);
  };
  // The context changes with new messages, and with the end of a session.
  useEffect(() => void askContext(), [chat, newest, history.messages.length, listed?.stale]);

  const refresh = async () => {
    await Promise.all([history.refresh(), state.again()]);
    onChanged();
  };
  const room = useRoom(chat, history.messages, isRoom(chat) && listed?.pendingTurn === 'answering', refresh);
  const inRoom = isRoom(chat);
  const unlisted = useUnlisted(chat, history.messages);
  const messages = useMemo(() => [...history.messages, ...unlisted.map(asMessage)], [history.messages, unlisted]);
  const act = async (what: () => Promise<unknown>, done?: string, then: () => unknown = refresh) => {
    setProblem(null);
    try {
      await what();
      if (done !== undefined) tell(done);
      await then();
    } catch (error) {
      setProblem(Problem.from(error));
    }
  };

  const isBusy = inRoom && room.isBusy;
  const deliver = async (one: Outgoing) => {
    mark(chat, one.id, 'sending');
    try {
      const { id: messageId, parts, userId: operator } = one;
      if (one.asBot) await api.send('POST', ofChat(chat, 'send'), { messageId, parts, operator });
      else await (inRoom ? room.send(one) : say(api, chat, one));
      mark(chat, one.id, 'stored');
    } catch (error) {
      return mark(chat, one.id, 'failed', Problem.from(error));
    }
    if (!inRoom || one.asBot) tell(texts.sent);
    await refresh().catch(() => {});
  };
  // One after the other, so that they are stored in this order.
  const isSending = unlisted.some(one => one.state === 'sending');
  const next = isSending ? undefined : unlisted.find(one => one.state === 'new');
  useEffect(() => void (next && deliver(next)), [next?.id]);
  useEffect(() => () => abandon(chat), [chat]);

  const platform = platformOf(chat);
  const lastSaid = history.messages.findLast(({ role, metadata }) => role === 'user' && isTalk(metadata?.kind))?.metadata;
  // The customers of a platform speak there; here it is the operator who does.
  const isCustomer = platform !== null || isPlatform(lastSaid?.channel ?? '');
  const speaker = isCustomer ? key.name : (lastSaid?.userId ?? unlisted.at(-1)?.userId ?? key.name);
  const answer = (id: string, approved: boolean) => {
    if (inRoom) room.answer(id, approved, speaker);
    else {
      const command = `${approved ? '/approve' : '/deny'} ${id.slice(0, 12)}`;
      void act(async () => {
        const response = await api.send('POST', `${ofChat(chat, 'messages')}?wait=5`, { userId: speaker, text: command });
        // The request succeeds also if the bot refuses the answer.
        const { reply }: { reply?: Message } = await response.json();
        tell(reply ? textOf(reply) : texts.sent);
      });
    }
  };
  const edit = useStable(async ({ parts, metadata }: Message, text: string) => {
    const { messageId: id = '', userId = '' } = metadata ?? {};
    const said = { id, userId, parts: [...parts.filter(part => part.type !== 'text'), { type: 'text' as const, text }] };
    await (inRoom ? room.edit(said) : say(api, chat, said));
    await refresh().catch(() => {});
  });
  const entryActions = useMemo<Actions>(
    () => ({
      sendAgain: id => mark(chat, id, 'new'),
      discard: id => discard(chat, new Set([id])),
      // Not what somebody else said, and what was said on a platform is edited there.
      chat,
      mayEdit: ({ metadata }) =>
        isTalk(metadata?.kind) && ['http', 'web'].includes(metadata?.channel ?? '') && (metadata?.userId === key.name || metadata?.messageId.startsWith('console-') === true),
      edit,
      editNote: inRoom ? texts.editNoteRoom : texts.editNote,
    }),
    [chat],
  );
  const stop = useStable(() => void room.stop());
  // The key closes many things, so it does not stop an answer to somebody who is only watched.
  const hasAsked = inRoom && room.hasAsked;
  useEffect(() => {
    if (!hasAsked) return;
    const pressed = (event: KeyboardEvent) => event.key === 'Escape' && !event.defaultPrevented && !isComposing(event) && !hasDialog() && stop();
    addEventListener('keydown', pressed);
    return () => removeEventListener('keydown', pressed);
  }, [hasAsked]);
  const name = nameOf(chat, listed);
  const unseen = useMemo(() => (context ? unseenBy(context, history.messages) : new Map<string, string>()), [context, history.messages]);
  const waits = isBusy || takeover !== null ? null : listed?.pendingTurn;
  const writesAsBot = takeover?.by === key.name;
  // A text is for the bot or for the person, and stays so when the chat is taken over or handed back. No ChatKey has a line feed.
  const draftName = writesAsBot ? `${chat}\nas the bot` : chat;
  const handBack = () => void act(() => api.send('DELETE', ofChat(chat, 'takeover')), texts.botAgain);
  const trouble = problem ?? room.problem ?? history.problem ?? state.problem;

  const actions = (
    <div className="actions">
      {key.admin && listed && takeover === null && (
        <Button onPress={() => void act(() => api.send('PUT', ofChat(chat, 'takeover'), { operator: key.name }), texts.yours)}>{texts.takeOver}</Button>
      )}
      <Export chat={chat} title={name.title} />
      <Sure
        label={texts.reset}
        title={texts.resetTitle}
        does={texts.resetDoes}
        look="plain"
        onSure={() => void act(() => api.send('POST', ofChat(chat, 'reset'), {}), texts.resetDone)}
      >
        <p>{texts.resetWhat}</p>
      </Sure>
      <Button onPress={() => void act(() => api.send('POST', ofChat(chat, 'compact'), {}), texts.compacting)}>{texts.compact}</Button>
      <Sure
        look="bad"
        label={texts.forget}
        title={texts.forgetTitle}
        does={texts.forgetDoes}
        onSure={() =>
          void act(() => api.send('DELETE', ofChat(chat)), texts.forgotten, () => {
            go({ at: 'home' });
            onChanged();
          })
        }
      >
        <p>
          <Rich text={texts.forgetWhat(name.title)} />
        </p>
      </Sure>
    </div>
  );

  const [isSearching, setSearching] = useState(false);
  const [target, setTarget] = useState<{ id: string } | null>(null);
  const jump = async (message: Message) => {
    const isThere = await history.reach(message);
    if (isThere) setTarget({ id: message.id });
    return isThere;
  };

  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => heading.current?.focus({ preventScroll: true }), [chat]);

  return (
    <main className="stage" id="main">
      <section className="chat" aria-label={texts.chatRegion}>
        <header className="bar">
          <a className="button icon narrow" href={href({ at: 'home' })} aria-label={texts.allChats}>
            <Icon name="back" />
          </a>
          <div className="grow">
            <h1 ref={heading} tabIndex={-1} title={name.title}>
              {name.title}
            </h1>
            <p className="small key">
              <ChannelBadge name={name} /> <code>{chat}</code> <Copy text={chat} label={texts.copyChatKey} />
              {key.admin && listed?.title !== undefined && (
                <Rename chat={chat} title={name.title} onRenamed={() => void refresh().catch(() => {})} />
              )}
            </p>
          </div>
          <div className="roomy">{actions}</div>
          <Button look="icon" aria-label={texts.searchChat} aria-expanded={isSearching} onPress={() => setSearching(now => !now)}>
            <Icon name="find" />
          </Button>
          <a className="button icon medium" href={href({ at: 'chat', chat, view: 'context' })} aria-label={texts.details}>
            <Icon name="details" />
          </a>
        </header>
        {listed?.blocked && (
          <p className="banner bad">
            <Rich text={texts.takesNothing(name.channelName, listed.blocked.reason)} />
          </p>
        )}
        {takeover && (
          <div className="banner row spread" role="status">
            <span>
              <Rich text={writesAsBot ? texts.heldByYou(takeover.by) : texts.heldBy(takeover.by)} />
            </span>
            {key.admin && <Button onPress={handBack}>{texts.handBack}</Button>}
          </div>
        )}
        {isSearching && <Search chat={chat} onJump={jump} onClose={() => setSearching(false)} />}
        <ActionsContext value={entryActions}>
          <Timeline
            key={chat}
            messages={inRoom ? room.withLive(messages) : messages}
            unlisted={unlisted}
            isLoaded={history.isLoaded}
            hasEarlier={history.hasEarlier}
            isLoadingEarlier={history.isLoadingEarlier}
            loadEarlier={history.loadEarlier}
            target={target}
            unseen={unseen}
            firstSeen={context?.messages.length ? history.messages.find(({ id, metadata }) => isTalk(metadata?.kind) && !unseen.has(id))?.id : undefined}
            liveId={room.liveId}
            waits={isBusy && room.liveId === null ? 'answering' : (waits ?? null)}
            onAgain={inRoom && !isBusy ? id => room.regenerate(id, speaker) : undefined}
            onAnswer={answer}
          />
        </ActionsContext>
        {trouble && <Trouble problem={trouble} />}
        <Composer
          key={draftName}
          draftName={draftName}
          speaker={writesAsBot ? key.name : speaker}
          isBot={writesAsBot}
          label={writesAsBot ? texts.messageAsBot(name.title) : texts.messageTo(name.title)}
          note={writesAsBot ? texts.sentAsBot(platform) : platform ? texts.notToPlatform(platform) : undefined}
          onSend={(parts, userId) => compose(chat, parts, userId, writesAsBot)}
          onStop={isBusy ? stop : undefined}
        />
      </section>
      <Details route={route} context={context} listed={listed} actions={actions} messages={history.messages} />
    </main>
  );
}


/** Returns the messages on their way to `chat` that `listed` lacks, and drops the others. */
function useUnlisted(chat: string, listed: Message[]): readonly Outgoing[] {
  const all = useOutgoing(chat);
  // A command is listed under an id that is derived from its own.
  const arrived = useMemo(() => {
    const ids = new Set(listed.map(({ metadata }) => metadata?.messageId.split('/')[0] ?? ''));
    return new Set(all.filter(one => ids.has(one.id)).map(one => one.id));
  }, [all, listed]);
  useEffect(() => discard(chat, arrived), [chat, arrived]);
  return useMemo(() => all.filter(one => !arrived.has(one.id)), [all, arrived]);
}
