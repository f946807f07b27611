// A history from its newest message; scrolling up loads earlier pages.
import { Fragment, useEffect, useLayoutEffect, useRef } from 'react';
import type { Message } from './api';
import { Entry } from './message';
import { dayOf, textOf } from './names';
import { isTalk } from './seen';
import { texts } from './text';
import type { Outgoing } from './unsent';
import { Loading } from './widgets';

/** Distance in pixels from the end that counts as being at it. */
const NEAR = 80;

interface Props {
  /** The history, what is on its way, and what is being received. */
  messages: Message[];
  /** Those of `messages` that are on their way. */
  unlisted: readonly Outgoing[];
  isLoaded: boolean;
  hasEarlier: boolean;
  isLoadingEarlier: boolean;
  loadEarlier: () => Promise<void>;
  /** The message to scroll to; a new object scrolls again. */
  target: { id: string } | null;
  unseen: Map<string, string>;
  /** The first message that the model sees. */
  firstSeen: string | undefined;
  liveId: string | null;
  waits: 'answering' | 'waiting' | null;
  /** Answers a message again. */
  onAgain: ((questionId: string) => void) | undefined;
  onAnswer: (approvalId: string, approved: boolean) => void;
}

export function Timeline(props: Props) {
  const { messages, hasEarlier, isLoadingEarlier, loadEarlier, unseen } = props;
  const scroller = useRef<HTMLDivElement>(null);
  const top = useRef<HTMLDivElement>(null);
  const wasAtEnd = useRef(true);
  const before = useRef({ first: '', height: 0 });

  useLayoutEffect(() => {
    const box = scroller.current;
    if (!box) return;
    skipUnseen(box);
    const first = messages[0]?.id ?? '';
    const { first: firstBefore, height } = before.current;
    if (wasAtEnd.current) box.scrollTop = box.scrollHeight;
    // Keep the scroll position when earlier messages are added above.
    else if (firstBefore !== '' && first !== firstBefore) box.scrollTop += box.scrollHeight - height;
    before.current = { first, height: box.scrollHeight };
  });

  const { target } = props;
  useEffect(() => {
    const hit = target && scroller.current?.querySelector(`[data-id="${CSS.escape(target.id)}"]`);
    if (!hit) return;
    wasAtEnd.current = false;
    hit.scrollIntoView({ block: 'center' });
  }, [target]);

  useEffect(() => {
    if (!top.current || !hasEarlier) return;
    const watch = new IntersectionObserver(
      ([entry]) => {
        if (entry?.isIntersecting && !wasAtEnd.current) void loadEarlier().catch(() => {});
      },
      { root: scroller.current, rootMargin: '300px 0px 0px' },
    );
    watch.observe(top.current);
    return () => watch.disconnect();
  }, [hasEarlier, messages.length, loadEarlier]);

  const scrolled = () => {
    const box = scroller.current;
    if (box) wasAtEnd.current = box.scrollHeight - box.scrollTop - box.clientHeight < NEAR;
  };

  const lastReply = messages.findLast(message => message.role === 'assistant' && message.metadata?.kind !== 'notice');
  const lastAsked = messages.at(-1);
  const again = mayAskAgain(messages, props.liveId);
  const newest = new Map(messages.map(message => [message.metadata?.messageId, message]));
  // The last form of a reply that continued after an approval contains all of it.
  const goesOn = (message: Message) => {
    const later = newest.get(message.metadata?.messageId);
    return message.role === 'assistant' && later !== undefined && later !== message && textOf(later).startsWith(textOf(message));
  };
  const said = new Map<string | undefined, string>();
  let day = '';
  return (
    <div className="timeline" ref={scroller} onScroll={scrolled} tabIndex={0} role="region" aria-label={texts.history}>
      <div ref={top} />
      {!props.isLoaded && <Loading what={texts.loadingHistory} />}
      {isLoadingEarlier && <Loading what={texts.loadingEarlier} />}
      {hasEarlier && !isLoadingEarlier && (
        <button type="button" className="earlier" onClick={() => void loadEarlier().catch(() => {})}>
          {texts.earlier}
        </button>
      )}
      {props.isLoaded && messages.length === 0 && <p className="empty">{texts.nothingSaid}</p>}
      <ol>
        {messages.map((message, at) => {
          const ts = message.metadata?.ts ?? Date.now();
          const onItsWay = props.unlisted.find(one => one.id === message.id);
          const isNewDay = dayOf(ts) !== day;
          day = dayOf(ts);
          const isLive = message.id === props.liveId && at === messages.findLastIndex(({ id }) => id === message.id);
          const id = message.metadata?.messageId;
          const isSaidAgain = message.role === 'user' && said.get(id) === textOf(message);
          said.set(id, textOf(message));
          const mayAnswer = message === lastAsked || message === lastReply;
          // What an operator sent is shown as the bot's message.
          const isSent = message.metadata?.dispatch !== undefined && newest.has(`${id}/reply`);
          if (goesOn(message) || isSent) return null;
          return (
            <Fragment key={`${message.id}${isLive ? '/live' : ''}`}>
              {isNewDay && <li className="day">{day}</li>}
              {message.id === props.firstSeen && at > 0 && unseen.size > 0 && (
                <li className="seen-from">
                  <span>{texts.seenFromHere}</span>
                </li>
              )}
              <li data-id={message.id} className={message.id === target?.id ? 'is-hit' : undefined}>
                <Entry
                  message={message}
                  unseen={unseen.get(message.id)}
                  isLive={isLive}
                  isReplaced={id !== undefined && newest.get(id) !== message}
                  isSaidAgain={isSaidAgain}
                  onItsWay={onItsWay}
                  onAgain={message === again?.answer && props.onAgain ? () => props.onAgain?.(again.question.id) : undefined}
                  onAnswer={mayAnswer && !isLive ? props.onAnswer : undefined}
                />
              </li>
            </Fragment>
          );
        })}
      </ol>
      {props.waits && (
        <Loading what={props.waits === 'answering' ? texts.isAnswering : texts.waitsForAnswer} />
      )}
    </div>
  );
}

/** Lets the browser skip the layout of entries out of sight. Each keeps its height of now, so that nothing moves by that. */
function skipUnseen(box: HTMLElement) {
  const added = [...box.querySelectorAll<HTMLElement>(':scope > ol > li[data-id]:not([style])')];
  const heights = added.map(entry => entry.offsetHeight);
  for (const [at, entry] of added.entries()) entry.style.cssText = `content-visibility: auto; contain-intrinsic-block-size: auto ${heights[at]}px`;
}

/**
 * Returns the last answer, or the notice that there is none, and its question. None if something was said after it: another try would
 * replace that.
 */
function mayAskAgain(messages: Message[], liveId: string | null): { question: Message; answer: Message } | null {
  const question = messages.findLast(message => message.role === 'user' && isTalk(message.metadata?.kind));
  const answer = messages.findLast(message => message.role === 'assistant' && questionOf(message) === question?.metadata?.messageId);
  return question && answer && answer.id !== liveId ? { question, answer } : null;
}

/** Returns the id of the message that this one answers, or says that there is no answer to. */
const questionOf = ({ id, metadata }: Message): string => (metadata?.messageId ?? id).replace(/\/(reply|notice)$/, '');
