import { lines } from './lines.js';
import { ProblemError } from './problem.js';
import type { Line, LinesPath, Method, Options, PagesPath, PathOf, Rest, Result } from './types.js';

/** Address and key of a server. */
export interface ClientOptions {
  /** Such as `http://127.0.0.1:3000`, or `ApiUrl` of the deployed stack. */
  baseUrl: string;
  /** The secret of a key of `HTTP_API_KEYS`. */
  apiKey: string;
  /** Used instead of the global `fetch`. */
  fetch?: typeof fetch;
}

interface Call {
  path?: Record<string, unknown>;
  query?: Record<string, unknown>;
  body?: unknown;
  signal?: AbortSignal;
}

/** A client of the HTTP API. Each call returns the answer's body, and throws a `ProblemError` for any error. */
export class AnnalsClient {
  readonly #base: string;
  readonly #key: string;
  readonly #fetch: typeof fetch;

  constructor({ baseUrl, apiKey, fetch = globalThis.fetch }: ClientOptions) {
    this.#base = baseUrl.replace(/\/+$/, '');
    this.#key = apiKey;
    this.#fetch = fetch;
  }

  get<P extends PathOf<'get'>>(path: P, ...[options]: Rest<P, 'get'>): Promise<Result<P, 'get'>> {
    return this.#json('get', path, options);
  }

  post<P extends PathOf<'post'>>(path: P, ...[options]: Rest<P, 'post'>): Promise<Result<P, 'post'>> {
    return this.#json('post', path, options);
  }

  put<P extends PathOf<'put'>>(path: P, ...[options]: Rest<P, 'put'>): Promise<Result<P, 'put'>> {
    return this.#json('put', path, options);
  }

  patch<P extends PathOf<'patch'>>(path: P, ...[options]: Rest<P, 'patch'>): Promise<Result<P, 'patch'>> {
    return this.#json('patch', path, options);
  }

  delete<P extends PathOf<'delete'>>(path: P, ...[options]: Rest<P, 'delete'>): Promise<Result<P, 'delete'>> {
    return this.#json('delete', path, options);
  }

  /** Yields the pages of a list, following `before` from the newest page to the oldest; with `after` in the query, the pages from there to the newest. */
  async *pages<P extends PagesPath>(path: P, ...[options]: Rest<P, 'get'>): AsyncGenerator<Result<P, 'get'>, void> {
    let call: Call = { ...options };
    const cursor = call.query?.after == null ? 'before' : 'after';
    for (;;) {
      const page = await this.#json<Result<P, 'get'>>('get', path, call);
      yield page;
      const next = (page as { before: string | null; after?: string | null })[cursor];
      if (next == null) return;
      call = { ...call, query: { ...call.query, [cursor]: next } };
    }
  }

  /** Yields the objects of a path that gives one a line, as they arrive: a whole history, a segment, an export. */
  async *lines<P extends LinesPath>(path: P, options: Options<P, 'get'>): AsyncGenerator<Line<P>, void> {
    const response = await this.#send('get', path, options, 'application/x-ndjson');
    yield* lines<Line<P>>(response);
  }

  async #json<T>(method: Method, path: string, call?: Call): Promise<T> {
    const response = await this.#send(method, path, call, 'application/json');
    return (response.status === 204 ? undefined : await response.json()) as T;
  }

  async #send(method: Method, path: string, call: Call = {}, accept: string): Promise<Response> {
    const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => {
      const value = String(call.path?.[name]);
      // `fetch` would resolve it as a step of the path, also percent-encoded, and call another route.
      if (value === '.' || value === '..') throw new TypeError(`${name} cannot be "${value}" in a URL`);
      return encodeURIComponent(value);
    });
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries(call.query ?? {})) if (value != null) query.set(name, String(value));
    const search = String(query);
    const headers: Record<string, string> = { authorization: `Bearer ${this.#key}`, accept };
    if (call.body !== undefined) headers['content-type'] = 'application/json';
    // Read as a variable, since browsers refuse a `fetch` that is called as a method of something else.
    const send = this.#fetch;
    const response = await send(`${this.#base}${filled}${search && `?${search}`}`, {
      method: method.toUpperCase(),
      headers,
      ...(call.body === undefined ? {} : { body: JSON.stringify(call.body) }),
      ...(call.signal ? { signal: call.signal } : {}),
    });
    if (!response.ok) throw await ProblemError.of(response);
    return response;
  }
}
