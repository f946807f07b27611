// Operators: a chat is taken over, written to as the bot, and handed back; tokens and money.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { AxeBuilder } from '@axe-core/playwright';
import { launch, open, private_, telegram, until, withModel } from './stage.mjs';

const CHAT = 'telegram:chat:42';
let browser, app, platform;

before(async () => {
  platform = await telegram();
  const keys = { HTTP_API_KEYS: 'app:app-secret,ops:ops-secret:admin', MEMORY: 'off', DELIVERY_PACING: 'false' };
  let model;
  ({ app, model } = await withModel({ ...keys, MODEL_PRICES: 'openai:garden-1=2/8/0.5', ...platform.settings }, 'ops-secret'));
  model.counts = { prompt_tokens: 1000, completion_tokens: 200, prompt_tokens_details: { cached_tokens: 400 } };
  await app.telegram(private_(42, 1, 'hello', 'Mei'), 's3cret');
  await until('it is answered', () => platform.sent.length === 1);
  browser = await launch();
});
after(async () => {
  await browser?.close();
  app?.end();
  platform?.end();
});

async function at(use, { secret = 'ops-secret', url = app.url(CHAT), ...options } = {}) {
  const { page, complaints, close } = await open(browser, url, { reducedMotion: 'reduce', ...options });
  try {
    await page.locator('input[type=password]').fill(secret);
    await page.keyboard.press('Enter');
    await page.locator('.console').waitFor();
    await use(page);
    assert.deepEqual(complaints, []);
  } finally {
    await close();
  }
}
const sound = async (page, what) => {
  const { violations } = await new AxeBuilder({ page }).analyze();
  assert.deepEqual(violations.map(({ id, nodes }) => [what, id, nodes.map(({ html }) => html)]), []);
  assert(!(await page.evaluate(() => document.documentElement.scrollWidth > innerWidth)), `${what}: nothing is wider than the screen`);
};

test('an operator takes a chat over, answers on the platform as the bot, and hands it back', async () => {
  await at(async page => {
    await page.getByRole('button', { name: 'Take over' }).click();
    await page.getByText('You (ops) have this chat.').waitFor();
    await page.getByText('ops took the chat over').waitFor();
    await page.locator('.chat-row').getByText('with ops').waitFor();
    await app.telegram(private_(42, 2, 'Where is my parcel?', 'Mei'), 's3cret');
    await page.locator('.timeline').getByText('Where is my parcel?').waitFor();
    assert.equal(await page.getByLabel('Speaking as').count(), 0);
    const box = page.getByLabel('Write to Mei as the bot');
    await box.fill('It leaves today.');
    await box.press('Enter');
    await until('Telegram has it', () => platform.sent.at(-1).text === 'It leaves today.');
    const said = page.getByRole('article', { name: 'By ops' });
    await said.getByText('operator').waitFor();
    await until('it is shown once', async () => (await said.count()) === 1 && !(await said.innerText()).includes('sending'));
    await sound(page, 'taken over');
    await page.getByRole('button', { name: 'Hand back' }).click();
    await page.getByText('ops handed the chat back').waitFor();
    await page.getByRole('button', { name: 'Take over' }).waitFor();
    await page.getByText('Stored and answered here').waitFor();
    assert.equal(platform.sent.length, 2, 'nothing was left to answer');
  });
});

test('what another operator has is said, also in Chinese, in the dark and on a phone', async () => {
  const chat = encodeURIComponent(CHAT);
  await app.call('PUT', `/v1/chats/${chat}/takeover`, { operator: 'Grace' });
  await at(async page => {
    await page.getByText('Grace 已接管此聊天。').waitFor();
    await page.locator('.timeline').getByText('ops 接管了聊天').waitFor();
    assert.equal(await page.getByLabel('以机器人身份写给 Mei').count(), 0, 'the box is not the bot’s');
    await sound(page, 'dark and narrow');
    await page.getByRole('button', { name: '交还' }).click();
    await page.getByText('Grace 交还了聊天').waitFor();
  }, { locale: 'zh-CN', colorScheme: 'dark', size: [390, 800] });
});

test('in Chinese, an operator takes a chat over, writes as the bot, and hands it back', async () => {
  await at(async page => {
    await page.getByRole('button', { name: '接管' }).click();
    await page.getByText('你（ops）已接管此聊天。').waitFor();
    const box = page.getByLabel('以机器人身份写给 Mei');
    await box.fill('明天送到。');
    await page.getByRole('button', { name: '发送' }).click();
    await until('Telegram has it', () => platform.sent.at(-1).text === '明天送到。');
    await page.getByRole('article', { name: 'ops' }).last().getByText('人工').waitFor();
    await sound(page, 'written as the bot');
    await page.getByRole('button', { name: '交还' }).click();
    await page.getByRole('button', { name: '接管' }).waitFor();
    await page.locator('.timeline').getByText('ops 交还了聊天').last().waitFor();
  }, { locale: 'zh-CN' });
});

test('what is typed for the person is not sent to the bot when the chat is handed back elsewhere', async () => {
  const takeover = `/v1/chats/${encodeURIComponent(CHAT)}/takeover`;
  await app.call('PUT', takeover, { operator: 'ops' });
  await at(async page => {
    const asBot = page.getByLabel('Write to Mei as the bot');
    await asBot.fill('It leaves');
    await app.call('DELETE', takeover);
    const toBot = page.getByRole('textbox', { name: 'Message Mei' });
    assert.equal(await toBot.inputValue(), '');
    await app.call('PUT', takeover, { operator: 'ops' });
    assert.equal(await asBot.inputValue(), 'It leaves');
    await app.call('DELETE', takeover);
    await toBot.waitFor();
  });
});

/** The rows of the table, each as its cells, and the last one with the totals. */
const numbers = page => page.locator('.numbers tbody tr, .numbers tfoot tr').evaluateAll(rows => rows.map(({ cells }) => [...cells].map(cell => cell.innerText)));

test('tokens and money are added up over pages, as numbers, as a plot and as CSV', async () => {
  for (const text of ['hello', 'and lunch?']) await app.say('web:room:ops:kitchen', text);
  await app.say('http:chat:app:garden', 'hello');
  await app.title('http:chat:app:garden', 'garden');
  await at(async page => {
    const asked = [];
    // A chat a page: real pages, of which the browser gets many.
    await page.route('**/v1/usage?**', route => {
      const url = route.request().url();
      asked.push(url);
      return route.continue({ url: url.replace('limit=25', 'limit=1') });
    });
    await page.getByRole('link', { name: 'Usage' }).click();
    await page.getByRole('heading', { name: 'Usage' }).waitFor();
    const plot = page.getByRole('img', { name: /^Tokens by day/ });
    await plot.waitFor();
    for (const width of [1000, 1440]) {
      await page.setViewportSize({ width, height: 900 });
      const [brand, first] = await Promise.all([page.locator('.brand a'), page.locator('.side .bar .button').first()].map(one => one.boundingBox()));
      const last = await page.locator('.side .bar .button').last().boundingBox();
      const side = await page.locator('.side').boundingBox();
      assert(brand.x + brand.width <= first.x && last.x + last.width <= side.x + side.width, `${width}: no icon is over the name, nor over the edge`);
    }
    await page.getByRole('button', { name: 'Save as CSV', disabled: false }).waitFor();
    const today = new Date().toISOString().slice(0, 10);
    assert.deepEqual((await numbers(page))[0][0], today);
    assert.equal(await plot.locator('rect').count(), 1);

    await page.getByLabel('Rows').selectOption('person');
    await page.getByRole('rowheader', { name: 'telegram-42' }).waitFor();
    await page.getByRole('button', { name: 'Save as CSV', disabled: false }).waitFor();
    const ofAda = (await numbers(page)).find(([name]) => name === 'ada');
    assert.deepEqual(ofAda, ['ada', '3', '3,000', '1,200', '600', '0.009000'], 'the sum of two chats, on two pages');
    await page.getByLabel('Rows').selectOption('key');
    await page.getByRole('rowheader', { name: 'app', exact: true }).waitFor();
    await page.getByRole('button', { name: 'Save as CSV', disabled: false }).waitFor();
    const rows = await numbers(page);
    assert.deepEqual(rows.find(([name]) => name === 'ops'), ['ops', '2', '2,000', '800', '400', '0.006000']);
    assert.deepEqual(rows.find(([name]) => name === 'app'), ['app', '1', '1,000', '400', '200', '0.003000']);
    const elsewhere = Number(rows.find(([name]) => name === 'not by a key')[1]);
    assert.deepEqual(rows.at(-1).slice(0, 3), ['Total', `${3 + elsewhere}`, `${3 + elsewhere},000`]);
    assert(asked.filter(url => url.includes('by=key')).length >= 3, 'every page was read');

    await page.getByLabel('Rows').selectOption('model');
    await page.getByRole('rowheader', { name: 'openai:garden-1' }).waitFor();
    await page.getByRole('button', { name: 'Save as CSV', disabled: false }).waitFor();
    assert.equal((await numbers(page))[0][1], `${3 + elsewhere}`, 'one row of all pages');

    await page.getByLabel('Rows').selectOption('chat');
    await page.getByRole('rowheader', { name: 'garden' }).waitFor();
    await page.getByRole('button', { name: 'Save as CSV', disabled: false }).waitFor();
    await page.getByLabel('Bars and order').selectOption('cost');
    const bars = page.getByRole('img', { name: /^Cost by chat, .*Largest: / });
    const widths = await bars.locator('rect').evaluateAll(all => all.map(bar => bar.getAttribute('width')));
    assert(widths.length === 3 && widths[0] === '100%' && parseFloat(widths[2]) < 100, `${widths}`);
    const saved = page.waitForEvent('download');
    await page.getByRole('button', { name: 'Save as CSV' }).click();
    const file = await saved;
    assert.match(file.suggestedFilename(), new RegExp(`^usage-chat-\\d{4}-\\d\\d-\\d\\d-${today}\\.csv$`));
    const lines = readFileSync(await file.path(), 'utf8').split('\r\n');
    assert.equal(lines[0], 'name,replies,inputTokens,outputTokens,cachedInputTokens,cost,unpricedReplies');
    assert(lines.includes('"http:chat:app:garden",1,1000,200,400,0.003,0') && lines.length === 5 && lines[4] === '', `${lines}`);
    await sound(page, 'light and wide');
    if (process.env.SHOTS) await page.screenshot({ path: `${process.env.SHOTS}/usage-chat.png` });
    await page.getByLabel('Rows').selectOption('day');
    await page.getByRole('rowheader', { name: today }).waitFor();
    if (process.env.SHOTS) await page.screenshot({ path: `${process.env.SHOTS}/usage-day.png` });
  });
});

test('a reply without a price and a chat that is too long are said, in Chinese, in the dark and on a phone', async () => {
  await app.say('http:chat:app:garden', 'hello');
  await app.title('http:chat:app:garden', 'garden');
  await at(async page => {
    await page.route('**/v1/usage?**', async route => {
      const response = await route.fetch();
      const body = await response.json();
      const rows = body.rows.map(row => ({ ...row, unpricedReplies: 1 }));
      await route.fulfill({ response, json: { ...body, rows, cut: ['http:chat:app:garden'] } });
    });
    await page.getByLabel('时段').selectOption('7');
    await page.getByRole('img', { name: /^按天的token/ }).waitFor();
    await page.getByText('没有 1 条回复所用模型的价格').waitFor();
    await page.getByText('garden在这个时段内只统计了').waitFor();
    assert.match((await numbers(page)).at(-1)[5], /^≥ 0\.\d+/);
    await sound(page, 'dark and narrow');
    await page.getByLabel('行', { exact: true }).selectOption('chat');
    await page.getByRole('link', { name: 'garden' }).waitFor();
    await sound(page, 'chats, dark and narrow');
    if (process.env.SHOTS) await page.screenshot({ path: `${process.env.SHOTS}/usage-zh.png` });
  }, { url: `${app.base}/#/usage`, locale: 'zh-CN', colorScheme: 'dark', size: [390, 800] });
});

test('forty pages of chats are added up, and further ones when that is asked for', async () => {
  await at(async page => {
    let asked = 0;
    const row = { name: 'garden', replies: 1, inputTokens: 10, outputTokens: 2, cachedInputTokens: 0, cost: 0.5, unpricedReplies: 0 };
    await page.route('**/v1/usage?**', route => {
      const before = new URL(route.request().url()).searchParams.get('before');
      assert.equal(before, asked === 0 ? null : `${asked}`);
      asked += 1;
      return route.fulfill({ json: { rows: [row], cut: [], before: asked < 45 ? `${asked}` : null } });
    });
    await page.getByRole('link', { name: 'Usage' }).click();
    await page.getByText('the sums of the 1,000 chats with the latest messages').waitFor();
    assert.equal(asked, 40);
    assert.deepEqual((await numbers(page)).at(-1).slice(0, 2), ['Total', '40']);
    await page.locator('main').getByRole('button', { name: 'More chats' }).click();
    await until('all are added up', async () => (await numbers(page)).at(-1)[1] === '45');
    assert.deepEqual([asked, await page.getByText('the chats with the latest messages').count()], [45, 0]);
  });
});

test('a key that is no admin’s is told so, and nothing is asked', async () => {
  await at(async page => {
    let asked = 0;
    page.on('request', request => (asked += request.url().includes('/v1/usage') ? 1 : 0));
    await page.getByText('This page is for admin keys.').waitFor();
    assert.deepEqual([asked, await page.getByRole('link', { name: 'Usage' }).count()], [0, 0]);
  }, { url: `${app.base}/#/usage`, secret: 'app-secret' });
});
