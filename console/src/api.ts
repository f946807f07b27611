// Client of the HTTP API, as the console uses it. ../../functions/http/openapi.json describes the API.
import type { UIMessage } from 'ai';
import { texts } from './text';

export type Kind = 'normal' | 'event' | 'revision' | 'summary' | 'boundary' | 'notice';

/** `metadata` of a listed message: fields that all messages have, and optional ones. Times are epoch milliseconds. */
export interface Metadata {
  ts: number;
  chatKey: string;
  channel: string;
  chatId: string;
  userId: string;
  actorKey?: string | null;
  messageId: string;
  kind: Kind;
  sentAt?: number;
  senderName?: string;
  sourceRange?: { fromId: string; toId: string; count: number };
  /** On texts of the program itself: which one it is. */
  notice?: 'noAnswer' | 'notCompacted' | 'stopped' | 'stoppedUnanswered' | 'limitReached';
  /** On the notice of a failure, for admin keys: its reason. */
  cause?: string;
  /** On a reply that was stopped: it holds what had been said until then. */
  stopped?: boolean;
  deliveryFailure?: { reason: string; at: number };
  context?: { leftOut: number; shortened: string[] };
  recalled?: unknown;
  model?: string;
  usage?: { inputTokens?: number; outputTokens?: number };
  replyTo?: { senderName?: string; text?: string };
  /** On a message of the bot that an operator wrote: the operator. */
  sentBy?: string;
  /** On an operator's message that the chat's next turn sends. */
  dispatch?: { by: string };
  /** On the notice that an operator has taken the chat over, or has handed it back. */
  takeover?: 'begun' | 'ended';
}
export type Message = UIMessage<Metadata>;
export type Part = Message['parts'][number];

/** A step of a turn. Times are in milliseconds, `at` after the turn's start. */
export interface Span {
  step: string;
  at: number;
  ms: number;
  name?: string;
  firstTokenMs?: number;
  inputTokens?: number;
  outputTokens?: number;
  error?: string;
}
interface PromptText { text: string | null; exact: boolean }
export interface Turn {
  id: string;
  start: number;
  requests: number;
  spans: Span[];
  dropped: number;
  /** The first prompt, made again from what is there now; `exact` if it is what was sent. The rest is null in old turns. */
  prompt: { messages: Message[]; exact: boolean; system: PromptText | null; memory: PromptText | null; tools: { names: string[]; more: number } | null } | null;
}

export interface Key { name: string; admin: boolean }
export interface ListedChat {
  chatKey: string;
  channel: string | null;
  lastMessage: { id: string; role: string; kind: Kind; userId: string; ts: number; text: string } | null;
  speaker: string | null;
  /** That of the group or topic, the person's name, the first words, or one that an admin gave. */
  title?: string | null;
  chatType: string | null;
  lastInteractionAt: number;
  staleAt: number | null;
  stale: boolean;
  pendingTurn: 'answering' | 'waiting' | null;
  deliveryFailure: { messageId: string; reason: string; at: number } | null;
  blocked: { reason: string; at: number } | null;
  takeover: { by: string; at: number } | null;
  tokens?: number;
  window?: number;
}
export interface Page { messages: Message[]; before: string | null; after: string | null }
export interface Context {
  messages: Message[];
  system: string | null;
  tokens: number;
  window: number;
  systemTokens: number;
  summaryTokens: number;
  compactsAt: number;
  unanswered: number;
  leftOut: number;
  sessionStart: number | null;
  memoryOf: { userId: string } | { chatKey: string } | null;
}
export interface Segment { id: string; fromId: string; toId: string; count: number; bytes: number; createdAt: number }
export interface Memory {
  id: string;
  number: number;
  type: string;
  state: 'valid' | 'past' | 'pending';
  scope: string;
  userId?: string;
  chatKey?: string;
  text: string;
  validTo?: number;
  supersededBy?: number;
  earlierForms?: { type: string; text: string; until: number }[];
  outside?: string[];
  earlier?: { text: string; markdown: string; undoUntil: number };
  source?: { chatKey: string; fromId: string; toId: string };
  createdAt: number;
  updatedAt?: number;
}
/** A message that was searched for, and what was said around it. */
export interface Hit { message: Message; score: number; context: Message[] }
export interface Stranger { person: string; name: string | null; chatKey: string; at: number }
export interface OutboxEntry { channel: string; chatId: string; text: string; ts: number }

/** An error for a person: the API's problem+json, or a missing answer. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly title: string,
    readonly detail: string,
    readonly requestId?: string,
    readonly retryAfterSecs?: number,
  ) {
    super(title);
  }

  static async of(response: Response): Promise<Problem> {
    const retryAfter = Number(response.headers.get('retry-after')) || undefined;
    const body = await response.json().catch(() => ({}));
    const title = body.title ?? texts.status(response.status);
    return new Problem(response.status, title, body.detail ?? texts.tryLater, body.requestId, retryAfter);
  }

  static from(error: unknown): Problem {
    if (error instanceof Problem) return error;
    return new Problem(0, texts.noAnswer, texts.isItRunning(location.host));
  }
}

export class Api {
  constructor(readonly secret: string, private readonly onRefused: () => void = () => {}) {}

  get headers(): Record<string, string> {
    return { Authorization: `Bearer ${this.secret}` };
  }

  async send(method: string, path: string, body?: unknown, signal?: AbortSignal, accept?: string): Promise<Response> {
    const json = { ...(body !== undefined && { 'Content-Type': 'application/json' }), ...(accept && { Accept: accept }) };
    const response = await fetch(path, {
      method,
      headers: { ...this.headers, ...json },
      body: body === undefined ? null : JSON.stringify(body),
      signal: signal ?? null,
    }).catch(error => {
      throw signal?.aborted ? error : Problem.from(error);
    });
    if (response.ok) return response;
    if (response.status === 401) this.onRefused();
    throw await Problem.of(response);
  }

  async get<T>(path: string, signal?: AbortSignal): Promise<T> {
    return (await this.send('GET', path, undefined, signal)).json();
  }

  /** Fetches JSON lines, as they are. Fails if the answer breaks off: a stack ends it then with a problem as its last line. */
  async rawLines(path: string): Promise<Blob> {
    const lines = await (await this.send('GET', path, undefined, undefined, 'application/x-ndjson')).blob();
    const last = (await lines.slice(-1000).text()).trimEnd().split('\n').at(-1);
    if (last?.startsWith('{"type":"urn:annals:problem:')) throw new Problem(500, texts.brokeOff, texts.tryLater);
    return lines;
  }

  /** Fetches JSON lines. Fails as `rawLines` does. */
  async lines<T>(path: string): Promise<T[]> {
    const text = await (await this.rawLines(path)).text();
    return text.split('\n').filter(Boolean).map(line => JSON.parse(line));
  }
}

/** Returns the path of `what` of a chat. */
export const ofChat = (chat: string, what = ''): string =>
  `/v1/chats/${encodeURIComponent(chat)}${what && `/${what}`}`;
