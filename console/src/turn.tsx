// How an answer was made: the steps of its turn as a waterfall, and its prompt.
import { useEffect, useState } from 'react';
import { type Message, Problem, type Span, type Turn, ofChat } from './api';
import { short, textOf } from './names';
import { useSession } from './session';
import { texts } from './text';
import { duration } from './units';
import { Loading, Trouble } from './widgets';

export function TurnSteps({ chat, message }: { chat: string; message: Message }) {
  const { api } = useSession();
  const [turn, setTurn] = useState<Turn | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const { id, metadata } = message;
  // With the time, the id of what it answers will do: at API Gateway no id with a slash works.
  const asked = metadata ? id.replace(/\/(reply|notice)$/, '') : id;
  const path = `${ofChat(chat, 'turns')}/${encodeURIComponent(asked)}${metadata ? `?ts=${metadata.ts}` : ''}`;
  useEffect(() => {
    const ended = new AbortController();
    api.get<Turn>(path, ended.signal).then(setTurn, error => ended.signal.aborted || setProblem(Problem.from(error)));
    return () => ended.abort();
  }, [api, path]);
  if (problem) return <Trouble problem={problem} />;
  if (turn === null) return <Loading what={texts.loadingTurn} />;
  const total = Math.max(1, ...turn.spans.map(({ at, ms }) => at + ms));
  const { step, at, ms } = texts.turnColumns;
  return (
    <div className="steps">
      <table>
        <caption>{texts.turnTotal(turn.requests, duration(total))}</caption>
        <thead>
          <tr>
            <th scope="col">{step}</th>
            <th scope="col">{at}</th>
            <th scope="col">{ms}</th>
          </tr>
        </thead>
        <tbody>
          {turn.spans.map((span, number) => (
            <Row key={number} span={span} total={total} />
          ))}
        </tbody>
      </table>
      {turn.dropped > 0 && <p className="small">{texts.turnMore(turn.dropped)}</p>}
      {turn.prompt && (
        <details>
          <summary>{texts.prompt(turn.prompt.messages.length, turn.prompt.exact)}</summary>
          {(['system', 'memory'] as const).map(part => {
            const given = turn.prompt?.[part];
            return given && (given.text !== null || !given.exact) ? (
              <p key={part} className="plain">
                <b>{texts.promptParts[part]}</b> {!given.exact && <span className="warn">{texts.promptOther}</span>} {given.text}
              </p>
            ) : null;
          })}
          {turn.prompt.tools && turn.prompt.tools.names.length > 0 && (
            <p>
              <b>{texts.promptParts.tools}</b> <code>{turn.prompt.tools.names.join(', ')}</code>
              {turn.prompt.tools.more > 0 && ` +${turn.prompt.tools.more}`}
            </p>
          )}
          <ol>
            {turn.prompt.messages.map(message => (
              <li key={message.id}>
                <b>{texts.roles[message.role] ?? message.role}</b> {textOf(message)}
              </li>
            ))}
          </ol>
        </details>
      )}
    </div>
  );
}

function Row({ span, total }: { span: Span; total: number }) {
  const { step, at, ms, name, error, firstTokenMs, inputTokens, outputTokens } = span;
  const part = (millis: number) => `${(100 * millis) / total}%`;
  return (
    <tr className={error === undefined ? `step-${step}` : 'step-failed'}>
      <th scope="row">
        {texts.turnSteps[step] ?? step} {name}
        {error !== undefined && <span className="warn"> {error}</span>}
        {inputTokens !== undefined && <span className="small"> {texts.usage(short(inputTokens), short(outputTokens ?? 0))}</span>}
        {firstTokenMs !== undefined && <span className="small"> {texts.firstToken(duration(firstTokenMs))}</span>}
        <span className="track" aria-hidden="true">
          <i style={{ insetInlineStart: part(at), width: part(ms) }} />
        </span>
      </th>
      <td>{duration(at)}</td>
      <td>{duration(ms)}</td>
    </tr>
  );
}
