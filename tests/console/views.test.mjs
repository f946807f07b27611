// What the console looks like to whom: keys, narrow screens, the keyboard, light and dark, what assistive tools find.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { AxeBuilder } from '@axe-core/playwright';
import { launch, open, private_, start, telegram, until } from './stage.mjs';

let browser, app, platform;
const CHAT = 'http:chat:app:talk';
const ROOM = 'web:room:ops:kitchen';
const MESSAGES = 70;

before(async () => {
  platform = await telegram();
  app = await start({ HTTP_API_KEYS: 'app:app-secret,ops:ops-secret:admin', CONTEXT_WINDOW: '1500', KEEP_RECENT: '4', ...platform.settings }, 'ops-secret');
  browser = await launch();
  const post = `/v1/chats/${encodeURIComponent(CHAT)}/messages`;
  for (let n = 1; n <= MESSAGES; n++) await app.call('POST', post, { userId: 'ada', text: `Line ${n} of what was said`, messageId: `m${n}` });
  await until('all are answered', async () => (await app.call('GET', `/v1/chats/${encodeURIComponent(CHAT)}`)).body.pendingTurn === null);
  await app.call('POST', `/v1/chats/${encodeURIComponent(CHAT)}/compact?wait=20`, { userId: 'ada' });
  await app.say(ROOM, '- [preference] likes soup\n\nWhat is for dinner?');
  await app.call('POST', `/v1/chats/${encodeURIComponent(ROOM)}/reset`, { userId: 'ada' });
  await app.say(ROOM, 'And for lunch?');
  await app.title(ROOM, 'kitchen');
  platform.blockedBy.add(42);
  await app.telegram(private_(42, 1, 'are you there?'), 's3cret');
  await until('the delivery has failed', async () => (await app.history('telegram:chat:42')).some(({ metadata }) => metadata.deliveryFailure));
});
after(async () => {
  await browser?.close();
  app?.end();
  platform?.end();
});

/** A window that is signed in with `key`. */
async function as(key, url, use, options) {
  const { page, complaints, close } = await open(browser, url, options);
  try {
    await signIn(page, key);
    await use(page);
    assert.deepEqual(complaints, []);
  } finally {
    await close();
  }
}
async function signIn(page, key) {
  await page.getByLabel('API key').fill(key);
  await page.keyboard.press('Enter');
  await page.getByRole('navigation', { name: 'Chats' }).waitFor();
}
const texts = page => page.locator('.timeline .bubble.user .said').allTextContents();

test('a wrong key is told, a right one is kept for the tab, and one that ends asks anew', async () => {
  const { page, complaints, close } = await open(browser, app.base);
  await page.getByLabel('API key').fill('wrong');
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('alert').getByText('This key is not known here').waitFor();
  await signIn(page, 'ops-secret');
  await page.getByRole('link', { name: /kitchen/ }).waitFor();
  await page.reload();
  await page.getByRole('link', { name: /kitchen/ }).waitFor();
  assert.equal(await page.evaluate(() => localStorage.length + document.cookie.length), 1, 'the theme alone outlives the tab');
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByLabel('API key').waitFor();
  assert.equal(await page.evaluate(() => sessionStorage.length), 0);
  await page.evaluate(() => sessionStorage.setItem('annals-key', 'no longer known'));
  await page.reload();
  await page.getByLabel('API key').waitFor();
  assert.deepEqual(complaints, []);
  await close();
});

test('a key that is no admin’s opens its own conversations', async () => {
  await as('app-secret', app.base, async page => {
    await page.getByText('sees its own conversations alone').waitFor();
    await page.getByLabel('Open a conversation by its id').fill('talk');
    await page.keyboard.press('Enter');
    await page.getByText(`Line ${MESSAGES} of`).first().waitFor();
    await page.getByRole('textbox', { name: 'Message' }).fill('one more');
    await page.keyboard.press('Enter');
    await page.locator('.bubble.assistant').filter({ hasText: 'one more' }).waitFor();
    assert.equal((await app.history(CHAT)).at(-1).parts[0].text, 'one more');
  });
});

test('a delivery that failed is shown with its reason', async () => {
  await as('ops-secret', app.base, async page => {
    const row = page.getByRole('link', { name: /^Ada/ });
    await row.getByText('Not delivered: Forbidden: bot was blocked by the user').waitFor();
    await row.click();
    await page.locator('.bubble .failure').getByText('Forbidden: bot was blocked by the user').waitFor();
    await page.getByText('Telegram takes nothing for this chat').waitFor();
  });
});

test('earlier pages come as one scrolls up, none twice and none missing', async () => {
  await as('ops-secret', app.url(CHAT), async page => {
    await page.getByText(`Line ${MESSAGES} of`).first().waitFor();
    assert((await texts(page)).length < MESSAGES);
    await until('all are loaded', async () => {
      await page.locator('.timeline').evaluate(box => box.scrollTo(0, 0));
      return (await texts(page)).some(text => /^Line 1 of/.test(text));
    });
    const lines = (await texts(page)).filter(text => text.startsWith('Line'));
    assert.deepEqual(lines, Array.from({ length: MESSAGES }, (_, n) => `Line ${n + 1} of what was said`));
    const first = page.getByText('Line 1 of').first();
    await page.locator('.timeline').evaluate(box => box.scrollTo(0, 0));
    await first.waitFor();
    // What comes meanwhile does not take the reader away.
    await app.say(CHAT, 'news');
    await until('it is there', async () => (await texts(page)).includes('news'));
    assert(await page.locator('.timeline').evaluate(box => box.scrollTop < 400));
  });
});

test('on a narrow screen the list, the chat and its details are a screen each', async () => {
  await as('ops-secret', app.base, async page => {
    const row = page.getByRole('link', { name: /^kitchen/ });
    await row.click();
    await page.locator('.timeline').getByText('And for lunch?').first().waitFor();
    assert(!(await row.isVisible()));
    assert(!(await page.getByRole('meter').isVisible()));
    await page.getByRole('link', { name: 'Details' }).click();
    await page.getByRole('meter').waitFor();
    assert(!(await page.getByRole('textbox', { name: 'Message' }).isVisible()));
    await page.getByRole('button', { name: 'Forget…' }).first().waitFor();
    await page.getByRole('tab', { name: 'Memory' }).click();
    await page.goBack();
    await page.getByRole('meter').waitFor();
    await page.getByRole('link', { name: 'Back to the chat' }).click();
    await page.getByRole('textbox', { name: 'Message' }).waitFor();
    await page.getByRole('link', { name: 'All chats' }).click();
    await row.waitFor();
    const overflows = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
    assert(!overflows, 'nothing is wider than the screen');
  }, { size: [390, 844], hasTouch: true });
});

test('all can be done by the keyboard', async () => {
  await as('ops-secret', app.base, async page => {
    await page.getByRole('link', { name: /^kitchen/ }).waitFor();
    const focused = () => page.evaluate(() => document.activeElement?.getAttribute('aria-label') ?? document.activeElement?.textContent ?? '');
    const tabTo = async (what, key = 'Tab') => {
      for (let presses = 0; presses < 60; presses++) {
        if (what.test(await focused())) return;
        await page.keyboard.press(key);
      }
      assert.fail(`no ${what} by ${key}, but ${await focused()}`);
    };
    await tabTo(/^kitchen/);
    await page.keyboard.press('Enter');
    await page.locator('.timeline').getByText('And for lunch?').first().waitFor();
    await until('the focus is on the chat’s heading', async () => (await focused()) === 'kitchen');
    await tabTo(/^Message kitchen/);
    await page.keyboard.type('by hand');
    await page.keyboard.press('Shift+Enter');
    await page.keyboard.type('two lines');
    await page.keyboard.press('Enter');
    await page.locator('.bubble.assistant').filter({ hasText: 'by hand' }).waitFor();
    assert.equal((await app.history(ROOM)).at(-1).parts.find(part => part.type === 'text').text, 'by hand\ntwo lines');
    await tabTo(/^Context/);
    await page.keyboard.press('ArrowRight');
    await page.keyboard.press('ArrowRight');
    await page.getByLabel('Of whom').waitFor();
    assert.match(page.url(), /\/memory$/);
    await tabTo(/^Forget…/, 'Shift+Tab');
    await page.keyboard.press('Enter');
    await page.getByRole('alertdialog').waitFor();
    await tabTo(/^Forget everything/);
    await page.keyboard.press('Escape');
    await page.getByRole('alertdialog').waitFor({ state: 'detached' });
    await until('the focus is where it came from', async () => (await focused()) === 'Forget…');
    assert.notEqual((await app.history(ROOM)).length, 0);
  });
});

test('light and dark: as the system is, and by the switch', async () => {
  const isDark = page => page.evaluate(() => Number(/\d+/.exec(getComputedStyle(document.body.querySelector('.side, .signin .card')).backgroundColor)[0]) < 80);
  for (const colorScheme of ['light', 'dark']) {
    await as('ops-secret', app.base, async page => {
      assert.equal(await isDark(page), colorScheme === 'dark');
      for (const now of ['light', 'dark', 'system']) {
        await page.getByRole('button', { name: /^Colours/ }).click();
        assert.equal(await isDark(page), now === 'system' ? colorScheme === 'dark' : now === 'dark', now);
      }
    }, { colorScheme });
  }
});

/** Each view, by what one does to see it. */
const VIEWS = {
  async 'no chat chosen'() {},
  async chat(page) {
    await page.goto(app.url(CHAT));
    await page.getByText(`Line ${MESSAGES} of`).first().waitFor();
    await page.getByRole('button', { name: /^Summary/ }).first().click();
  },
  async 'a chat that cannot be reached'(page) {
    await page.goto(app.url('telegram:chat:42'));
    await page.locator('.bubble .failure').waitFor();
  },
  async archive(page) {
    await page.goto(app.url(CHAT, 'segments'));
    await page.getByRole('searchbox', { name: 'Search the archive' }).fill('line 3');
    await page.keyboard.press('Enter');
    await page.locator('mark').first().waitFor();
  },
  async segment(page) {
    const [{ id }] = await app.segments(CHAT);
    await page.goto(app.url(CHAT, `segments/${id}`));
    await page.locator('.archived .bubble').first().waitFor();
  },
  async memory(page) {
    await page.goto(app.url(ROOM, 'memory'));
    await page.getByRole('button', { name: 'Edit' }).first().click();
    await page.getByRole('button', { name: 'Save' }).waitFor();
  },
  async 'a question'(page) {
    await page.goto(app.url(ROOM));
    await page.getByRole('button', { name: 'Forget…' }).first().click();
    await page.getByRole('alertdialog').waitFor();
  },
  async 'an empty chat'(page) {
    await page.goto(app.url('web:room:ops:nobody'));
    await page.getByText('Nothing was said here yet').waitFor();
  },
  async outbox(page) {
    await page.goto(`${app.base}/#/outbox`);
    await page.getByText('Nothing was to be sent yet').waitFor();
  },
  async live(page) {
    await page.goto(`${app.base}/#/live`);
    await page.locator('.event.notDelivered').first().waitFor();
  },
  async 'what is wrong'(page) {
    await page.route('**/v1/chats**', route =>
      route.fulfill({ status: 503, contentType: 'application/problem+json', body: '{"type":"urn:annals:problem:unreadable","title":"The history cannot be read","status":503,"detail":"ask again","requestId":"req_1"}' }),
    );
    await page.goto(app.url(ROOM));
    await page.getByRole('alert').getByText('The history cannot be read').first().waitFor();
  },
};

for (const colorScheme of ['light', 'dark']) {
  test(`axe finds nothing, ${colorScheme}`, async () => {
    const found = [];
    const look = async (page, what) => {
      const axe = new AxeBuilder({ page }).options({ resultTypes: ['violations'] });
      // All else is the same in the dark.
      if (colorScheme === 'dark') axe.withRules(['color-contrast']);
      const { violations } = await axe.analyze();
      found.push(...violations.map(({ id, nodes }) => `${what}: ${id}\n${nodes.map(node => `${node.html.slice(0, 160)} ${node.failureSummary}`).join('\n')}`));
    };
    for (const size of [[1440, 900], [390, 844]]) {
      // Without fades: what comes while axe looks would be seen halfway to its colour.
      const { page, complaints, close } = await open(browser, app.base, { colorScheme, size, reducedMotion: 'reduce' });
      await page.getByLabel('API key').waitFor();
      await look(page, 'sign in');
      await signIn(page, 'ops-secret');
      for (const [name, show] of Object.entries(VIEWS)) {
        // What a narrow screen has in the same way needs no second look.
        if (size[0] < 500 && !['no chat chosen', 'chat', 'memory'].includes(name)) continue;
        await show(page);
        await look(page, `${name} ${size[0]}`);
        await page.keyboard.press('Escape');
      }
      assert.deepEqual(complaints, []);
      await close();
    }
    assert.deepEqual(found, []);
  });
}

test('who was refused is named, so that they can be let in', async () => {
  const one = await start({ ALLOW_FROM: 'telegram-1' });
  await one.telegram(private_(43, 1, 'the words of a stranger', 'Mallory'));
  const { page, complaints, close } = await open(browser, one.base);
  await page.getByRole('heading', { name: 'Refused' }).waitFor();
  const refused = page.getByRole('listitem').filter({ hasText: 'telegram-43' });
  assert.match(await refused.innerText(), /telegram-43 \(Mallory\) in telegram:chat:43/);
  assert.doesNotMatch(await page.content(), /words of a stranger/);
  assert.deepEqual(complaints, []);
  await close();
  one.end();
});

test('a program that ends is told of', async () => {
  const one = await start();
  const { page, close } = await open(browser, one.base);
  await page.getByRole('heading', { name: 'Nothing has been said yet' }).waitFor();
  one.end();
  await page.getByRole('alert').getByText('Is the program still running?').waitFor();
  await close();
});
