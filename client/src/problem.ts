import type { operations } from './schema.js';

type Bodies<O> = O extends { responses: infer R } ? R[keyof R] : never;
type Problem = Extract<Bodies<operations[keyof operations]>, { content: { 'application/problem+json': unknown } }>;

/** Types of problems that belong to no route: `broken-off` is the last line of a body whose rest could not be read. */
type OfNoRoute = `urn:annals:problem:${'broken-off' | 'method-not-allowed' | 'not-found' | 'not-local'}`;

/** Types of the API's problems. `about:blank` is an error of something between client and server, such as a proxy. */
export type ProblemType = NonNullable<Problem['content']['application/problem+json']['type']> | OfNoRoute | 'about:blank';

/** An error of a call: a problem (RFC 9457). */
export class ProblemError extends Error {
  override name = 'ProblemError';

  private constructor(
    /** Stable, such as `urn:annals:problem:message-id-taken`. */
    readonly type: ProblemType,
    readonly status: number,
    readonly title: string,
    /** Cause in this request, and remedy. */
    readonly detail: string,
    /** The server's log lines have it as `xRequestId`. */
    readonly requestId: string | undefined,
    /** Seconds to wait before another try, if the server says so. */
    readonly retryAfter: number | undefined,
  ) {
    super(`${status} ${title}${detail && `: ${detail}`}`);
  }

  /** Reads the problem of an answer. */
  static async of(response: Response): Promise<ProblemError> {
    const text = await response.text();
    let body: Record<string, unknown> = {};
    try {
      body = JSON.parse(text);
    } catch {
      // Not the API's: the text is the detail.
    }
    const { type, title, detail, requestId } = body;
    const seconds = Number(response.headers.get('retry-after') ?? NaN);
    return new ProblemError(
      isOfAnnals(type) ? type : 'about:blank',
      response.status,
      typeof title === 'string' ? title : response.statusText,
      typeof detail === 'string' ? detail : text.slice(0, 500),
      typeof requestId === 'string' ? requestId : (response.headers.get('x-request-id') ?? undefined),
      Number.isFinite(seconds) ? seconds : undefined,
    );
  }

  /** Returns the problem that the last line of a body is if the server could not read the rest; `undefined` for another line. */
  static ofLine(line: unknown): ProblemError | undefined {
    const { type, status, title, detail } = (line ?? {}) as Record<string, unknown>;
    return isOfAnnals(type) ? new ProblemError(type, Number(status), String(title), String(detail), undefined, undefined) : undefined;
  }
}

function isOfAnnals(type: unknown): type is ProblemType {
  return typeof type === 'string' && type.startsWith('urn:annals:problem:');
}
