// The current context of the model, and the reasons for it.
import { getToolName, isToolUIPart } from 'ai';
import { Label, Meter } from 'react-aria-components';
import type { Context, ListedChat, Message } from './api';
import { Markdown } from './markdown';
import { Fold } from './message';
import { shortId, textOf, when } from './names';
import { whyStarted } from './seen';
import { texts } from './text';
import { count } from './units';
import { Rich } from './widgets';

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
    if (role !== 'user') return texts.roles[role] ?? role;
    const { senderName: name, userId = texts.roles.user ?? '' } = metadata ?? {};
    return name === undefined ? userId : (idsOf.get(name)?.size ?? 0) > 1 ? `${name} (${userId})` : name;
  };
  const within = (ms: number) => texts.within(when(ms));
  const reasons = [
    sessionStart === null
      ? texts.noSession(messages.length === 0)
      : texts.session(within(sessionStart), whyStarted(context, messages), listed?.staleAt == null ? null : within(listed.staleAt)),
    ...(range ? [texts.summaryStands(range.count, shortId(range.fromId), shortId(range.toId))] : []),
    texts.leftOut(leftOut),
    ...(unanswered > 0 ? [texts.unanswered(unanswered)] : []),
  ];
  return (
    <>
      <TokenBar context={context} />
      <h2>{texts.whyThis}</h2>
      <ul className="reasons">
        {reasons.map(reason => (
          <li key={reason}>
            <Rich text={reason} />
          </li>
        ))}
      </ul>
      <h2>{texts.whatItIs}</h2>
      {system && (
        <Fold title={texts.system} note={texts.tokens(count(context.systemTokens))}>
          <pre className="system">{system}</pre>
        </Fold>
      )}
      {summary && (
        <Fold title={texts.summaryTitle} note={texts.tokens(count(context.summaryTokens))}>
          <Markdown text={textOf(summary)} />
        </Fold>
      )}
      {said.length === 0 && !summary && <p className="empty">{texts.emptyContext}</p>}
      <ol className="turns">
        {said.map((message, at) => (
          <li key={message.id} className={message.role}>
            <b>{whoSaid(message)}</b>{' '}
            {at >= said.length - unanswered && <span className="note">{texts.waits}</span>}
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
  const text = texts.tokensOf(count(tokens), count(window));
  return (
    <Meter className="tokens" value={tokens} maxValue={window} valueLabel={`${text}, ${percent} %`}>
      <div className="row spread">
        <Label>{texts.context}</Label>
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
        <span className="system">{texts.legend.system(count(systemTokens))}</span>
        <span className="summed">{texts.legend.summary(count(summaryTokens))}</span>
        <span className="said">{texts.legend.messages(count(Math.max(0, tokens - systemTokens - summaryTokens)))}</span>
        <span className="mark">{texts.legend.compactsAt(count(compactsAt))}</span>
      </p>
    </Meter>
  );
}
