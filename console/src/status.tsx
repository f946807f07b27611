// What `annals doctor` checks, of the program that shows this page. A stack does not check itself.
import { useState } from 'react';
import { Problem } from './api';
import { when } from './names';
import { Page } from './page';
import { usePoll } from './poll';
import { useSession } from './session';
import { texts } from './text';
import { Button, Loading, Rich, Trouble } from './widgets';

/** Pause between two looks, in milliseconds. Each may send requests to platforms and to the model. */
const PAUSE = 60_000;

type Verdict = 'ok' | 'warning' | 'fault' | 'none';
interface Checked { checkedAt: number; findings: { check: string; verdict: Verdict; words: string }[] }
/** The order in which findings are shown. */
const ORDER: readonly Verdict[] = ['fault', 'warning', 'ok', 'none'];

export function Status() {
  const { api } = useSession();
  const [checked, setChecked] = useState<Checked | null>(null);
  const [isStack, setStack] = useState(false);
  const { problem, again } = usePoll(async signal => {
    try {
      setChecked(await api.get<Checked>('/local/status', signal));
    } catch (error) {
      if (Problem.from(error).status !== 404) throw error;
      setStack(true);
    }
  }, PAUSE);
  const findings = checked?.findings.toSorted((a, b) => ORDER.indexOf(a.verdict) - ORDER.indexOf(b.verdict));
  if (isStack) {
    return (
      <Page title={texts.statusPage} why={texts.statusWhy} content={texts.findings}>
        <p>
          <Rich text={texts.statusOfStack} />
        </p>
      </Page>
    );
  }
  return (
    <Page title={texts.statusPage} why={texts.statusWhy} content={texts.findings} controls={<Button onPress={() => void again()}>{texts.checkAgain}</Button>}>
      {problem && <Trouble problem={problem} />}
      {checked === null && !problem && <Loading what={texts.checking} />}
      {checked && (
        <p className="small" role="status">
          {texts.faultsCount(checked.findings.filter(({ verdict }) => verdict === 'fault').length)} {texts.checkedAt(when(checked.checkedAt))}
        </p>
      )}
      <ul className="cards">
        {findings?.map(({ check, verdict, words }) => (
          <li key={`${check} ${words}`}>
            <article className="card finding">
              <p className="row">
                <span className={`tag ${verdict}`}>{texts.verdicts[verdict]}</span> <b>{check}</b>
              </p>
              <p className="plain">{words}</p>
            </article>
          </li>
        ))}
      </ul>
    </Page>
  );
}
