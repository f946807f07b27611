// Many chats and long histories: what is asked for and rendered does not grow with them.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { launch, open, start, until } from './stage.mjs';

const CHATS = 2000;
const MESSAGES = 600;
const LONG = 'web:room:dev:long';
let browser, app;

before(async () => {
  app = await start({ MEMORY: 'off' });
  const first = Date.now() - MESSAGES * 60_000;
  const lines = Array.from({ length: MESSAGES }, (_, at) =>
    JSON.stringify({
      id: `m${at}`, role: at % 2 ? 'assistant' : 'user', parts: [{ type: 'text', text: `Line ${at}${'\n\nand more'.repeat(at % 4)}` }],
      metadata: { ts: first + at * 60_000, chatKey: LONG, userId: 'ada' },
    }),
  );
  const file = join(app.folder, 'long.jsonl');
  writeFileSync(file, lines.join('\n'));
  await promisify(execFile)(process.env.ANNALS_PROGRAM, ['import', file], { env: { ...process.env, ANNALS_DATA_DIR: app.folder } });
  browser = await launch();
});
after(async () => {
  await browser?.close();
  app?.end();
});

/** Counts the elements that the browser lays out. */
const laidOut = (page, what) =>
  page.locator(what).evaluateAll(found => found.filter(one => one.checkVisibility({ contentVisibilityAuto: true })).length);

test('with 2,000 chats each page is asked for once, and only rows near the screen are laid out', async () => {
  // Entries like the real one, in the order of the list.
  const real = (await app.call('GET', '/v1/chats')).body.chats[0];
  const entry = at => ({ ...real, chatKey: `telegram:chat:${at}`, title: `Chat ${at}`, lastInteractionAt: real.lastInteractionAt - at * 1000 });
  let chats = Array.from({ length: CHATS }, (_, at) => entry(at + 1));
  const asked = [];
  const { page, complaints, close } = await open(browser, app.base);
  await page.route(url => url.pathname === '/v1/chats', route => {
    const query = new URL(route.request().url()).searchParams;
    const before = query.get('before');
    asked.push(before);
    const from = before === null ? 0 : chats.findIndex(chat => chat.lastInteractionAt < Number(before));
    const shown = chats.slice(from, from + Number(query.get('limit')));
    const isLast = from + shown.length >= chats.length;
    return route.fulfill({ json: { chats: shown, before: isLast ? null : String(shown.at(-1).lastInteractionAt) } });
  });
  await page.reload();
  const rows = page.locator('.chat-row');
  const titles = () => page.locator('.chat-row .title').allTextContents();
  const more = page.getByRole('button', { name: 'More chats' });
  await rows.first().waitFor();
  for (let shown = 50; shown < CHATS; shown += 50) {
    assert.equal(await rows.count(), shown);
    await more.press('Enter');
    await until(`${shown + 50} rows are there`, async () => (await rows.count()) === shown + 50);
  }
  assert.equal(await more.count(), 0);
  assert.deepEqual(await titles(), chats.map(chat => chat.title));
  await page.locator('.chats').evaluate(list => (list.scrollTop = 0));
  await until('few rows are laid out', async () => (await laidOut(page, '.chat-row')) < 100);

  // A message far down moves its chat to the top, and a chat that is deleted leaves.
  const moved = { ...chats[1500], lastInteractionAt: real.lastInteractionAt + 1000 };
  chats = [moved, ...chats.filter((chat, at) => at !== 1500 && at !== 3)];
  await until('the list follows', async () => (await titles())[0] === moved.title);
  assert.deepEqual(await titles(), chats.map(chat => chat.title));
  const polls = asked.length;
  await until('it is asked for again', () => asked.length >= polls + 2);
  const further = asked.filter(before => before !== null);
  assert.deepEqual([further.length, new Set(further).size], [CHATS / 50 - 1, CHATS / 50 - 1]);
  assert.deepEqual(complaints, []);
  await close();
});

test('scrolling up a long history keeps the place, and lays out only what is near the screen', async () => {
  const { page, complaints, close } = await open(browser, app.url(LONG));
  const entries = page.locator('.timeline > ol > [data-id]');
  await entries.first().waitFor();
  const place = id => page.evaluate(id => document.querySelector(`[data-id="${id}"]`).getBoundingClientRect().top, id);
  for (let shown = 40; shown < MESSAGES; shown += 40) {
    const first = await entries.first().getAttribute('data-id');
    // Read in the same task as it is scrolled, before earlier messages are there.
    const was = await page.evaluate(id => {
      document.querySelector('.timeline').scrollTop = 0;
      return document.querySelector(`[data-id="${id}"]`).getBoundingClientRect().top;
    }, first);
    await until('earlier messages are there', async () => (await entries.count()) >= shown + 40);
    const isMoved = Math.abs((await place(first)) - was);
    // The line that says that they are loaded, and the day, are all that may come and go above it.
    assert(isMoved < 80, `${first} moved by ${isMoved} pixels`);
  }
  assert.equal(await entries.count(), MESSAGES);
  await until('few entries are laid out', async () => (await laidOut(page, '.timeline > ol > [data-id] .bubble')) < 100);

  // What has been skipped has the height that it had.
  const heights = () => entries.evaluateAll(all => all.map(one => one.getBoundingClientRect().height));
  const skipped = await heights();
  await entries.evaluateAll(all => all.forEach(one => (one.style.contentVisibility = 'visible')));
  assert.deepEqual(await heights(), skipped);
  assert.deepEqual(complaints, []);
  await close();
});
