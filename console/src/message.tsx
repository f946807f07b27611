// One entry of a history.
import { isToolUIPart, getToolName } from 'ai';
import { type KeyboardEvent, memo, useContext, useState } from 'react';
import { Button as AriaButton, Disclosure, DisclosurePanel, Heading, TextArea, TextField } from 'react-aria-components';
import { type Actions, ActionsContext } from './actions';
import { type Message, Problem } from './api';
import { Markdown } from './markdown';
import { moment, short, shortId, textOf, time, when } from './names';
import { isComposing } from './shortcuts';
import { texts } from './text';
import type { Outgoing } from './unsent';
import { TurnSteps } from './turn';
import { escaped } from './visible';
import { Button, Copy, Icon, Trouble } from './widgets';

type Part = Message['parts'][number];
type Answer = (approvalId: string, approved: boolean) => void;

interface Props {
  message: Message;
  /** Reason why the model does not see it; undefined if it does, or if that is not known. */
  unseen?: string | undefined;
  isLive?: boolean;
  /** True if a newer form of it follows. */
  isReplaced?: boolean;
  /** True if its text equals that of the form before. */
  isSaidAgain?: boolean;
  /** Set if the message is on its way. */
  onItsWay?: Outgoing | undefined;
  onAgain?: (() => void) | undefined;
  /** Answers the reply's approval requests, if this user may. */
  onAnswer?: Answer | undefined;
}

export const Entry = memo(({ message, ...rest }: Props) => {
  const meta = message.metadata;
  switch (meta?.kind) {
    case 'boundary':
      return (
        <div className="boundary">
          <span>
            {texts.newSession(textOf(message).split(/\s/)[0] || '/new')} · <Time ms={meta.ts} />
          </span>
        </div>
      );
    case 'notice':
    case 'event':
      if (meta.takeover) {
        return (
          <div className="boundary">
            <span>
              {(meta.takeover === 'begun' ? texts.tookOver : texts.handedBack)(meta.userId)} · <Time ms={meta.ts} />
            </span>
          </div>
        );
      }
      if (meta.dispatch) return <Bubble message={{ ...message, role: 'assistant', metadata: { ...meta, sentBy: meta.dispatch.by } }} isWaiting />;
      return (
        <div className={`notice ${message.role}`}>
          <p>
            {message.role === 'user' && <b>{meta.senderName ?? meta.userId}: </b>}
            {textOf(message)} <Time ms={meta.sentAt ?? meta.ts} />
          </p>
          {meta.cause && (
            <p className="cause">
              <b>{texts.cause}</b> {meta.cause}
            </p>
          )}
          {rest.onAgain && <Button onPress={rest.onAgain}>{texts.tryAgain}</Button>}
        </div>
      );
    case 'summary':
      return <Summary message={message} />;
    default:
      if (!rest.isReplaced) return <Bubble message={message} {...rest} />;
      return (
        <div className={`replaced ${message.role}`}>
          <Fold title={message.role === 'user' ? texts.earlierForm : texts.earlierAnswer} {...(meta && { note: time(meta.sentAt ?? meta.ts) })}>
            <Bubble message={message} {...rest} />
          </Fold>
        </div>
      );
  }
});

function Summary({ message }: { message: Message }) {
  const range = message.metadata?.sourceRange;
  return (
    <div className="summary">
      <Fold title={texts.summaryOf(range?.count ?? 0, shortId(range?.fromId ?? ''), shortId(range?.toId ?? ''))}>
        <Markdown text={textOf(message)} />
      </Fold>
    </div>
  );
}

function Bubble({ message, unseen, isLive, isSaidAgain, onAgain, onAnswer, onItsWay, isReplaced, isWaiting }: Props & { isWaiting?: boolean }) {
  const actions = useContext(ActionsContext);
  const [isEditing, setEditing] = useState(false);
  const [showsSteps, setShowsSteps] = useState(false);
  const meta = message.metadata;
  const mayEdit = message.role === 'user' && !onItsWay && !isReplaced && actions?.mayEdit(message) === true;
  const isUser = message.role === 'user';
  const who = isUser ? (meta?.senderName ?? meta?.userId) : (meta?.sentBy ?? meta?.userId);
  const failure = meta?.deliveryFailure;
  const form = /@(\d+)$/.exec(message.id)?.[1];
  const usage = meta?.usage;
  const said = textOf(message);
  return (
    <article className={`bubble ${message.role}${unseen ? ' unseen' : ''}`} aria-label={isUser ? texts.from(who ?? texts.you) : texts.by(who ?? texts.theBot)} aria-busy={isLive}>
      {meta?.replyTo && (
        <p className="quoted">
          ↪ {meta.replyTo.senderName} {meta.replyTo.text}
        </p>
      )}
      {isEditing && actions && <Editor message={message} actions={actions} onDone={() => setEditing(false)} />}
      <div className="said" hidden={isEditing}>
        {message.parts.map((part, at) => (
          <PartView key={at} part={part} isUser={isUser} onAnswer={onAnswer} />
        ))}
        {isLive && <span className="caret" aria-hidden="true" />}
      </div>
      <p className="meta">
        {who && <b>{who}</b>}
        {meta?.sentBy !== undefined && <span className="tag">{texts.operator}</span>}
        {isWaiting || (onItsWay && onItsWay.state !== 'failed') ? <span>{texts.sending}</span> : meta && <Time ms={meta.sentAt ?? meta.ts} />}
        {form && <span>{isSaidAgain ? texts.askedAgain : isUser ? texts.edited(form) : texts.form(form)}</span>}
        {meta?.model && <span>{meta.model}</span>}
        {usage && (
          <span title={texts.usageWhy}>
            {texts.usage(short(usage.inputTokens ?? 0), short(usage.outputTokens ?? 0))}
          </span>
        )}
        {meta?.stopped && <span className="warn">{texts.wasStopped}</span>}
        {meta?.context && <span className="warn">{texts.leftOutFor(meta.context.leftOut)}</span>}
        {unseen && <span className="why">{unseen}</span>}
        {!isLive && said !== '' && <Copy text={said} label={texts.copyMessage} />}
        {!isLive && !isUser && actions && (
          <Button look="icon" aria-label={texts.turn} aria-expanded={showsSteps} onPress={() => setShowsSteps(!showsSteps)}>
            <Icon name="steps" />
          </Button>
        )}
        {mayEdit && !isEditing && (
          <Button look="icon" aria-label={texts.edit} onPress={() => setEditing(true)}>
            <Icon name="edit" />
          </Button>
        )}
        {onAgain && (
          <Button look="icon" aria-label={texts.tryAgain} onPress={onAgain}>
            <Icon name="again" />
          </Button>
        )}
      </p>
      {showsSteps && actions && <TurnSteps chat={actions.chat} message={message} />}
      {onItsWay?.state === 'failed' && (
        <div className="failure" role="alert">
          <p>
            <b>{texts.notSent}</b> {onItsWay.problem ? `${onItsWay.problem.title}. ${onItsWay.problem.detail}` : texts.notConfirmed}
          </p>
          <div className="row">
            <Button onPress={() => actions?.sendAgain(onItsWay.id)}>{texts.tryAgain}</Button>
            <Button onPress={() => actions?.discard(onItsWay.id)}>{texts.discard}</Button>
          </div>
        </div>
      )}
      {failure && (
        <p className="failure">
          <b>{texts.notDelivered}</b> {failure.reason} · {when(failure.at)}
        </p>
      )}
    </article>
  );
}

function Editor({ message, actions, onDone }: { message: Message; actions: Actions; onDone: () => void }) {
  const [text, setText] = useState(() => textOf(message));
  const [isSaving, setSaving] = useState(false);
  const [problem, setProblem] = useState<Problem | null>(null);
  const save = async () => {
    if (text.trim() === '' || isSaving) return;
    setSaving(true);
    setProblem(null);
    try {
      await actions.edit(message, text);
      onDone();
    } catch (error) {
      setProblem(Problem.from(error));
      setSaving(false);
    }
  };
  const pressed = (event: KeyboardEvent) => {
    if (isComposing(event.nativeEvent) || (event.key !== 'Escape' && (event.key !== 'Enter' || event.shiftKey))) return;
    event.preventDefault();
    if (event.key === 'Enter') void save();
    else onDone();
  };
  return (
    <div className="editor">
      <TextField value={text} onChange={setText} aria-label={texts.editedText} autoFocus>
        <TextArea rows={2} onKeyDown={pressed} />
      </TextField>
      <p className="small">{actions.editNote}</p>
      {problem && <Trouble problem={problem} />}
      <div className="row end">
        <Button onPress={onDone}>{texts.cancel}</Button>
        <Button look="main" onPress={() => void save()} isDisabled={text.trim() === '' || isSaving}>
          {texts.save}
        </Button>
      </div>
    </div>
  );
}

function PartView({ part, isUser, onAnswer }: { part: Part; isUser: boolean; onAnswer?: Answer | undefined }) {
  if (part.type === 'text') return isUser ? <p className="plain">{part.text}</p> : <Markdown text={part.text} />;
  if (part.type === 'reasoning') {
    return (
      <Fold title={texts.thought}>
        <Markdown text={part.text} />
      </Fold>
    );
  }
  if (part.type === 'file') return <FileView url={part.url} mediaType={part.mediaType} name={part.filename} />;
  if (isToolUIPart(part)) return <Tool part={part} onAnswer={onAnswer} />;
  if (part.type === 'source-url') return <FileView url={part.url} mediaType={texts.source} name={part.title} />;
  return null;
}

function FileView({ url, mediaType, name }: { url: string; mediaType: string; name?: string | undefined }) {
  const label = name ?? mediaType;
  if (/^data:image\/(png|jpeg|gif|webp);/.test(url)) return <img className="picture" src={url} alt={label} />;
  const icon = mediaType.startsWith('image/') ? '🖼' : mediaType.startsWith('audio/') ? '🎧' : '📄';
  return (
    <p className="file">
      <span aria-hidden="true">{icon} </span>
      {/^https?:/.test(url) ? (
        <a href={url} target="_blank" rel="noopener noreferrer">
          {label}
        </a>
      ) : (
        label
      )}{' '}
      {name && <span className="small">{mediaType}</span>}
    </p>
  );
}

function Tool({ part, onAnswer }: { part: Extract<Part, { toolCallId: string }>; onAnswer?: Answer | undefined }) {
  const approval = 'approval' in part ? part.approval : undefined;
  const asks = part.state === 'approval-requested';
  return (
    <div className={`tool ${part.state}`}>
      <Fold title={getToolName(part)} note={texts.callStates[part.state] ?? part.state} isOpen={asks}>
        <Json label={texts.input} value={part.input} />
        {part.state === 'output-available' && <Json label={texts.output} value={part.output} />}
        {part.state === 'output-error' && <Json label={texts.error} value={part.errorText} />}
        {approval?.reason && <p className="small">{texts.reason(approval.reason)}</p>}
      </Fold>
      {asks && approval && onAnswer && (
        <div className="row">
          <Button look="main" onPress={() => onAnswer(approval.id, true)}>
            {texts.approve}
          </Button>
          <Button look="bad" onPress={() => onAnswer(approval.id, false)}>
            {texts.deny}
          </Button>
        </div>
      )}
    </div>
  );
}

const Json = ({ label, value }: { label: string; value: unknown }) => (
  <>
    <p className="small">{label}</p>
    <pre>{escaped(typeof value === 'string' ? value : (JSON.stringify(value, null, 2) ?? ''))}</pre>
  </>
);

export function Fold(props: { title: string; note?: string; isOpen?: boolean; children: React.ReactNode }) {
  return (
    <Disclosure className="fold" defaultExpanded={props.isOpen ?? false}>
      <Heading level={2}>
        <AriaButton slot="trigger" className="trigger">
          <span className="chevron" aria-hidden="true">›</span>
          <span>{props.title}</span>
          {props.note && <span className="note">{props.note}</span>}
        </AriaButton>
      </Heading>
      <DisclosurePanel>{props.children}</DisclosurePanel>
    </Disclosure>
  );
}

export const Time = ({ ms }: { ms: number }) => (
  <time dateTime={new Date(ms).toISOString()} title={moment(ms)}>
    {time(ms)}
  </time>
);

