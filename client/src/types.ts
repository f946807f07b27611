// Types of a call, derived from those of the API.
import type { Message } from './message.js';
import type { components, paths } from './schema.js';

/** HTTP methods of the API. */
export type Method = 'get' | 'post' | 'put' | 'patch' | 'delete';
type Operation<P extends keyof paths, M extends Method> = paths[P][M];
type Content<O, Type extends string> = O extends { responses: infer R }
  ? { [S in keyof R]: S extends 200 | 202 ? (R[S] extends { content: Record<Type, infer Body> } ? Body : never) : never }[keyof R]
  : never;

/** Body of a success: undefined for a 204, never for an event stream, which the AI SDK reads. */
export type Result<P extends keyof paths, M extends Method> =
  Content<Operation<P, M>, 'text/event-stream'> extends infer Stream
    ? [Stream] extends [never]
      ? Content<Operation<P, M>, 'application/json'> | (Operation<P, M> extends { responses: { 204: unknown } } ? undefined : never)
      : never
    : never;

/** Paths that have a method with a JSON answer. */
export type PathOf<M extends Method> = {
  [P in keyof paths]: Operation<P, M> extends { responses: unknown } ? ([Result<P, M>] extends [never] ? never : P) : never;
}[keyof paths];
/** Paths that give one JSON object a line. */
export type LinesPath = { [P in keyof paths]: [Content<Operation<P, 'get'>, 'application/x-ndjson'>] extends [never] ? never : P }[keyof paths];
/** Paths that give pages: those with a cursor `before`. */
export type PagesPath = { [P in PathOf<'get'>]: Result<P, 'get'> extends { before: string | null } ? P : never }[PathOf<'get'>];

/** One line of a person's export. */
export type Exported =
  | { type: 'person'; [key: string]: unknown }
  | { type: 'memory'; id: string; markdown: string }
  | { type: 'schedule'; chatKey: string; schedule: components['schemas']['Schedule'] }
  | { type: 'message'; message: Message };
/** One line of a path. */
export type Line<P extends LinesPath> = P extends '/v1/people/{id}/export' ? Exported : Message;

type Given<Name extends string, T> = [T] extends [never]
  ? { [K in Name]?: never }
  : {} extends T
    ? { [K in Name]?: T }
    : { [K in Name]: T };
type Parameter<O, In extends string> = O extends { parameters: Record<In, infer T> } ? T : O extends { parameters: { [K in In]?: infer T } } ? T : never;
type Body<O> = O extends { requestBody: { content: { 'application/json': infer T } } }
  ? { body: T }
  : O extends { requestBody?: { content: { 'application/json': infer T } } }
    ? { body?: T }
    : { body?: never };

/** Parameters of a call: those of its path and query, and its body. */
export type Options<P extends keyof paths, M extends Method> = Given<'path', NonNullable<Parameter<Operation<P, M>, 'path'>>> &
  Given<'query', NonNullable<Parameter<Operation<P, M>, 'query'>>> &
  Body<Operation<P, M>> & { signal?: AbortSignal };
/** The options, which may be left out if none is required. */
export type Rest<P extends keyof paths, M extends Method> = {} extends Options<P, M>
  ? [options?: Options<P, M>]
  : [options: Options<P, M>];
