// Polling while the page is visible.
import { useCallback, useEffect, useRef, useState } from 'react';
import { Problem } from './api';

const LONGEST_PAUSE = 60_000;

/** True for an API on this machine. A deployed one bills each request and has a higher latency. */
export const isHere = ['localhost', '127.0.0.1', '[::1]'].includes(location.hostname);
export const PACE = isHere ? { list: 3_000, chat: 2_000, pending: 700 } : { list: 20_000, chat: 6_000, pending: 2_000 };

/**
 * Calls `ask` at once, then every `pause` milliseconds while the page is visible, and less and less often while it fails.
 * `again` asks immediately, and resolves when that is answered.
 */
export function usePoll(ask: (signal: AbortSignal) => Promise<void>, pause: number) {
  const [problem, setProblem] = useState<Problem | null>(null);
  const latest = useRef(ask);
  latest.current = ask;
  const pace = useRef(pause);
  pace.current = pause;
  const now = useRef<() => Promise<void>>(async () => {});
  const replan = useRef(() => {});

  useEffect(() => {
    let failures = 0;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let running: Promise<void> | undefined;
    const ended = new AbortController();
    const run = async () => {
      clearTimeout(timer);
      let wait = 0;
      try {
        await latest.current(ended.signal);
        failures = 0;
        if (!ended.signal.aborted) setProblem(null);
      } catch (error) {
        if (ended.signal.aborted) return;
        failures += 1;
        const what = Problem.from(error);
        wait = Math.max(1000 * (what.retryAfterSecs ?? 0), 1000 * 2 ** failures);
        setProblem(what);
      }
      running = undefined;
      plan(Math.min(Math.max(pace.current, wait), LONGEST_PAUSE));
    };
    const start = () => (running ??= run());
    const plan = (wait: number) => {
      clearTimeout(timer);
      if (!ended.signal.aborted && !document.hidden) timer = setTimeout(start, wait);
    };
    const seen = () => (document.hidden ? clearTimeout(timer) : void start());
    now.current = async () => {
      // A running request may be older than the wanted state.
      await running;
      await start();
    };
    replan.current = () => {
      if (running === undefined) plan(pace.current);
    };
    void start();
    document.addEventListener('visibilitychange', seen);
    return () => {
      ended.abort();
      clearTimeout(timer);
      document.removeEventListener('visibilitychange', seen);
    };
  }, []);

  // A shorter pause takes effect at once.
  useEffect(() => replan.current(), [pause]);

  return { problem, again: useCallback(() => now.current(), []) };
}
