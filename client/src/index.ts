export { AnnalsClient, type ClientOptions } from './client.js';
export type { Message, MessagePart, Metadata } from './message.js';
export { ProblemError, type ProblemType } from './problem.js';
export type { components, operations, paths } from './schema.js';
export type { Exported } from './types.js';
