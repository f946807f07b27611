// The current context of the model, and the reasons for it.
import { getToolName, isToolUIPart } from 'ai';
import { Label, Meter } from 'react-aria-components';
import type { Context, ListedChat, Message } from './api';
import { Markdown } from './markdown';
import { Fold } from './message';
import { count, plural, shortId, textOf, when } from './names';
import { whyStarted } from './seen';

interface Props {
  context: Context;
  listed: ListedChat | undefined;
  messages: Message[];
}

export function ContextPanel({ context, listed, messages }: Props) {
  const { system, sessionStart, leftOut, unanswered } = context;
  const summary = context.messages.find(message => message.metadata?.kind === 'summary');
  const range = summary?.metadata?.sourceRange;
  const said = context.messages.filter(message => message !== summary);
  // Several people may have one name; if two of them are in view, their ids distinguish them, as for the model.
  const idsOf = new Map<string, Set<unknown>>();
  for (const { role, metadata } of said) {
    if (role === 'user') idsOf.set(metadata?.senderName ?? '', (idsOf.get(metadata?.senderName ?? '') ?? new Set()).add(metadata?.userId));
  }
  const whoSaid = ({ role, metadata }: Message) => {
    if (role !== 'user') return role;
    const { senderName: name, userId = 'user' } = metadata ?? {};
    return name === undefined ? userId : (idsOf.get(name)?.size ?? 0) > 1 ? `${name} (${userId})` : name;
  };
  const within = (ms: number) => when(ms).replace(/^(Today|Yesterday)/, day => day.toLowerCase());
  const why = whyStarted(context, messages);
  return (
    <>
      <TokenBar context={context} />
      <h2>Why this</h2>
      <ul className="reasons">
        {sessionStart === null ? (
          <li>
            <b>No session.</b> {messages.length > 0 ? 'The last one is over: the next message begins a new one.' : 'Nothing was said yet.'}
          </li>
        ) : (
          <li>
            <b>The session</b> began {within(sessionStart)}
            {why && `, ${why}`}
            {listed?.staleAt != null && `. It ends ${within(listed.staleAt)} if nobody speaks`}.
          </li>
        )}
        {range && (
          <li>
            <b>A summary</b> stands for {plural(range.count, 'message')}, from #{shortId(range.fromId)} to #{shortId(range.toId)}.
          </li>
        )}
        <li>
          <b>{leftOut === 0 ? 'Nothing' : plural(leftOut, 'message')}</b> {leftOut === 1 ? 'is' : leftOut === 0 ? 'is' : 'are'} left out for want of room.
        </li>
        {unanswered > 0 && (
          <li>
            <b>{plural(unanswered, 'message')}</b> {unanswered === 1 ? 'waits' : 'wait'} for an answer.
          </li>
        )}
      </ul>
      <h2>What it is</h2>
      {system && (
        <Fold title="System" note={`${count(context.systemTokens)} tokens`}>
          <pre className="system">{system}</pre>
        </Fold>
      )}
      {summary && (
        <Fold title="Summary" note={`${count(context.summaryTokens)} tokens`}>
          <Markdown text={textOf(summary)} />
        </Fold>
      )}
      {said.length === 0 && !summary && <p className="empty">No message is in the context.</p>}
      <ol className="turns">
        {said.map((message, at) => (
          <li key={message.id} className={message.role}>
            <b>{whoSaid(message)}</b>{' '}
            {at >= said.length - unanswered && <span className="note">waits</span>}
            <p className="clamp">{excerpt(message)}</p>
          </li>
        ))}
      </ol>
    </>
  );
}

function excerpt(message: Message): string {
  const text = textOf(message).replace(/\s+/g, ' ').trim();
  const others = message.parts.filter(part => part.type !== 'text' && part.type !== 'step-start').map(part => `[${nameOfPart(part)}]`);
  return [...(text ? [text] : []), ...others].join(' ');
}

/** Returns the name of a call's tool or of a file; otherwise the part's type. */
function nameOfPart(part: Message['parts'][number]): string {
  if (isToolUIPart(part)) return getToolName(part);
  return (part.type === 'file' ? part.filename : undefined) ?? part.type;
}

function TokenBar({ context }: { context: Context }) {
  const { tokens, window, systemTokens, summaryTokens, compactsAt } = context;
  const share = (of: number) => `${Math.min(100, (100 * of) / window)}%`;
  const percent = Math.round((1000 * tokens) / window) / 10;
  const text = `${count(tokens)} of ${count(window)} tokens`;
  return (
    <Meter className="tokens" value={tokens} maxValue={window} valueLabel={`${text}, ${percent} %`}>
      <div className="row spread">
        <Label>Context</Label>
        <span>
          {text} <b>{percent} %</b>
        </span>
      </div>
      <div className="track">
        <i className="system" style={{ width: share(systemTokens) }} />
        <i className="summed" style={{ width: share(summaryTokens) }} />
        <i className="said" style={{ width: share(tokens - systemTokens - summaryTokens) }} />
        <i className="mark" style={{ insetInlineStart: share(compactsAt) }} />
      </div>
      <p className="legend small">
        <span className="system">system {count(systemTokens)}</span>
        <span className="summed">summary {count(summaryTokens)}</span>
        <span className="said">messages {count(Math.max(0, tokens - systemTokens - summaryTokens))}</span>
        <span className="mark">summed up over {count(compactsAt)}</span>
      </p>
    </Meter>
  );
}
