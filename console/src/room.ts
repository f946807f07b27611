// A web room through `useChat` of the AI SDK, combined with its history, which has precedence.
import { useChat } from '@ai-sdk/react';
import { DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses as isAnswered } from 'ai';
import { useEffect, useMemo, useRef, useState } from 'react';
import { type Message, Problem, ofChat } from './api';
import { useSession } from './session';

/** Number of last messages that `useChat` gets: it only refers to these and continues them, and sends only the last one. */
const KNOWN = 40;

type Asked = 'submit' | 'regenerate' | 'approval' | 'resume';

export interface Room {
  /** The history, and messages that are being sent or received. */
  messages: Message[];
  /** True while this window receives an answer. */
  isBusy: boolean;
  /** Id of the reply that is being received. */
  liveId: string | null;
  problem: Problem | null;
  send: (text: string, userId: string) => void;
  regenerate: (messageId: string, userId: string) => void;
  answer: (approvalId: string, approved: boolean, userId: string) => void;
  stop: () => Promise<void>;
}

/** `isAnswering`: true if a run is working on the chat, no matter who started it. */
export function useRoom(chat: string, listed: Message[], isAnswering: boolean, refresh: () => Promise<void>): Room {
  const { api, tell } = useSession();
  const userId = useRef('');
  const [asked, setAsked] = useState<Asked | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const transport = useMemo(
    () =>
      new DefaultChatTransport<Message>({
        headers: api.headers,
        fetch: refusing,
        prepareSendMessagesRequest: ({ id, messages, trigger, messageId, body }) => ({
          body: { ...body, id, message: messages.at(-1), trigger, messageId, ...(userId.current && { userId: userId.current }) },
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
    onError: error => setProblem(Problem.from(error instanceof Problem ? error : new Problem(0, 'The answer broke off', error.message))),
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

  const last = messages.at(-1);
  const live = asked !== null && last?.role === 'assistant' ? last : null;
  return {
    messages: asked === null ? listed : withLive(listed, asked, messages, live, lastSaid),
    isBusy: asked !== null,
    liveId: live?.id ?? null,
    problem,
    send(text, by) {
      userId.current = by;
      start('submit');
      void sendMessage({ text });
    },
    regenerate(messageId, by) {
      userId.current = by;
      start('regenerate');
      void regenerate({ messageId });
    },
    answer(approvalId, approved, by) {
      userId.current = by;
      // With several requests, answers are collected until the last one.
      if (asked !== 'approval') start('approval');
      void addToolApprovalResponse({ id: approvalId, approved });
    },
    async stop() {
      try {
        await api.send('POST', `/api/chat/${encodeURIComponent(chat)}/stop`, {});
        tell('Stopped');
        await refresh();
      } catch (error) {
        setProblem(Problem.from(error));
      }
    },
  };
}

/** Returns `listed` with the messages that this window is sending and receiving. */
function withLive(listed: Message[], asked: Asked, own: Message[], live: Message | null, lastSaid: number): Message[] {
  const ids = new Set(listed.map(message => message.id));
  const said = asked === 'submit' ? own.findLast(message => message.role === 'user') : undefined;
  const extra = said && !ids.has(said.id) ? [said] : [];
  if (live === null) return [...listed, ...extra];
  const at = listed.findLastIndex(message => message.id === live.id);
  // A reply that continues after an approval keeps its place; one that is made again has the id of the other.
  const goesOn = at >= 0 && (asked === 'approval' || (asked === 'resume' && at > lastSaid));
  if (goesOn) return listed.map((message, place) => (place === at ? { ...live, metadata: message.metadata! } : message));
  if (at >= 0 && asked === 'submit') return [...listed, ...extra];
  return [...listed, ...extra, live];
}

/** `fetch` that throws refusals as problems. */
const refusing: typeof fetch = async (input, init) => {
  const response = await fetch(input, init).catch(error => {
    throw init?.signal?.aborted ? error : Problem.from(error);
  });
  if (!response.ok) throw await Problem.of(response);
  return response;
};

/** Sends a message by the API's own route, in chats that are not rooms. */
export async function say(api: ReturnType<typeof useSession>['api'], chat: string, userId: string, text: string): Promise<void> {
  await api.send('POST', ofChat(chat, 'messages'), { userId, text, messageId: `console-${crypto.randomUUID()}` });
}
