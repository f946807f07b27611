// Tokens and money per day, chat, person, key and model: numbers, a plot, and a file of them.
import { useEffect, useRef, useState } from 'react';
import { type Api, type ListedChat, Problem } from './api';
import { download } from './export';
import { nameOf } from './names';
import { Page } from './page';
import { href } from './route';
import { useSession } from './session';
import { texts } from './text';
import { count } from './units';
import { Button, Loading, Rich, Trouble } from './widgets';

const BYS = ['day', 'chat', 'person', 'key', 'model'] as const;
const PERIODS = [7, 30, 90] as const;
const MEASURES = ['tokens', 'cost', 'replies'] as const;
type By = (typeof BYS)[number];
type Measure = (typeof MEASURES)[number];
/** Maximum number of pages that are read without being asked for more, and of chats in each. */
const MOST_PAGES = 40;
const PAGE_CHATS = 25;
/** Maximum number of bars, except for days. */
const MOST_BARS = 15;
const DAY = 86_400_000;

interface Row {
  name: string | null;
  replies: number;
  inputTokens: number;
  outputTokens: number;
  cachedInputTokens: number;
  cost: number | null;
  unpricedReplies: number;
}
interface Sheet { rows: Row[]; cut: string[]; before: string | null }
/** The sums of the pages read so far. */
interface Sums extends Sheet { pages: number }

const NOTHING: Sums = { rows: [], cut: [], before: null, pages: 0 };

/** Adds two sums. The cost is that of the replies with a price. */
const added = (a: Row, b: Row): Row => ({
  name: a.name,
  replies: a.replies + b.replies,
  inputTokens: a.inputTokens + b.inputTokens,
  outputTokens: a.outputTokens + b.outputTokens,
  cachedInputTokens: a.cachedInputTokens + b.cachedInputTokens,
  cost: a.cost === null ? b.cost : a.cost + (b.cost ?? 0),
  unpricedReplies: a.unpricedReplies + b.unpricedReplies,
});

/** Joins rows of one name. */
function joined(sums: Sums, page: Sheet): Sums {
  const rows = new Map(sums.rows.map(row => [row.name, row]));
  for (const row of page.rows) {
    const known = rows.get(row.name);
    rows.set(row.name, known ? added(known, row) : row);
  }
  return { rows: [...rows.values()], cut: [...sums.cut, ...page.cut], before: page.before, pages: sums.pages + 1 };
}

const measured = (row: Row, measure: Measure): number =>
  measure === 'tokens' ? row.inputTokens + row.outputTokens : measure === 'cost' ? (row.cost ?? 0) : row.replies;

/** Returns the days, in UTC, until `last` and with it. */
const daysUntil = (last: number, days: number): string[] =>
  Array.from({ length: days }, (_, at) => new Date(last - (days - 1 - at) * DAY).toISOString().slice(0, 10));

/** Returns a function that shows money; small sums have more digits. */
function money(total: number | null): (cost: number) => string {
  const digits = total !== null && total >= 1 ? 4 : 6;
  const format = new Intl.NumberFormat(undefined, { minimumFractionDigits: digits, maximumFractionDigits: digits });
  return cost => format.format(cost);
}

export function Usage({ chats }: { chats: ListedChat[] | null }) {
  const { api, key } = useSession();
  const [by, setBy] = useState<By>('day');
  const [days, setDays] = useState<number>(30);
  return (
    <Page title={texts.usagePage} why={texts.usagePageWhy} content={texts.usagePage} className="usage">
      {!key.admin && <p className="empty">{texts.adminsOnly}</p>}
      {key.admin && (
        <>
          <div className="row">
            <select aria-label={texts.usageBy} value={by} onChange={({ target }) => setBy(target.value as By)}>
              {BYS.map(by => (
                <option key={by} value={by}>
                  {texts.usageBys[by]}
                </option>
              ))}
            </select>
            <select aria-label={texts.usagePeriod} value={days} onChange={({ target }) => setDays(Number(target.value))}>
              {PERIODS.map(days => (
                <option key={days} value={days}>
                  {texts.lastDays(days)}
                </option>
              ))}
            </select>
          </div>
          <Summed key={`${by} ${days}`} api={api} by={by} days={days} chats={chats} />
        </>
      )}
    </Page>
  );
}

function Summed({ api, by, days, chats }: { api: Api; by: By; days: number; chats: ListedChat[] | null }) {
  const [range] = useState(() => daysUntil(Date.now(), days));
  const [first = '', last = ''] = [range[0], range.at(-1)];
  const [sums, setSums] = useState(NOTHING);
  const [isLoading, setLoading] = useState(true);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [measure, setMeasure] = useState<Measure>('tokens');
  const ended = useRef(new AbortController());

  const load = async (from: Sums, { signal }: AbortController) => {
    setLoading(true);
    setProblem(null);
    try {
      for (let sums = from, page = 0; page < MOST_PAGES && (sums.before !== null || sums.pages === 0); page++) {
        const query = new URLSearchParams({ by, from: first, to: last, limit: String(PAGE_CHATS), ...(sums.before && { before: sums.before }) });
        sums = joined(sums, await api.get<Sheet>(`/v1/usage?${query}`, signal));
        setSums(sums);
      }
    } catch (error) {
      if (!signal.aborted) setProblem(Problem.from(error));
    }
    if (!signal.aborted) setLoading(false);
  };
  useEffect(() => {
    ended.current = new AbortController();
    void load(NOTHING, ended.current);
    return () => ended.current.abort();
  }, []);

  const nameOfRow = ({ name }: Row): string => {
    if (!name) return by === 'key' ? texts.withoutKey : texts.notKnown;
    return by === 'chat' ? nameOf(name, chats?.find(({ chatKey }) => chatKey === name)).title : name;
  };
  const byName = (a: Row, b: Row) => ((b.name ?? '') < (a.name ?? '') ? -1 : 1);
  const rows = sums.rows.toSorted((a, b) => (by === 'day' ? byName(a, b) : measured(b, measure) - measured(a, measure) || byName(b, a)));
  const total = rows.length > 0 ? rows.reduce(added) : null;
  const cost = money(total?.cost ?? null);
  const shownCost = (row: Row) => (row.cost === null ? '–' : `${row.unpricedReplies > 0 ? '≥ ' : ''}${cost(row.cost)}`);
  const value = (row: Row) => (measure === 'cost' ? shownCost(row) : count(measured(row, measure)));
  const cells = (row: Row) => [
    count(row.replies), count(row.inputTokens), count(row.cachedInputTokens), count(row.outputTokens), shownCost(row),
  ].map((cell, at) => <td key={at}>{cell}</td>);
  const title = texts.usageTitle(texts.measures[measure], texts.usageBys[by], first, last);
  return (
    <>
      {problem && <Trouble problem={problem} />}
      {isLoading && <Loading what={texts.loadingUsage(sums.pages * PAGE_CHATS)} />}
      {!isLoading && sums.before !== null && (
        <p className="row small">
          {texts.usageSoFar(sums.pages * PAGE_CHATS)}
          <Button onPress={() => void load(sums, ended.current)}>{texts.moreChats}</Button>
        </p>
      )}
      {problem && sums.pages === 0 && <Button onPress={() => void load(NOTHING, ended.current)}>{texts.tryAgain}</Button>}
      {!isLoading && !problem && total === null && <p className="empty">{texts.noUsage}</p>}
      {total !== null && (
        <>
          <div className="row">
            <select aria-label={texts.plotted} value={measure} onChange={({ target }) => setMeasure(target.value as Measure)}>
              {MEASURES.map(measure => (
                <option key={measure} value={measure}>
                  {texts.measures[measure]}
                </option>
              ))}
            </select>
            <Button isDisabled={isLoading} onPress={() => download(`usage-${by}-${first}-${last}.csv`, csvOf(rows))}>
              {texts.saveCsv}
            </Button>
          </div>
          {measure === 'cost' && total.cost === null ? (
            <p className="empty">{texts.noPrices}</p>
          ) : by === 'day' ? (
            <Days title={title} range={range} rows={rows} measure={measure} value={value} />
          ) : (
            <Bars title={title} rows={rows} measure={measure} name={nameOfRow} value={value} />
          )}
          <div className="numbers" tabIndex={0} role="region" aria-label={texts.numbers}>
            <table>
              <caption className="small">{texts.usageRange(first, last)}</caption>
              <thead>
                <tr>
                  <th scope="col">{texts.usageNames[by]}</th>
                  {texts.usageColumns.map(name => (
                    <th key={name} scope="col">
                      {name}
                    </th>
                  ))}
                </tr>
              </thead>
              <tbody>
                {rows.map(row => (
                  <tr key={String(row.name)}>
                    <th scope="row" title={row.name ?? undefined}>
                      {by === 'chat' && row.name ? <a href={href({ at: 'chat', chat: row.name, view: 'history' })}>{nameOfRow(row)}</a> : nameOfRow(row)}
                    </th>
                    {cells(row)}
                  </tr>
                ))}
              </tbody>
              <tfoot>
                <tr>
                  <th scope="row">{texts.total}</th>
                  {cells(total)}
                </tr>
              </tfoot>
            </table>
          </div>
          {total.unpricedReplies > 0 && (
            <p className="small">
              <Rich text={texts.unpriced(total.unpricedReplies)} />
            </p>
          )}
          {sums.cut.length > 0 && (
            <p className="small">
              <Rich text={texts.usageCut(sums.cut.map(chat => nameOf(chat, chats?.find(({ chatKey }) => chatKey === chat)).title))} />
            </p>
          )}
        </>
      )}
    </>
  );
}

interface Plotted { title: string; rows: Row[]; measure: Measure; value: (row: Row) => string }

/** A bar for each day of the range. The table has the same numbers. */
function Days({ title, range, rows, measure, value }: Plotted & { range: string[] }) {
  const [top, bottom] = [18, 150];
  const most = Math.max(...rows.map(row => measured(row, measure)));
  const largest = rows.find(row => measured(row, measure) === most);
  const known = new Map(rows.map(row => [row.name, row]));
  const width = 100 / range.length;
  return (
    <svg className="plot" role="img" height={bottom + 18} aria-label={`${title}. ${largest ? texts.largest(largest.name ?? '', value(largest)) : ''}`}>
      <line x1="0" x2="100%" y1={bottom + 0.5} y2={bottom + 0.5} />
      {range.map((day, at) => {
        const row = known.get(day);
        const height = row && most > 0 ? Math.max(1, (measured(row, measure) / most) * (bottom - top)) : 0;
        return row ? (
          <rect key={day} x={`${(at + 0.1) * width}%`} width={`${0.8 * width}%`} y={bottom - height} height={height}>
            <title>{`${day}: ${value(row)}`}</title>
          </rect>
        ) : null;
      })}
      <text x="0" y="12">{largest && value(largest)}</text>
      <text x="0" y={bottom + 15}>{range[0]}</text>
      <text x="100%" y={bottom + 15} textAnchor="end">{range.at(-1)}</text>
    </svg>
  );
}

/** The first rows, a bar for each. The table has the same numbers. */
function Bars({ title, rows, measure, name, value }: Plotted & { name: (row: Row) => string }) {
  const shown = rows.slice(0, MOST_BARS);
  const [largest] = shown;
  const most = Math.max(...shown.map(row => measured(row, measure)));
  const label = (row: Row) => (name(row).length > 32 ? `${name(row).slice(0, 31)}…` : name(row));
  return (
    <>
      {rows.length > MOST_BARS && <p className="small">{texts.firstBars(MOST_BARS, rows.length)}</p>}
      <svg className="plot" role="img" height={shown.length * 34} aria-label={`${title}. ${largest ? texts.largest(name(largest), value(largest)) : ''}`}>
        {shown.map((row, at) => (
          <g key={String(row.name)}>
            <text x="0" y={at * 34 + 13}>{label(row)}</text>
            <text x="100%" y={at * 34 + 13} textAnchor="end">{value(row)}</text>
            <rect x="0" y={at * 34 + 18} height="9" width={`${most > 0 ? (measured(row, measure) / most) * 100 : 0}%`} />
          </g>
        ))}
      </svg>
    </>
  );
}

/** Returns the rows as the API's CSV, which has those of one page. */
function csvOf(rows: Row[]): Blob {
  // A name that a spreadsheet would take as a formula begins with a `'`.
  const quoted = (name: string) => `"${/^[=+\-@]/.test(name) ? "'" : ''}${name.replaceAll('"', '""')}"`;
  const line = (row: Row) => [
    quoted(row.name ?? ''), row.replies, row.inputTokens, row.outputTokens, row.cachedInputTokens,
    row.cost === null ? '' : Math.round(row.cost * 1e6) / 1e6, row.unpricedReplies,
  ].join(',');
  const head = 'name,replies,inputTokens,outputTokens,cachedInputTokens,cost,unpricedReplies';
  return new Blob([[head, ...rows.map(line), ''].join('\r\n')], { type: 'text/csv' });
}
