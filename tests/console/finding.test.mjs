// Finding: words in a chat, chats by their names and states, and names of one's own.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { AxeBuilder } from '@axe-core/playwright';
import { launch, open, private_, telegram, until, withModel } from './stage.mjs';

let browser, app, model, platform;
const LONG = 'http:chat:ops:long';
const MESSAGES = 120;

before(async () => {
  platform = await telegram();
  ({ app, model } = await withModel({ HTTP_API_KEYS: 'ops:ops-secret:admin', MEMORY: 'off', ...platform.settings }, 'ops-secret'));
  const post = `/v1/chats/${encodeURIComponent(LONG)}/messages`;
  for (let n = 1; n <= MESSAGES; n++) {
    // The model repeats what it answers, and so what is far up is answered before the rest.
    const [text, wait] = n === 3 ? ['the marmalade is in the cellar', '?wait=20'] : [`Line ${n}`, ''];
    await app.call('POST', post + wait, { userId: 'ada', text, messageId: `m${n}` });
  }
  await until('all are answered', async () => (await app.call('GET', `/v1/chats/${encodeURIComponent(LONG)}`)).body.pendingTurn === null);
  await app.say('web:room:ops:garden', 'beans');
  await app.say('web:room:ops:kitchen', 'soup');
  platform.blockedBy.add(42);
  await app.telegram(private_(42, 1, 'are you there?', 'Mei'), 's3cret');
  await until('the delivery has failed', async () => (await app.history('telegram:chat:42')).some(({ metadata }) => metadata.deliveryFailure));
  browser = await launch();
});
after(async () => {
  await browser?.close();
  app?.end();
  platform?.end();
});

async function at(url, use, options) {
  const { page, complaints, close } = await open(browser, url, { reducedMotion: 'reduce', ...options });
  try {
    await page.getByLabel('API key').fill('ops-secret');
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
const rows = page => page.locator('.chat-row .title').allInnerTexts();

test('a search in a chat lists hits, and a hit is shown in its place', async () => {
  await at(app.url(LONG), async page => {
    await page.getByText(`Line ${MESSAGES}`).first().waitFor();
    assert.equal(await page.getByText('marmalade').count(), 0, 'it is far up');
    // The first search, which reads the indexes, is made while one types.
    const first = page.waitForResponse(response => response.url().endsWith('/search?q=a&limit=1'));
    await page.getByRole('button', { name: 'Search this chat' }).click();
    assert.equal((await first).status(), 200);
    const finder = page.getByRole('search', { name: 'Search this chat' });
    await finder.getByRole('searchbox').fill('marmalade');
    await page.keyboard.press('Enter');
    await finder.locator('mark').first().waitFor();
    assert.equal(await finder.locator('mark').first().innerText(), 'marmalade');
    await sound(page, 'hits');
    await finder.getByRole('button', { name: /^ada .* the marmalade is in the cellar/ }).click();
    const hit = page.locator('.timeline .is-hit .bubble.user');
    await hit.getByText('the marmalade is in the cellar').waitFor();
    await until('it is scrolled to', () => hit.evaluate(bubble => {
      const [own, box] = [bubble.getBoundingClientRect(), bubble.closest('.timeline').getBoundingClientRect()];
      return own.top >= box.top && own.bottom <= box.bottom;
    }));
    // It stays there while the chat goes on.
    await app.say(LONG, 'news');
    await page.locator('.timeline').getByText('news').first().waitFor({ state: 'attached' });
    assert(await hit.evaluate(bubble => bubble.getBoundingClientRect().bottom > 0));
    await finder.getByRole('searchbox').fill('nobody said this');
    await page.keyboard.press('Enter');
    await finder.getByText('Nobody said').waitFor();
    await page.route('**/search?**', route => route.fulfill({ json: { hits: [], partial: true } }));
    await page.keyboard.press('Enter');
    await finder.getByText('Not all of the history was searched').waitFor();
    assert.equal(await finder.getByText('Nobody said').count(), 0);
    await finder.getByRole('button', { name: 'Close the search' }).click();
    await finder.waitFor({ state: 'detached' });
  });
});

test('a hit that is too far back is shown with what was said around it', async () => {
  await at(app.url(LONG), async page => {
    await page.getByText(`Line ${MESSAGES}`).first().waitFor();
    const said = (text, at) => ({ id: `old-${at}`, role: 'user', parts: [{ type: 'text', text }], metadata: { ts: at, kind: 'normal', messageId: `old-${at}`, userId: 'ada', channel: 'http', chatId: 'long', chatKey: LONG } });
    await page.route('**/search?**', route => route.fulfill({ json: { hits: [{ message: said('long ago', 2000), score: 1, context: [said('before it', 1000), said('after it', 3000)] }], partial: false } }));
    await page.getByRole('button', { name: 'Search this chat' }).click();
    const finder = page.getByRole('search', { name: 'Search this chat' });
    await finder.getByRole('searchbox').fill('ago');
    await page.keyboard.press('Enter');
    await finder.getByRole('button', { name: /long ago/ }).click();
    await finder.getByText('too far back').waitFor();
    assert.deepEqual(await finder.locator('.said').allInnerTexts(), ['before it', 'long ago', 'after it']);
    assert.equal(await finder.locator('.is-hit').innerText().then(text => text.split('\n')[0]), 'long ago');
    await finder.getByRole('button', { name: 'All hits' }).click();
    await finder.getByRole('button', { name: /long ago/ }).waitFor();
  });
});

test('the list is narrowed by words and by state', async () => {
  await at(app.base, async page => {
    await until('all are listed', async () => (await rows(page)).length === 4);
    const field = page.getByRole('searchbox', { name: 'Find chats' });
    await field.fill('mei');
    await until('one is left', async () => (await rows(page)).join() === 'Mei');
    await field.fill('kitchen');
    await until('another is left', async () => (await rows(page)).join() === 'soup');
    await field.fill('no such thing');
    await page.getByText('No chat fits.').waitFor();
    await page.getByRole('heading', { name: 'Choose a chat' }).waitFor();
    await field.fill('');
    await until('all are back', async () => (await rows(page)).length === 4);
    const which = page.getByRole('combobox', { name: 'Which chats' });
    await which.selectOption('failed');
    await until('the failed one is left', async () => (await rows(page)).join() === 'Mei');
    await sound(page, 'filtered');
    await app.say('web:room:ops:shop', 'refund A1');
    await which.selectOption('waiting for approval');
    await until('the waiting one is left', async () => (await rows(page)).length === 1 && (await page.locator('.chat-row').getAttribute('href')).includes('shop'));
    await which.selectOption('all');
    await until('all are back', async () => (await rows(page)).length === 5);
    // What the list has not loaded is found, too.
    await page.keyboard.press('Control+k');
    await page.getByRole('combobox', { name: /^A name/ }).fill('telegram:chat:42');
    await page.getByRole('listbox').getByRole('option').filter({ hasText: 'Mei' }).waitFor();
  });
});

test('a chat has a title, and can be given another', async () => {
  await at(app.url('web:room:ops:garden'), async page => {
    await page.getByRole('heading', { name: 'beans' }).waitFor();
    const sent = [];
    page.on('request', request => request.method() === 'PATCH' && sent.push(request.url()));
    await page.getByRole('button', { name: 'Rename' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Save' }).click();
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    assert.deepEqual(sent, [], 'a title that was not changed stays automatic');
    await page.getByRole('button', { name: 'Rename' }).click();
    await page.getByRole('dialog').getByRole('textbox', { name: 'Title of the chat' }).fill('The garden in spring');
    await sound(page, 'renaming');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'The garden in spring' }).waitFor();
    await until('the list has it', async () => (await rows(page)).includes('The garden in spring'));
    assert.equal(await page.title(), 'The garden in spring · Annals');
    await page.getByRole('button', { name: 'Rename' }).click();
    await page.getByRole('dialog').getByRole('textbox', { name: 'Title of the chat' }).fill('');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'beans' }).waitFor();
  });
});

for (const colorScheme of ['light', 'dark']) {
  test(`on a narrow screen: the search and the filter, ${colorScheme}`, async () => {
    await at(app.url(LONG), async page => {
      await page.getByText(`Line ${MESSAGES}`).first().waitFor();
      await page.getByRole('button', { name: 'Search this chat' }).click();
      const finder = page.getByRole('search', { name: 'Search this chat' });
      await finder.getByRole('searchbox').fill('marmalade');
      await page.keyboard.press('Enter');
      await finder.locator('.hit').first().waitFor();
      await sound(page, 'hits');
      await page.getByRole('link', { name: 'All chats' }).click();
      await page.getByRole('searchbox', { name: 'Find chats' }).fill('mei');
      await until('one is left', async () => (await rows(page)).length === 1);
      await sound(page, 'filtered');
    }, { colorScheme, size: [390, 844], hasTouch: true });
  });
}
