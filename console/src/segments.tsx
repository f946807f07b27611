// The archive of a chat: segments to open, and to search.
import { useEffect, useState } from 'react';
import { Input, SearchField } from 'react-aria-components';
import { type Api, type Message, Problem, type Segment, ofChat } from './api';
import { Entry } from './message';
import { shortId, textOf, when } from './names';
import { href } from './route';
import { useSession } from './session';
import { texts } from './text';
import { Button, Icon, Loading, Marked, Trouble } from './widgets';

/** Segments that a panel has read. Another panel reads them again: an erasure may have changed them. */
type Read = Map<string, Promise<Message[]>>;

function messagesOf(read: Read, api: Api, chat: string, id: string): Promise<Message[]> {
  const name = `${chat} ${id}`;
  let messages = read.get(name);
  if (!messages) {
    messages = api.lines<Message>(`${ofChat(chat, 'segments')}/${encodeURIComponent(id)}`);
    messages.catch(() => read.delete(name));
    read.set(name, messages);
  }
  return messages;
}

export function SegmentsPanel({ chat, open }: { chat: string; open: string | undefined }) {
  const { api } = useSession();
  const [read] = useState<Read>(() => new Map());
  const [segments, setSegments] = useState<Segment[] | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  useEffect(() => {
    const ended = new AbortController();
    api.get<{ segments: Segment[] }>(ofChat(chat, 'segments'), ended.signal).then(
      ({ segments }) => setSegments(segments.toReversed()),
      error => ended.signal.aborted || setProblem(Problem.from(error)),
    );
    return () => ended.abort();
  }, [api, chat]);
  if (problem) return <Trouble problem={problem} />;
  if (segments === null) return <Loading what={texts.loadingArchive} />;
  const opened = segments.find(segment => segment.id === open);
  if (opened) return <Opened read={read} chat={chat} segment={opened} />;
  if (segments.length === 0) {
    return (
      <p className="empty">
        {texts.emptyArchive}
      </p>
    );
  }
  return (
    <>
      <Search read={read} chat={chat} segments={segments} />
      <h2>{texts.segments(segments.length)}</h2>
      <ul className="cards">
        {segments.map(segment => (
          <li key={segment.id}>
            <a className="card" href={href({ at: 'chat', chat, view: 'segments', segment: segment.id })}>
              <b>
                {texts.range(shortId(segment.fromId), shortId(segment.toId))}
              </b>
              <span className="small">
                {texts.segment(segment.count, segment.bytes, when(segment.createdAt))}
              </span>
            </a>
          </li>
        ))}
      </ul>
    </>
  );
}

function Opened({ read, chat, segment }: { read: Read; chat: string; segment: Segment }) {
  const { api } = useSession();
  const [messages, setMessages] = useState<Message[] | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  useEffect(() => {
    messagesOf(read, api, chat, segment.id).then(setMessages, error => setProblem(Problem.from(error)));
  }, [read, api, chat, segment.id]);
  return (
    <>
      <p>
        <a href={href({ at: 'chat', chat, view: 'segments' })}>
          <Icon name="back" /> {texts.allSegments}
        </a>
      </p>
      <h2>
        {texts.range(shortId(segment.fromId), shortId(segment.toId))}
      </h2>
      {problem && <Trouble problem={problem} />}
      {messages === null && !problem && <Loading what={texts.openingSegment} />}
      <ol className="archived">
        {messages?.map(message => (
          <li key={message.id}>
            <Entry message={message} />
          </li>
        ))}
      </ol>
    </>
  );
}

interface Found { segment: Segment; message: Message }

function Search({ read, chat, segments }: { read: Read; chat: string; segments: Segment[] }) {
  const { api, tell } = useSession();
  const [words, setWords] = useState('');
  const [result, setResult] = useState<{ words: string; found: Found[]; left: number } | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const search = async () => {
    const wanted = words.trim();
    setProblem(null);
    if (wanted === '') return setResult(null);
    const found: Found[] = [];
    try {
      for (const [at, segment] of segments.entries()) {
        setResult({ words: wanted, found: [...found], left: segments.length - at });
        const messages = await messagesOf(read, api, chat, segment.id);
        const fits = (message: Message) => textOf(message).toLowerCase().includes(wanted.toLowerCase());
        found.push(...messages.filter(fits).map(message => ({ segment, message })).toReversed());
      }
      setResult({ words: wanted, found, left: 0 });
      tell(texts.foundCount(found.length));
    } catch (error) {
      setProblem(Problem.from(error));
    }
  };
  return (
    <>
      <SearchField className="search" aria-label={texts.searchArchive} value={words} onChange={setWords} onSubmit={() => void search()} onClear={() => setResult(null)}>
        <Input placeholder={texts.searchArchive} />
        <Button onPress={() => void search()} slot={null}>
          {texts.search}
        </Button>
      </SearchField>
      {problem && <Trouble problem={problem} />}
      {result && (
        <section aria-label={texts.found}>
          {result.left > 0 && <Loading what={texts.segmentsLeft(result.left)} />}
          {result.left === 0 && result.found.length === 0 && <p className="empty">{texts.nobodySaid(result.words)}</p>}
          <ul className="cards">
            {result.found.map(({ segment, message }) => (
              <li key={message.id}>
                <a className="card" href={href({ at: 'chat', chat, view: 'segments', segment: segment.id })}>
                  <span className="small">
                    {message.role === 'user' ? (message.metadata?.senderName ?? message.metadata?.userId) : texts.aBot} · {when(message.metadata?.ts ?? 0)}
                  </span>
                  <span className="clamp">
                    <Marked text={textOf(message)} words={result.words} />
                  </span>
                </a>
              </li>
            ))}
          </ul>
        </section>
      )}
    </>
  );
}
