import { ProblemError } from './problem.js';

/** Reads a body of one JSON value a line. Throws the problem of a body that breaks off. Leaving the loop early ends the request. */
export async function* lines<T>(response: Response): AsyncGenerator<T, void> {
  if (response.body === null) return;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      const pieces = (rest + value).split('\n');
      rest = pieces.pop() ?? '';
      for (const line of pieces) if (line !== '') yield parsed<T>(line);
    }
    if (rest !== '') yield parsed<T>(rest);
  } finally {
    await reader.cancel().catch(() => {});
  }
}

function parsed<T>(line: string): T {
  const value: unknown = JSON.parse(line);
  const problem = ProblemError.ofLine(value);
  if (problem) throw problem;
  return value as T;
}
