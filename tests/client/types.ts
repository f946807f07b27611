// Calls that must, and must not, compile. Nothing here runs.
import type { UIMessage } from 'ai';
import type { AnnalsClient, Exported, Message, ProblemType } from '@annals/client';

declare const annals: AnnalsClient;
declare const message: Message;
const path = { chatId: 'a' };

export const taken: UIMessage = message;
export const sent = annals.post('/v1/messages', { body: { userId: 'ada', parts: message.parts } });
export const listed: Promise<UIMessage[]> = annals.get('/v1/chats/{chatId}/messages', { path }).then(page => page.messages);
export const hits: Promise<number[]> = annals.get('/v1/chats/{chatId}/search', { path, query: { q: 'a' } }).then(({ hits }) => hits.map(hit => hit.score));
export const gone: Promise<undefined> = annals.delete('/v1/memory/{id}', { path: { id: 'a' } });
export const reset = annals.post('/v1/chats/{chatId}/reset', { path });
export const due = (line: Exported): number | undefined => (line.type === 'schedule' ? line.schedule.nextAt : undefined);
export const ofNoRoute: ProblemType[] = ['urn:annals:problem:broken-off', 'urn:annals:problem:not-found', 'urn:annals:problem:method-not-allowed', 'urn:annals:problem:not-local'];
export const admin: Promise<boolean> = annals.get('/v1/key').then(key => key.admin);

// @ts-expect-error A result of another type.
export const wrong: Promise<string> = annals.get('/v1/key').then(key => key.admin);
// @ts-expect-error No such path.
annals.get('/v1/chat');
// @ts-expect-error A path without this method.
annals.post('/v1/key');
// @ts-expect-error Without what the path needs.
annals.get('/v1/chats/{chatId}');
// @ts-expect-error Without the query that is required.
annals.get('/v1/chats/{chatId}/search', { path });
// @ts-expect-error Without the body that is required.
annals.put('/v1/memory/{id}', { path: { id: 'a' } });
// @ts-expect-error A parameter of another type.
annals.get('/v1/chats/{chatId}/messages', { path, query: { limit: 'all' } });
// @ts-expect-error A path that has no pages.
annals.pages('/v1/chats/{chatId}/segments', { path });
// @ts-expect-error A path that gives no lines.
annals.lines('/v1/chats');
// @ts-expect-error An event stream, which the AI SDK reads.
annals.post('/api/chat', { body: { id: 'a' } });
