// The client, as it is packed, against the running program.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { AnnalsClient, ProblemError } from '@annals/client';
import { program } from './world.mjs';

const data = mkdtempSync(join(tmpdir(), 'annals-client-'));
let annals, served;
before(async () => {
  served = await program(process.env.ANNALS_PROGRAM, data, { HTTP_API_KEYS: 'app:s3cret:admin' });
  annals = new AnnalsClient({ baseUrl: `${served.base}/`, apiKey: 's3cret' });
});
after(() => {
  served?.end();
  rmSync(data, { recursive: true, force: true });
});

const all = async items => {
  const found = [];
  for await (const item of items) found.push(item);
  return found;
};

test('the package has the API\'s version, and no file that is not for its users', async () => {
  const { version } = JSON.parse(readFileSync('node_modules/@annals/client/package.json', 'utf8'));
  assert.equal((await annals.get('/openapi.json')).info.version, version);
  const files = readdirSync('node_modules/@annals/client', { recursive: true }).sort();
  const made = ['client', 'index', 'lines', 'message', 'problem', 'schema', 'types'].flatMap(name => [`dist/${name}.d.ts`, `dist/${name}.js`]);
  assert.deepEqual(files, ['LICENSE-APACHE', 'LICENSE-MIT', 'README.md', 'dist', ...made.sort(), 'package.json']);
});

test("the README's example runs as it is printed", async () => {
  const env = { ...process.env, ANNALS_URL: served.base, ANNALS_KEY: 's3cret' };
  const { stdout } = await promisify(execFile)(process.execPath, ['example.js'], { env });
  assert.match(stdout, /^annals: hello\nhello\nhello\nuser \d+\nassistant \d+\ntaken: .+\n$/);
});

test('pages and lines give every message once, whatever is in ids and texts', async () => {
  const path = { chatId: 'a/b ?#%é {id}' };
  const texts = Array.from({ length: 5 }, (_, at) => `line ${at}\n"日本" 🫘`);
  for (const [at, text] of texts.entries()) await annals.post('/v1/chats/{chatId}/messages', { path, query: { wait: 20 }, body: { userId: 'ada', messageId: `m${at}`, text } });
  const pages = await all(annals.pages('/v1/chats/{chatId}/messages', { path, query: { limit: 3 } }));
  const paged = pages.reverse().flatMap(page => page.messages);
  const listed = await all(annals.lines('/v1/chats/{chatId}/messages', { path }));
  assert.equal(pages.length, 4);
  assert.deepEqual(paged, listed);
  const [oldest] = pages;
  const onward = await all(annals.pages('/v1/chats/{chatId}/messages', { path, query: { limit: 3, after: oldest.after } }));
  assert.deepEqual([oldest, ...onward].flatMap(page => page.messages), listed);
  assert.deepEqual(listed.filter(message => message.role === 'user').map(message => message.parts[0].text), texts);

  for await (const message of annals.lines('/v1/chats/{chatId}/messages', { path })) {
    assert.equal(message.id, 'm0');
    break;
  }
  const { chats } = await annals.get('/v1/chats', { query: { q: 'a/b' } });
  assert.deepEqual(chats.map(chat => chat.lastMessage.id), ['m4/reply']);
  await annals.patch('/v1/chats/{chatId}', { path, body: { title: 'Beans' } });
  assert.equal((await annals.get('/v1/chats/{chatId}', { path })).title, 'Beans');
  assert.equal((await annals.delete('/v1/chats/{chatId}', { path })).removed.records > 0, true);
  assert.deepEqual(await all(annals.lines('/v1/chats/{chatId}/messages', { path })), []);
});

test('a memory entry is corrected and deleted, and a person exported', async () => {
  await annals.post('/v1/messages', { query: { wait: 20 }, body: { userId: 'mei', text: 'hello' } });
  const exported = await all(annals.lines('/v1/people/{id}/export', { path: { id: 'mei' } }));
  assert.deepEqual(exported.map(line => line.type), ['person', 'message', 'message']);
  assert.deepEqual((await annals.get('/v1/memory', { query: { userId: 'mei' } })).memories, []);
  await assert.rejects(annals.delete('/v1/memory/{id}', { path: { id: 'none' } }), { type: 'urn:annals:problem:no-entry', status: 404 });
});

test('an error is a problem, of the API or of a proxy', async () => {
  const stranger = new AnnalsClient({ baseUrl: served.base, apiKey: 'wrong' });
  const refused = await stranger.get('/v1/key').catch(error => error);
  assert(refused instanceof ProblemError);
  assert.deepEqual([refused.type, refused.status], ['urn:annals:problem:unauthorized', 401]);
  assert.match(refused.requestId, /^req_/);
  await assert.rejects(all(annals.lines('/v1/people/{id}/export', { path: { id: '' } })), ProblemError);

  const proxy = createServer((_, response) => response.writeHead(503, { 'retry-after': '7' }).end('<h1>down</h1>')).listen(0, '127.0.0.1');
  await new Promise(resolve => proxy.once('listening', resolve));
  const away = new AnnalsClient({ baseUrl: `http://127.0.0.1:${proxy.address().port}`, apiKey: 'a' });
  const down = await away.get('/health').catch(error => error);
  assert.deepEqual([down.type, down.status, down.detail, down.retryAfter], ['about:blank', 503, '<h1>down</h1>', 7]);
  proxy.close();

  await assert.rejects(annals.get('/v1/key', { signal: AbortSignal.abort() }), { name: 'AbortError' });
});

test('an id that a URL cannot have reaches no other route', async () => {
  for (const chatId of ['.', '..']) await assert.rejects(annals.delete('/v1/chats/{chatId}', { path: { chatId } }), { name: 'TypeError', message: `chatId cannot be "${chatId}" in a URL` });
});

test('a query is sent also by a runtime that does not know its size', async () => {
  const size = Object.getOwnPropertyDescriptor(URLSearchParams.prototype, 'size');
  delete URLSearchParams.prototype.size;
  try {
    const called = [];
    const fetch = async url => (called.push(url), Response.json({}));
    const old = new AnnalsClient({ baseUrl: 'http://old', apiKey: 'a', fetch });
    await old.get('/v1/chats', { query: { q: 'a b' } });
    await old.get('/v1/chats');
    assert.deepEqual(called, ['http://old/v1/chats?q=a+b', 'http://old/v1/chats']);
  } finally {
    Object.defineProperty(URLSearchParams.prototype, 'size', size);
  }
});

test('lines that break off end in a problem', async () => {
  const broken = '{"id":"m0"}\n{"type":"urn:annals:problem:broken-off","title":"The answer breaks off here","status":500,"detail":"again"}\n';
  const half = new AnnalsClient({ baseUrl: 'http://half', apiKey: 'a', fetch: async () => new Response(broken) });
  const read = half.lines('/v1/chats/{chatId}/messages', { path: { chatId: 'a' } });
  assert.deepEqual((await read.next()).value, { id: 'm0' });
  const problem = await read.next().catch(error => error);
  assert(problem instanceof ProblemError);
  assert.deepEqual([problem.type, problem.status, problem.detail], ['urn:annals:problem:broken-off', 500, 'again']);
});
