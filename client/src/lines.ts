/** Reads a body of one JSON value a line. Leaving the loop early ends the request. */
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
      for (const line of pieces) if (line !== '') yield JSON.parse(line) as T;
    }
    if (rest !== '') yield JSON.parse(rest) as T;
  } finally {
    await reader.cancel().catch(() => {});
  }
}
