import type { UIMessage } from 'ai';

/** Metadata of a listed message. Platforms add keys of their own. */
export interface Metadata {
  /** When it was said, in epoch milliseconds. */
  ts: number;
  /** When it was stored, in epoch milliseconds; on replies. */
  sentAt?: number;
  chatKey: string;
  channel: string;
  chatId: string;
  /** Who said it. */
  userId: string;
  actorKey: string;
  /** Its own id, without the number of a revision. */
  messageId: string;
  kind: 'normal' | 'event' | 'revision' | 'summary' | 'boundary' | 'notice';
  /** On a summary: the messages that it counts. */
  sourceRange?: { fromId: string; toId: string; count: number };
  /** On a reply whose delivery ended without success. */
  deliveryFailure?: { reason: string; at: number };
  /** On a reply that was stopped. */
  stopped?: boolean;
  /** On a reply: the model that made it, and its tokens. */
  model?: string;
  usage?: { inputTokens: number; outputTokens: number; cachedInputTokens?: number; estimatedInputTokens?: number };
  [key: string]: unknown;
}

/** A message as Annals lists it: a `UIMessage` of the AI SDK, so that `useChat` takes it as it is. */
export type Message = UIMessage<Metadata>;

/** A part of a message: text, file, reasoning, tool, … */
export type MessagePart = Message['parts'][number];
