// Operators: a chat is taken over, written to as the bot, and handed back.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { AxeBuilder } from '@axe-core/playwright';
import { launch, open, private_, telegram, until, withModel } from './stage.mjs';

const CHAT = 'telegram:chat:42';
let browser, app, platform;

before(async () => {
  platform = await telegram();
  const keys = { HTTP_API_KEYS: 'ops:ops-secret:admin', MEMORY: 'off', DELIVERY_PACING: 'false' };
  ({ app } = await withModel({ ...keys, ...platform.settings }, 'ops-secret'));
  await app.telegram(private_(42, 1, 'hello', 'Mei'), 's3cret');
  await until('it is answered', () => platform.sent.length === 1);
  browser = await launch();
});
after(async () => {
  await browser?.close();
  app?.end();
  platform?.end();
});

async function at(use, options) {
  const { page, complaints, close } = await open(browser, app.url(CHAT), { reducedMotion: 'reduce', ...options });
  try {
    await page.locator('input[type=password]').fill('ops-secret');
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
