// The memory of the people in a chat, for correcting and deleting entries.
import { useEffect, useState } from 'react';
import { Input, Label, TextArea, TextField } from 'react-aria-components';
import { type Context, type Memory, Problem } from './api';
import { shortId, when } from './names';
import { useSession } from './session';
import { texts } from './text';
import { Button, Loading, Sure, Trouble } from './widgets';

type Owner = NonNullable<Context['memoryOf']> | { state: 'pending' };

export function MemoryPanel({ chat, owner, isKnown }: { chat: string; owner: Context['memoryOf']; isKnown: boolean }) {
  const { api, key, tell } = useSession();
  const [whose, setWhose] = useState<Owner | null>(owner);
  const [typed, setTyped] = useState(owner && 'userId' in owner ? owner.userId : '');
  const [memories, setMemories] = useState<Memory[] | null>(null);
  const [forgotten, setForgotten] = useState<Memory[]>([]);
  const [problem, setProblem] = useState<Problem | null>(null);

  useEffect(() => {
    setMemories(null);
    setForgotten([]);
    if (whose === null) return;
    const ended = new AbortController();
    const query = new URLSearchParams(whose as unknown as Record<string, string>);
    api.get<{ memories: Memory[]; forgotten?: Memory[] }>(`/v1/memory?${query}`, ended.signal).then(
      ({ memories, forgotten }) => (setMemories(memories.toReversed()), setForgotten(forgotten ?? []), setProblem(null)),
      error => ended.signal.aborted || setProblem(Problem.from(error)),
    );
    return () => ended.abort();
  }, [api, whose]);

  const replace = (id: string, by: Memory | null) =>
    setMemories(now => now?.flatMap(memory => (memory.id === id ? (by ? [by] : []) : [memory])) ?? null);
  const correct = async (memory: Memory, text: string) => {
    const response = await api.send('PUT', `/v1/memory/${encodeURIComponent(memory.id)}`, { text });
    replace(memory.id, await response.json());
    tell(texts.corrected);
  };
  const approve = async (memory: Memory) => {
    try {
      const response = await api.send('POST', `/v1/memory/${encodeURIComponent(memory.id)}/approve`);
      replace(memory.id, await response.json());
      tell(texts.approved);
    } catch (error) {
      setProblem(Problem.from(error));
    }
  };
  const bringBack = async (memory: Memory) => {
    try {
      const response = await api.send('PUT', `/v1/memory/${encodeURIComponent(memory.id)}`, { markdown: memory.earlier?.markdown });
      const by: Memory = await response.json();
      setForgotten(now => now.filter(({ id }) => id !== memory.id));
      setMemories(now => [by, ...(now ?? []).filter(({ id }) => id !== memory.id)].sort((a, b) => b.number - a.number));
      tell(texts.broughtBack);
    } catch (error) {
      setProblem(Problem.from(error));
    }
  };
  const forget = async (memory: Memory) => {
    try {
      await api.send('DELETE', `/v1/memory/${encodeURIComponent(memory.id)}`);
      replace(memory.id, null);
      setForgotten(now => now.filter(({ id }) => id !== memory.id));
      tell(texts.entryForgotten);
    } catch (error) {
      setProblem(Problem.from(error));
    }
  };

  return (
    <>
      <form
        className="search"
        onSubmit={event => {
          event.preventDefault();
          setWhose(typed === '' ? null : { userId: typed });
        }}
      >
        <TextField value={typed} onChange={setTyped} className="grow">
          <Label>{texts.ofWhom}</Label>
          <Input spellCheck="false" autoComplete="off" />
        </TextField>
        <Button type="submit">{texts.show}</Button>
        {key.admin && <Button onPress={() => setWhose({ state: 'pending' })}>{texts.waiting}</Button>}
      </form>
      {whose !== null && 'chatKey' in whose && <p className="small">{texts.groupMemory}</p>}
      {problem && <Trouble problem={problem} />}
      {whose === null && isKnown && (
        <p className="empty">{texts.nobodysMemory}</p>
      )}
      {whose !== null && memories === null && !problem && <Loading what={texts.loadingMemory} />}
      {memories?.length === 0 && (
        <p className="empty">{whose !== null && 'state' in whose ? texts.noneWaits : texts.emptyMemory}</p>
      )}
      <ul className="cards">
        {memories?.map(memory => (
          <li key={memory.id}>
            <Remembered memory={memory} isHere={memory.source?.chatKey === chat} onCorrect={correct} onForget={forget} onBringBack={bringBack} onApprove={key.admin ? approve : null} />
          </li>
        ))}
      </ul>
      {forgotten.length > 0 && <h2>{texts.forgottenByAgent}</h2>}
      <ul className="cards">
        {forgotten.map(memory => (
          <li key={memory.id}>
            <article className="card" aria-label={texts.forgottenEntry(memory.number)}>
              <p className="plain">{memory.text}</p>
              <p className="small">{texts.until(when(memory.earlier?.undoUntil ?? 0))}</p>
              <div className="row">
                <Button onPress={() => void bringBack(memory)}>{texts.bringBack}</Button>
                <Sure look="bad" label={texts.deleteEntry} title={texts.deleteForGood} does={texts.delete} onSure={() => void forget(memory)}>
                  <p className="plain">{memory.text}</p>
                </Sure>
              </div>
            </article>
          </li>
        ))}
      </ul>
    </>
  );
}

interface Props {
  memory: Memory;
  /** True if the source is in the chat that is shown. */
  isHere: boolean;
  onCorrect: (memory: Memory, text: string) => Promise<void>;
  onForget: (memory: Memory) => Promise<void>;
  onBringBack: (memory: Memory) => Promise<void>;
  /** Null without an admin key. */
  onApprove: ((memory: Memory) => Promise<void>) | null;
}

function Remembered({ memory, isHere, onCorrect, onForget, onBringBack, onApprove }: Props) {
  const [draft, setDraft] = useState<string | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const save = async (text: string) => {
    try {
      await onCorrect(memory, text);
      setDraft(null);
      setProblem(null);
    } catch (error) {
      setProblem(Problem.from(error));
    }
  };
  const { source } = memory;
  return (
    <article className="card" aria-label={texts.entry(memory.number)}>
      {draft === null ? (
        <p className="plain">{memory.text}</p>
      ) : (
        <TextField value={draft} onChange={setDraft} aria-label={texts.entryText} autoFocus>
          <TextArea rows={4} />
        </TextField>
      )}
      {problem && <Trouble problem={problem} />}
      <p className="small">
        {memory.type} {memory.number} · {memory.updatedAt ? texts.correctedAt(when(memory.updatedAt)) : when(memory.createdAt)}
        {source && texts.fromRange(shortId(source.fromId), shortId(source.toId), isHere ? null : source.chatKey)}
      </p>
      {memory.state === 'pending' && <p className="small">{texts.waitsForApproval(memory.userId ?? memory.chatKey ?? '')}</p>}
      {memory.state === 'past' && <p className="small">{texts.past(when(memory.validTo ?? 0), memory.supersededBy ?? null)}</p>}
      {memory.earlierForms?.map(form => (
        <p className="small" key={form.until}>
          {texts.saidUntil(when(form.until))} <span className="plain">{form.text}</span>
        </p>
      ))}
      {memory.outside && <p className="small">{texts.savedAfter(memory.outside.join(', '))}</p>}
      {memory.earlier && (
        <p className="small">
          {texts.changedByAgent} <span className="plain">{memory.earlier.text}</span>
        </p>
      )}
      <div className="row">
        {draft === null ? (
          <>
            {memory.state === 'pending' && onApprove && (
              <Button look="main" onPress={() => void onApprove(memory)}>
                {texts.approveEntry}
              </Button>
            )}
            {memory.earlier && <Button onPress={() => void onBringBack(memory)}>{texts.bringBack}</Button>}
            <Button onPress={() => setDraft(memory.text)}>{texts.edit}</Button>
            <Sure look="bad" label={texts.deleteEntry} title={texts.forgetEntry} does={texts.delete} onSure={() => void onForget(memory)}>
              <p className="plain">{memory.text}</p>
            </Sure>
          </>
        ) : (
          <>
            <Button look="main" onPress={() => void save(draft)} isDisabled={draft.trim() === ''}>
              {texts.save}
            </Button>
            <Button onPress={() => setDraft(null)}>{texts.cancel}</Button>
          </>
        )}
      </div>
    </article>
  );
}
