// Search in a chat: over its whole history, archived or not.
import { useEffect, useState } from 'react';
import { Input, SearchField } from 'react-aria-components';
import { type Hit, type Message, Problem, ofChat } from './api';
import { Entry } from './message';
import { textOf, when } from './names';
import { useSession } from './session';
import { texts } from './text';
import { Button, Loading, Marked, Trouble } from './widgets';

const MOST = 20;
/** Maximum length of the words, in characters, as the API has it. */
const LONGEST = 512;

interface Props {
  chat: string;
  /** Shows a message in the history. Resolves to false if it is too far back. */
  onJump: (message: Message) => Promise<boolean>;
  onClose: () => void;
}

export function Search({ chat, onJump, onClose }: Props) {
  const { api, tell } = useSession();
  const [words, setWords] = useState('');
  const [result, setResult] = useState<{ words: string; hits: Hit[]; partial: boolean } | null>(null);
  const [isSearching, setSearching] = useState(false);
  const [problem, setProblem] = useState<Problem | null>(null);
  /** The hit that is too far back, and is shown here with what was said around it. */
  const [far, setFar] = useState<Hit | null>(null);
  useEffect(() => {
    // The first search of a chat reads the indexes of its whole history, and the next ones do not: this is the first, while somebody types.
    api.get(`${ofChat(chat, 'search')}?q=a&limit=1`).catch(() => {});
  }, [api, chat]);
  const search = async () => {
    const wanted = words.trim();
    if (wanted === '') return;
    setSearching(true);
    setProblem(null);
    setFar(null);
    try {
      const { hits, partial } = await api.get<{ hits: Hit[]; partial: boolean }>(`${ofChat(chat, 'search')}?q=${encodeURIComponent(wanted)}&limit=${MOST}`);
      setResult({ words: wanted, hits, partial });
      tell(texts.foundCount(hits.length));
    } catch (error) {
      setProblem(Problem.from(error));
    } finally {
      setSearching(false);
    }
  };
  const jump = async (hit: Hit) => {
    setSearching(true);
    try {
      setFar((await onJump(hit.message)) ? null : hit);
    } catch (error) {
      setProblem(Problem.from(error));
    } finally {
      setSearching(false);
    }
  };
  return (
    <search className="finder" aria-label={texts.searchChat}>
      <div className="search">
        <SearchField className="grow" aria-label={texts.searchChat} value={words} onChange={setWords} onSubmit={() => void search()} autoFocus>
          <Input placeholder={texts.searchChat} maxLength={LONGEST} />
        </SearchField>
        <Button onPress={() => void search()}>{texts.search}</Button>
        <Button look="icon" aria-label={texts.closeSearch} onPress={onClose}>
          ×
        </Button>
      </div>
      {problem && <Trouble problem={problem} />}
      {isSearching && <Loading what={texts.searching} />}
      {result?.partial && <p className="small">{texts.cutShort}</p>}
      {result && result.hits.length === 0 && !result.partial && <p className="empty">{texts.nobodySaid(result.words)}</p>}
      {result && result.hits.length > 0 && far === null && (
        <ul className="hits">
          {result.hits.map(hit => (
            <li key={hit.message.id}>
              <button type="button" className="hit" onClick={() => void jump(hit)}>
                <span className="small">{about(hit.message)}</span>
                <span className="clamp">
                  <Marked text={textOf(hit.message)} words={result.words} />
                </span>
              </button>
            </li>
          ))}
        </ul>
      )}
      {far && (
        <>
          <p className="small">
            {texts.farBack} <Button onPress={() => setFar(null)}>{texts.allHits}</Button>
          </p>
          <ol className="archived">
            {around(far).map(message => (
              <li key={message.id} className={message.id === far.message.id ? 'is-hit' : undefined}>
                <Entry message={message} />
              </li>
            ))}
          </ol>
        </>
      )}
    </search>
  );
}

const about = ({ role, metadata }: Message): string => {
  const who = role === 'user' ? (metadata?.senderName ?? metadata?.userId ?? '') : texts.aBot;
  return `${who} · ${when(metadata?.ts ?? 0)}`;
};

/** Returns a hit among its neighbours, in the order of the chat. */
function around({ message, context }: Hit): Message[] {
  if (context.some(({ id }) => id === message.id)) return context;
  const at = context.findIndex(({ metadata }) => (metadata?.ts ?? 0) > (message.metadata?.ts ?? 0));
  return at < 0 ? [...context, message] : context.toSpliced(at, 0, message);
}
