// A web room through `useChat` of the AI SDK, combined with its history, which has precedence.
import { useChat } from '@ai-sdk/react';
import { DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses as isAnswered } from 'ai';
import { useEffect, useMemo, useRef, useState } from 'react';
import { type Api, type Message, Problem, ofChat } from './api';
import { useSession } from './session';
import { texts } from './text';
import type { Outgoing } from './unsent';

/** Number of last messages that `useChat` gets: it only refers to these and continues them, and sends only the last one. */
const KNOWN = 40;

type Asked = 'submit' | 'edit' | 'regenerate' | 'approval' | 'resume';

/** A message to send. */
type Said = Pick<Outgoing, 'id' | 'parts' | 'userId'>;

export interface Room {
  /** Returns `listed`, with the reply that is being received. */
  withLive: (listed: Message[]) => Message[];
  /** True while this window receives an answer. */
  isBusy: boolean;
  /** True while it receives one that it asked for itself. */
  hasAsked: boolean;
  /** Id of the reply that is being received. */
  liveId: string | null;
  problem: Problem | null;
  /** Sends a message. Resolves when it is stored, and rejects if it may not be. */
  send: (message: Said) => Promise<void>;
  /** Sends `message` in place of an earlier one of its id, which is answered again. Resolves and rejects as `send` does. */
  edit: (message: Said) => Promise<void>;
  regenerate: (messageId: string, userId: string) => void;
  answer: (approvalId: string, approved: boolean, userId: string) => void;
  stop: () => Promise<void>;
}

/** Adds the browser's time zone to a message of the user, so that the model is told times in it. */
function inTimeZone<T extends { role: string; metadata?: unknown }>(message: T | undefined) {
  if (message?.role !== 'user') return message;
  const { timeZone } = Intl.DateTimeFormat().resolvedOptions();
  return { ...message, metadata: { ...(message.metadata as object | undefined), timeZone } };
}

/** `isAnswering`: true if a run is working on the chat, no matter who started it. */
export function useRoom(chat: string, listed: Message[], isAnswering: boolean, refresh: () => Promise<void>): Room {
  const { api, tell } = useSession();
  const userId = useRef('');
  const [asked, setAsked] = useState<Asked | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  /** What waits for the message of an id to be stored. */
  const waiting = useRef(new Map<string, (problem: Problem | null) => void>());
  const transport = useMemo(
    () =>
      new DefaultChatTransport<Message>({
        headers: api.headers,
        fetch: (input, init) => refusing(input, init, waiting.current),
        prepareSendMessagesRequest: ({ id, messages, trigger, messageId, body }) => ({
          body: {
            ...body,
            id,
            message: trigger === 'submit-message' ? inTimeZone(messages.at(-1)) : messages.at(-1),
            trigger,
            messageId,
            ...(userId.current && { userId: userId.current }),
          },
        }),
        prepareReconnectToStreamRequest: ({ id }) => ({ api: `/api/chat/${encodeURIComponent(id)}/stream` }),
      }),
    [api],
  );
  const { messages, status, setMessages, sendMessage, regenerate, resumeStream, addToolApprovalResponse } = useChat<Message>({
    id: chat,
    transport,
    experimental_throttle: 40,
    sendAutomaticallyWhen: isAnswered,
    onError: error => {
      // It is shown with the message.
      if (error instanceof NotSent) return;
      setProblem(error instanceof Problem ? error : new Problem(0, texts.brokeOff, error.message));
    },
  });

  const talk = listed.filter(message => ['normal', 'revision'].includes(message.metadata?.kind ?? ''));
  const start = (what: Asked, until = talk) => {
    setProblem(null);
    setMessages(until.slice(-KNOWN));
    setAsked(what);
  };

  // The received messages are in the history now.
  const isOver = asked !== null && (status === 'ready' || status === 'error');
  const wasUnderWay = useRef(false);
  if (status === 'submitted' || status === 'streaming') wasUnderWay.current = true;
  useEffect(() => {
    if (!isOver || !wasUnderWay.current) return;
    wasUnderWay.current = false;
    let isGone = false;
    void refresh()
      .catch(() => {})
      .then(() => isGone || setAsked(null));
    return () => void (isGone = true);
  }, [isOver, status]);

  // The answer was requested by somebody else, or by this window before it was reloaded.
  const lastSaid = talk.findLastIndex(message => message.role === 'user');
  const canResume = isAnswering && asked === null && status === 'ready' && lastSaid >= 0;
  const resumed = useRef('');
  useEffect(() => {
    const said = talk[lastSaid]?.id ?? '';
    if (!canResume || resumed.current === said) return;
    resumed.current = said;
    start('resume', talk.slice(0, lastSaid + 1));
    void resumeStream().finally(() => setAsked(now => (now === 'resume' && !wasUnderWay.current ? null : now)));
  }, [canResume, lastSaid]);

  const send = async (what: 'submit' | 'edit', { id, parts, userId: by }: Said) => {
    const message = { id, role: 'user' as const, parts };
    // `useChat` follows one answer at a time. The answer to this message is resumed after that.
    if (asked !== null) return post(api, '/api/chat', { id: chat, message: inTimeZone(message), trigger: 'submit-message', userId: by });
    userId.current = by;
    start(what, what === 'edit' ? [message] : talk);
    const stored = new Promise<void>((resolve, reject) =>
      waiting.current.set(id, problem => (problem ? reject(problem) : resolve())),
    );
    void sendMessage(what === 'edit' ? { ...message, messageId: id } : message);
    return stored.finally(() => waiting.current.delete(id));
  };
  const last = messages.at(-1);
  const live = asked !== null && last?.role === 'assistant' ? last : null;
  return {
    withLive: shown => (asked === null || live === null ? shown : withLive(shown, asked, live, lastSaid)),
    isBusy: asked !== null,
    hasAsked: asked !== null && asked !== 'resume',
    liveId: live?.id ?? null,
    problem,
    send: said => send('submit', said),
    edit: said => send('edit', said),
    regenerate(messageId, by) {
      userId.current = by;
      start('regenerate');
      void regenerate({ messageId });
    },
    answer(approvalId, approved, by) {
      userId.current = by;
      // `useChat` answers requests of the last message alone, and people may have written since.
      const at = talk.findLastIndex(({ parts }) => parts.some(part => 'approval' in part && part.approval?.id === approvalId));
      // With several requests, answers are collected until the last one.
      if (asked !== 'approval') start('approval', talk.slice(0, at + 1));
      void addToolApprovalResponse({ id: approvalId, approved });
    },
    async stop() {
      try {
        await api.send('POST', `/api/chat/${encodeURIComponent(chat)}/stop`, {});
        tell(texts.stopped);
        await refresh();
      } catch (error) {
        setProblem(Problem.from(error));
      }
    },
  };
}

/** Returns `listed` with the reply that this window receives. */
function withLive(listed: Message[], asked: Asked, live: Message, lastSaid: number): Message[] {
  const at = listed.findLastIndex(message => message.id === live.id);
  // A reply that continues after an approval keeps its place; one that is made again has the id of the other.
  const goesOn = at >= 0 && (asked === 'approval' || (asked === 'resume' && at > lastSaid));
  if (goesOn) return listed.map((message, place) => (place === at ? { ...live, metadata: message.metadata! } : message));
  if (at >= 0 && asked === 'submit') return listed;
  // What was said meanwhile follows it.
  const question = live.id.replace(/\/(reply|notice)(@\d+)?$/, '');
  const after = listed.findLastIndex(({ role, metadata }) => role === 'user' && metadata?.messageId === question);
  return after < 0 ? [...listed, live] : listed.toSpliced(after + 1, 0, live);
}

/** A refusal of a message, which is shown with it. */
class NotSent extends Error {}

/** `fetch` that throws refusals as problems, and tells what `waiting` has for the message that is sent. */
async function refusing(input: RequestInfo | URL, init: RequestInit | undefined, waiting: Map<string, (problem: Problem | null) => void>): Promise<Response> {
  const sent: { trigger?: string; message?: Message } = typeof init?.body === 'string' ? JSON.parse(init.body) : {};
  const settle = sent.trigger === 'submit-message' && sent.message?.role === 'user' ? waiting.get(sent.message.id) : undefined;
  try {
    const response = await fetch(input, init);
    if (!response.ok) throw await Problem.of(response);
    settle?.(null);
    return response;
  } catch (error) {
    const problem = Problem.from(error);
    settle?.(problem);
    if (init?.signal?.aborted) throw error;
    throw settle ? new NotSent() : problem;
  }
}

/** Sends a message by the API's own route, in chats that are not rooms. */
export const say = (api: Api, chat: string, { id, userId, parts }: Said): Promise<void> =>
  post(api, ofChat(chat, 'messages'), { userId, parts, messageId: id });

/** Posts, and does not wait for the body of the answer. */
async function post(api: Api, path: string, body: unknown): Promise<void> {
  const response = await api.send('POST', path, body);
  await response.body?.cancel();
}
