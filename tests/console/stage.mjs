// What the tests and the screenshots have around the page: programs, a Telegram, a browser that notes what goes wrong.
import { createServer } from 'node:http';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { chromium } from 'playwright-core';
import { Model, program, shop } from './world.mjs';

/** A program with a data directory of its own, and its API as `key` sees it. */
export async function start(settings = {}, key = 'dev') {
  const folder = mkdtempSync(join(tmpdir(), 'annals-console-'));
  const run = more => program(process.env.ANNALS_PROGRAM, folder, { REPLY_QUIET: '0', ...settings, ...more });
  let { base, pid, end } = await run({});
  const headers = { Authorization: `Bearer ${key}` };
  const call = async (method, path, body) => {
    const json = body && { 'content-type': 'application/json' };
    const response = await fetch(base + path, { method, headers: { ...headers, ...json }, body: body && JSON.stringify(body) });
    const text = await response.text();
    return { status: response.status, body: text && JSON.parse(text) };
  };
  const of = (chat, what) => `/v1/chats/${encodeURIComponent(chat)}/${what}`;
  const app = {
    base,
    folder,
    pid,
    call,
    say: (chat, text, more = {}) => call('POST', `${of(chat, 'messages')}?wait=20`, { userId: 'ada', text, messageId: crypto.randomUUID(), ...more }),
    history: async chat => (await call('GET', `${of(chat, 'messages')}?limit=200`)).body.messages,
    /** Gives a chat a title. */
    title: (chat, title) => call('PATCH', `/v1/chats/${encodeURIComponent(chat)}`, { title }),
    context: async chat => (await call('GET', of(chat, 'context'))).body,
    segments: async chat => (await call('GET', of(chat, 'segments'))).body.segments,
    memory: async userId => (await call('GET', `/v1/memory?userId=${userId}`)).body.memories,
    telegram: (update, secret = 'dev-telegram-secret') =>
      fetch(`${base}/telegram`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'x-telegram-bot-api-secret-token': secret },
        body: JSON.stringify(update),
      }),
    url: (chat, view = '') => `${base}/#/chat/${encodeURIComponent(chat)}${view && `/${view}`}`,
    /** Ends the program; `back` starts it again at the same address. */
    down() {
      end();
      return { back: async () => ({ end } = await run({ ANNALS_PORT: new URL(base).port })) };
    },
    end() {
      end();
      rmSync(folder, { recursive: true, force: true });
    },
  };
  return app;
}

/** A program with a model that can be held, and a shop to buy from. */
export async function withModel(settings = {}, key = 'dev') {
  const model = await Model.start();
  const { server, refunds, settings: tools } = await shop();
  const app = await start({ MODEL: 'openai:garden-1', MODEL_BASE_URL: model.url, MODEL_API_KEY: 'k', TOOLS: tools, ...settings }, key);
  const end = app.end;
  app.end = () => (end(), model.server.close(), model.server.closeAllConnections(), server.close(), server.closeAllConnections());
  return { app, model, refunds };
}

/** Holds `model` in the middle of its next answer: `there` once it is, until `release`. */
export function held(model, words = 3) {
  let release, reached, said = 0;
  const gate = new Promise(resolve => (release = resolve));
  const there = new Promise(resolve => (reached = resolve));
  model.pause = async () => {
    if (++said === words) {
      reached();
      await gate;
    }
  };
  return { there, release: () => ((model.pause = async () => {}), release()) };
}

/** A Telegram that keeps what it takes, and takes nothing for the chats that have blocked the bot. */
export async function telegram() {
  const sent = [], blockedBy = new Set();
  const server = createServer(async (request, response) => {
    let body = '';
    for await (const piece of request) body += piece;
    const { chat_id, text } = body ? JSON.parse(body) : {};
    const method = request.url.split('/').at(-1);
    const answer = (status, json) => response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(json));
    if (method === 'getMe') return answer(200, { ok: true, result: { id: 7, is_bot: true, first_name: 'Annals', username: 'annals_bot' } });
    if (method === 'sendMessage' && blockedBy.has(chat_id)) {
      return answer(403, { ok: false, error_code: 403, description: 'Forbidden: bot was blocked by the user' });
    }
    if (method === 'sendMessage') {
      sent.push({ chat_id, text });
      return answer(200, { ok: true, result: { message_id: 1000 + sent.length, date: 1, chat: { id: chat_id, type: 'private' }, text } });
    }
    answer(200, { ok: true, result: true });
  });
  await new Promise(resolve => server.listen(0, '127.0.0.1', resolve));
  const settings = {
    TELEGRAM_BOT_TOKEN: '7:AAtest', TELEGRAM_WEBHOOK_SECRET: 's3cret', TELEGRAM_API_BASE: `http://127.0.0.1:${server.address().port}`,
  };
  return { sent, blockedBy, settings, end: () => (server.close(), server.closeAllConnections()) };
}

/** What a person says to the bot on Telegram. */
export const private_ = (id, number, text, name = 'Ada', date = Math.floor(Date.now() / 1000)) => ({
  update_id: 1000 * id + number,
  message: {
    message_id: number, date, text, chat: { id, type: 'private', first_name: name },
    from: { id, is_bot: false, first_name: name },
  },
});

export const launch = () => chromium.launch({ executablePath: process.env.CHROME, args: process.getuid?.() === 0 ? ['--no-sandbox'] : [] });

/** Takes the console from the folder that ANNALS_CONSOLE names, with the program's headers: a change needs no new program. */
async function fromFolder(context, url) {
  const folder = process.env.ANNALS_CONSOLE;
  if (!folder) return;
  const of = path => join(folder, path === '/' ? 'index.html' : path.slice('/console/'.length));
  await context.route(
    ({ origin, pathname }) => origin === new URL(url).origin && (pathname === '/' || pathname.startsWith('/console/')),
    async route => {
      const { pathname } = new URL(route.request().url());
      const own = await (await fetch(new URL('/', url))).headers;
      const contentType = { js: 'text/javascript', css: 'text/css' }[pathname.split('.').at(-1)] ?? 'text/html; charset=utf-8';
      const headers = { 'content-security-policy': own.get('content-security-policy'), 'content-type': contentType };
      await route.fulfill({ body: readFileSync(of(pathname), 'utf8'), headers });
    },
  );
}

/** A window, which notes what the page complains of: errors of its own, what its policy forbids, calls to elsewhere. */
export async function open(browser, url, { size = [1440, 900], ...options } = {}) {
  const context = await browser.newContext({ viewport: { width: size[0], height: size[1] }, locale: 'en-GB', ...options });
  await fromFolder(context, url);
  const page = await context.newPage();
  page.setDefaultTimeout(30_000);
  const complaints = [];
  page.on('pageerror', error => complaints.push(String(error)));
  page.on('console', message => {
    // A browser notes each refusal itself.
    if (['error', 'warning'].includes(message.type()) && !/Failed to load resource/.test(message.text())) complaints.push(message.text());
  });
  page.on('request', request => {
    if (!request.url().startsWith(new URL(url).origin) && !/^(data|blob):/.test(request.url())) complaints.push(`asks ${request.url()}`);
  });
  await page.goto(url);
  const close = async () => {
    await page.unrouteAll({ behavior: 'ignoreErrors' });
    await context.close();
  };
  return { page, complaints, close };
}

/** The box in which a person writes to the bot. */
export const box = page => page.getByRole('textbox', { name: /^(Message|Say something)/ });

export async function until(what, look) {
  for (let looks = 0; looks < 300; looks++) {
    const found = await look();
    if (found) return found;
    await new Promise(resolve => setTimeout(resolve, 50));
  }
  throw new Error(`in vain waited until ${what}`);
}
