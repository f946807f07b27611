// The part of a history that the model sees now, and the reasons for the rest.
import type { Context, Kind, Message } from './api';
import { texts } from './text';

export const isTalk = (kind: Kind | undefined): boolean => kind === 'normal' || kind === 'revision';

/** Returns the reason for each message that the model does not see; none for messages that nobody would expect it to see. */
export function unseenBy(context: Context, messages: Message[]): Map<string, string> {
  const seen = new Set(context.messages.map(message => message.metadata?.messageId));
  // Of a message with several forms, the model sees the newest.
  const newest = new Map(messages.map(message => [message.metadata?.messageId, message.id]));
  const summary = context.messages.find(message => message.metadata?.kind === 'summary');
  const summedUpTo = summary?.metadata?.ts;
  const start = context.sessionStart;
  const why = new Map<string, string>();
  for (const { id, metadata } of messages) {
    if (!metadata || !isTalk(metadata.kind)) continue;
    const { ts, messageId } = metadata;
    if (newest.get(messageId) !== id) why.set(id, texts.replacedLater);
    else if (seen.has(messageId)) continue;
    else if (start === null || ts < start) why.set(id, texts.beforeSession);
    else if (summedUpTo !== undefined && ts <= summedUpTo) why.set(id, texts.inSummary);
    else if (context.leftOut > 0) why.set(id, texts.noBudget);
    else why.set(id, texts.replaced);
  }
  return why;
}

/** Returns the reason for the start of the session, as far as the loaded history tells. */
export function whyStarted(context: Context, messages: Message[]): 'reset' | 'pause' | null {
  const { sessionStart } = context;
  if (sessionStart === null) return null;
  const before = messages.filter(message => (message.metadata?.ts ?? 0) < sessionStart);
  const boundary = messages.findLast(message => message.metadata?.kind === 'boundary');
  if (boundary?.metadata && boundary.metadata.ts <= sessionStart) {
    const spoke = messages.some(
      ({ role, metadata }) =>
        role === 'user' && metadata?.kind === 'normal' && metadata.ts > boundary.metadata!.ts && metadata.ts < sessionStart,
    );
    if (!spoke) return 'reset';
  }
  if (before.some(message => message.role === 'user')) return 'pause';
  return null;
}
