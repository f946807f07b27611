// Processor time of the page's main thread and of the program while somebody works with many chats and a long one, for
// bench/README.md. Processor time, since the time of day depends on what else the machine does.
import { execFile } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { launch, open, start, until } from './stage.mjs';

const CHATS = 2_000;
const MESSAGES = 110_000;
const LONG = 'web:room:dev:long';
const browser = await launch();

/** Returns `count` words, the same for the same `seed`. */
const words = (seed, count) => Array.from({ length: count }, (_, at) => 'beans tomato soil compost frost seed harvest ripe bed path rain market'.split(' ')[(seed * 7 + at * at) % 12]).join(' ');
const message = (chatKey, at, ts) => {
  const text = at % 2 ? `**${words(at, 2)}** ${words(at + 1, 25)}\n\n- ${words(at, 4)}\n- ${words(at + 3, 4)}` : words(at, 12);
  const needle = [1_000, MESSAGES - 400].includes(at) ? 'pomegranate ' : '';
  return { id: `m${at}`, role: at % 2 ? 'assistant' : 'user', parts: [{ type: 'text', text: needle + text }], metadata: { ts, chatKey, userId: 'ada' } };
};

/** Starts a program with `messages`. */
async function filled(messages) {
  const app = await start({ MEMORY: 'off' });
  const file = join(app.folder, 'messages.jsonl');
  writeFileSync(file, messages.map(one => JSON.stringify(one)).join('\n'));
  await promisify(execFile)(process.env.ANNALS_PROGRAM, ['import', file], { env: { ...process.env, ANNALS_DATA_DIR: app.folder }, maxBuffer: 1e9 });
  return app;
}

/** Milliseconds of processor time that a process has used. */
const used = pid => readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' ').slice(11, 13).reduce((sum, ticks) => sum + Number(ticks) * 10, 0);

/** Prints the processor time of a request: the mean of five, after one that is not counted. */
async function request(app, path) {
  await app.call('GET', path);
  const from = used(app.pid);
  for (let n = 0; n < 5; n++) await app.call('GET', path);
  console.log(`| program | \`GET ${path.slice(0, 60)}\` | ${(used(app.pid) - from) / 5} |  |`);
}

/** Prints the longest task of the page's main thread while `act` and the second after it run, and the number of requests. */
async function step(page, name, act) {
  let requests = 0;
  const count = () => (requests += 1);
  page.on('request', count);
  await browser.startTracing(page, { categories: ['toplevel', 'devtools.timeline'] });
  await act();
  await page.waitForTimeout(1_000);
  const { traceEvents } = JSON.parse((await browser.stopTracing()).toString());
  page.off('request', count);
  const main = new Set(traceEvents.filter(({ name, args }) => name === 'thread_name' && args.name === 'CrRendererMain').map(({ pid, tid }) => `${pid}/${tid}`));
  const tasks = traceEvents.filter(({ name, pid, tid, tdur }) => /RunTask/.test(name) && tdur && main.has(`${pid}/${tid}`));
  const longest = Math.max(0, ...tasks.map(({ tdur }) => tdur / 1000));
  console.log(`| page | ${name} | ${Math.round(longest)} | ${requests} |`);
}

console.log('| | | ms | requests |\n|---|---|---|---|');
const now = Date.now();
const many = await filled(Array.from({ length: CHATS }, (_, chat) => [0, 1].map(at => message(`telegram:chat:${chat}`, at, now - chat * 60_000 - 5_000 + at))).flat());
const list = await open(browser, 'about:blank');
const rows = list.page.locator('.chat-row');
const more = list.page.getByRole('button', { name: 'More chats' });
const next = async () => {
  const shown = await rows.count();
  await more.press('Enter');
  await rows.nth(shown).waitFor({ timeout: 60_000 });
};
await step(list.page, 'open the console, 2,000 chats', async () => (await list.page.goto(many.base), await rows.first().waitFor()));
await step(list.page, 'the next 50 chats', next);
while (await more.count()) await next();
await step(list.page, 'six seconds with all 2,000 in the list', () => list.page.waitForTimeout(5_000));
await step(list.page, 'open a chat', async () => (await rows.nth(1_000).click(), await list.page.locator('.bubble').first().waitFor()));
await step(list.page, 'filter the list', async () => (await list.page.getByRole('searchbox').first().fill('chat:1234'), await until('one is left', async () => (await rows.count()) <= 1)));
const at = path => list.page.goto(`${many.base}/#/${path}`);
await step(list.page, 'open Live', async () => (await at('live'), await list.page.locator('.events li').first().waitFor()));
await step(list.page, 'open Usage', async () => (await at('usage'), await list.page.getByText('the sums of').or(list.page.locator('.usage .empty')).first().waitFor({ timeout: 120_000 })));
await list.close();
await request(many, '/v1/usage?limit=25');
for (const query of ['limit=50', 'limit=50&context=true', 'limit=50&q=chat:1234', 'limit=50&state=failed']) await request(many, `/v1/chats?${query}`);
many.end();

const long = await filled(Array.from({ length: MESSAGES }, (_, at) => message(LONG, at, now - (MESSAGES - at) * 60_000)));
const { page, close } = await open(browser, long.base);
const entries = page.locator('.timeline [data-id]');
const earlier = async () => {
  const shown = await entries.count();
  await page.locator('.timeline').evaluate(box => (box.scrollTop = 0));
  await entries.nth(shown).waitFor({ timeout: 60_000 });
};
await page.locator('.chat-row').first().waitFor();
await step(page, 'open a chat of 110,000 messages', async () => (await page.locator('.chat-row').first().click(), await page.locator('.bubble').first().waitFor()));
while ((await entries.count()) < 2_000) await earlier();
await step(page, 'scroll up from 2,000 messages by 40', earlier);
await step(page, 'type a letter', () => page.locator('textarea').first().press('a'));
await step(page, 'open the details', () => page.evaluate(() => (location.hash += '/context')));
await page.locator('button[aria-label="Search this chat"]').click();
await step(page, 'search', async () => (await page.locator('.finder input').fill('pomegranate'), await page.keyboard.press('Enter'), await page.locator('.hit').first().waitFor({ timeout: 60_000 })));
await step(page, 'jump to a hit', async () => (await page.locator('.hit').first().click(), await page.locator('.is-hit').first().waitFor()));
await close();
const of = what => `/v1/chats/${encodeURIComponent(LONG)}${what}`;
for (const path of [of('/messages?limit=50'), of('/context'), of('/search?q=pomegranate&limit=20')]) await request(long, path);
long.end();
await browser.close();
