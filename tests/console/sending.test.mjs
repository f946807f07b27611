// What somebody types is not lost: while the program is down, over a reload, and while an answer is on its way.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { AxeBuilder } from '@axe-core/playwright';
import { box, held, launch, open, until, withModel } from './stage.mjs';

let browser, app, model;

before(async () => {
  ({ app, model } = await withModel());
  browser = await launch();
});
after(async () => {
  await browser?.close();
  app?.end();
});

async function at(url, use, options) {
  const { page, complaints, close } = await open(browser, url, options);
  try {
    await use(page);
    assert.deepEqual(complaints, []);
  } finally {
    await close();
  }
}
const type = async (page, text) => {
  await box(page).fill(text);
  await box(page).press('Enter');
};
const bubbles = page => page.locator('.bubble');
const answered = (page, text) => page.locator('.bubble.assistant').filter({ hasText: text }).last().waitFor();
const room = name => `web:room:dev:${name}`;
const said = async chat => (await app.history(chat)).filter(({ role }) => role === 'user').map(({ parts }) => parts[0].text);

for (const [kind, chat] of [['a room', room('boat')], ['a conversation of the API', 'http:chat:dev:boat']]) {
  test(`what is typed while the program is down is sent later, once: ${kind}`, async () => {
    await app.say(chat, 'is the boat in?');
    await at(app.url(chat), async page => {
      await answered(page, 'to: is the boat in?');
      const program = app.down();
      await type(page, 'and the ferry?');
      const failed = page.locator('.bubble.user').filter({ hasText: 'and the ferry?' });
      await failed.getByText(/Not sent\. No answer\. .* does not answer/).waitFor();
      await failed.getByRole('button', { name: 'Try again' }).click();
      await failed.getByText('Not sent.').waitFor();
      assert.equal(await box(page).inputValue(), '');
      await program.back();
      await page.reload();
      await failed.getByText(/Not sent\. The server had not confirmed it/).waitFor();
      await answered(page, 'to: is the boat in?');
      await failed.getByRole('button', { name: 'Try again' }).click();
      await answered(page, 'to: and the ferry?');
      await failed.getByText('Not sent.').waitFor({ state: 'detached' });
      assert.equal(await failed.count(), 1);
      assert.deepEqual(await said(chat), ['is the boat in?', 'and the ferry?']);
      await page.reload();
      await answered(page, 'to: and the ferry?');
      assert.equal(await failed.count(), 1);
      assert.equal(await page.getByText('Not sent.').count(), 0);
    });
  });
}

test('the first message of a new chat is found again, and can be discarded', async () => {
  await at(app.base, async page => {
    await page.locator('.chat-row').first().waitFor();
    const program = app.down();
    await type(page, 'anybody there?');
    await bubbles(page).getByText('Not sent.').waitFor();
    const chat = decodeURIComponent(new URL(page.url()).hash.split('/')[2]);
    await program.back();
    await page.getByRole('link', { name: 'Annals', exact: true }).click();
    await page.getByRole('navigation', { name: 'Chats' }).getByText('Not sent:').getByRole('link', { name: /^console-/ }).click();
    await bubbles(page).getByText('anybody there?').waitFor();
    await page.getByRole('button', { name: 'Discard' }).click();
    await bubbles(page).waitFor({ state: 'detached' });
    assert.deepEqual(await app.history(chat), []);
    await page.getByRole('link', { name: 'Annals', exact: true }).click();
    await page.getByRole('heading', { name: 'Choose a chat' }).waitFor();
    assert.equal(await page.getByText('Not sent:').count(), 0);
  });
});

test('a message whose confirmation is lost is there once', async () => {
  const chat = room('lost');
  await app.say(chat, 'hello');
  await at(app.url(chat), async page => {
    await answered(page, 'to: hello');
    // The program gets it, and the page does not hear of that.
    await page.route('**/api/chat', async route => {
      await route.fetch().catch(() => {});
      await route.abort();
    }, { times: 1 });
    await type(page, 'lost and found');
    await answered(page, 'to: lost and found');
    await page.getByText('Not sent.').waitFor({ state: 'detached' });
    assert.equal(await bubbles(page).filter({ hasText: /^lost and found/ }).count(), 1);
    assert.deepEqual(await said(chat), ['hello', 'lost and found']);
    assert.equal(await page.evaluate(() => Object.keys(sessionStorage).filter(key => key.startsWith('annals-unsent')).length), 0);
  });
});

test('a message that is on its way when one leaves the chat is sent or can be sent again', async () => {
  for (const name of ['here', 'there']) {
    await app.say(room(name), 'hello');
    await app.title(room(name), name);
  }
  await at(app.url(room('here')), async page => {
    await answered(page, 'to: hello');
    let release;
    const held = new Promise(resolve => (release = resolve));
    await page.route('**/api/chat', async route => {
      await held;
      await route.abort().catch(() => {});
    }, { times: 1 });
    await type(page, 'slow as a snail');
    const bubble = page.locator('.bubble.user').filter({ hasText: 'slow as a snail' });
    await bubble.getByText('sending').waitFor();
    await page.getByRole('link', { name: /^there/ }).click();
    await page.getByRole('heading', { name: 'there' }).waitFor();
    await page.getByText('Not sent:').getByRole('link', { name: 'here' }).click();
    await bubble.waitFor();
    release();
    await bubble.getByRole('button', { name: 'Try again' }).click();
    await answered(page, 'to: slow as a snail');
    assert.deepEqual(await said(room('here')), ['hello', 'slow as a snail']);
  });
});

test('a message that waits for the one before it when one leaves the chat is listed, and not sent unasked', async () => {
  const chat = 'http:chat:dev:quick';
  await app.say(chat, 'hello');
  await at(app.url(chat), async page => {
    await answered(page, 'to: hello');
    let release;
    const first = new Promise(resolve => (release = resolve));
    await page.route('**/messages', async route => {
      await first;
      await route.continue();
    }, { times: 1 });
    await type(page, 'one by one');
    await type(page, 'and then two');
    await bubbles(page).getByText('and then two').waitFor();
    await page.getByRole('link', { name: 'Annals', exact: true }).click();
    const link = page.getByText('Not sent:').getByRole('link');
    await link.waitFor();
    release();
    await until('the first is stored', async () => (await said(chat)).includes('one by one'));
    await link.click();
    const second = page.locator('.bubble.user').filter({ hasText: 'and then two' });
    await second.getByText('Not sent.').waitFor();
    assert.deepEqual(await said(chat), ['hello', 'one by one']);
    await second.getByRole('button', { name: 'Try again' }).click();
    await answered(page, 'to: and then two');
    assert.deepEqual(await said(chat), ['hello', 'one by one', 'and then two']);
  });
});

test('over plain HTTP from another machine, messages are sent, and nothing offers to copy', async () => {
  await at(app.url(room('plain')), async page => {
    await page.addInitScript(() => {
      delete Crypto.prototype.randomUUID;
      delete Navigator.prototype.clipboard;
    });
    await page.reload();
    await type(page, 'peas');
    await answered(page, 'to: peas');
    assert.equal(await page.getByRole('button', { name: /^Copy/ }).count(), 0);
  });
});

test('drafts are kept for each chat, over a reload', async () => {
  await app.say(room('left'), 'hello');
  await app.say(room('right'), 'hello');
  for (const name of ['left', 'right']) await app.title(room(name), name);
  await at(app.url(room('left')), async page => {
    await answered(page, 'to: hello');
    await box(page).fill('half a thought');
    await page.getByRole('link', { name: /^right/ }).click();
    await page.getByRole('heading', { name: 'right' }).waitFor();
    assert.equal(await box(page).inputValue(), '');
    await box(page).fill('另一半');
    await page.reload();
    await page.getByRole('heading', { name: 'right' }).waitFor();
    assert.equal(await box(page).inputValue(), '另一半');
    await page.getByRole('link', { name: /^left/ }).click();
    await page.getByRole('heading', { name: 'left' }).waitFor();
    assert.equal(await box(page).inputValue(), 'half a thought');
    await box(page).press('Enter');
    await answered(page, 'to: half a thought');
    await page.reload();
    await answered(page, 'to: half a thought');
    assert.equal(await box(page).inputValue(), '');
  });
});

test('the Enter that ends a word of an input method sends nothing, also in Safari', async () => {
  await at(app.url(room('input')), async page => {
    await box(page).fill('豌豆');
    // As Safari sends it, after the end of the composition.
    await box(page).evaluate(box => box.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', keyCode: 229, bubbles: true, cancelable: true })));
    assert.equal(await box(page).inputValue(), '豌豆');
    await box(page).press('Enter');
    await answered(page, 'to: 豌豆');
  });
});

test('Enter while an answer streams sends, and both are answered in their places', async () => {
  const chat = room('both');
  await app.say(chat, 'hello');
  await at(app.url(chat), async page => {
    await answered(page, 'to: hello');
    const gate = held(model);
    await type(page, 'tell me of peas');
    await gate.there;
    await page.getByRole('button', { name: 'Stop' }).waitFor();
    await type(page, 'and of leeks');
    await until('it is stored', async () => (await said(chat)).includes('and of leeks'));
    await until('the answer stands by its question', async () => /to:/.test(await bubbles(page).nth(3).innerText()));
    assert.match(await bubbles(page).last().innerText(), /and of leeks/);
    gate.release();
    await answered(page, 'to: tell me of peas');
    await answered(page, 'to: and of leeks');
    await page.getByRole('button', { name: 'Stop' }).waitFor({ state: 'detached' });
    const shown = await until('all are there', async () => {
      const shown = await page.locator('.bubble .said').allInnerTexts();
      return shown.length === 6 && shown.map(text => text.trim().replace(/^Answer \d+/, 'Answer'));
    });
    assert.deepEqual(shown.slice(2), ['tell me of peas', 'Answer to: tell me of peas', 'and of leeks', 'Answer to: and of leeks']);
  });
});

test('who signs out with something unsent is asked first', async () => {
  const { app: other } = await withModel({ HTTP_API_KEYS: 'ops:ops-secret:admin' });
  try {
    await at(other.base, async page => {
      await page.getByLabel('API key').fill('ops-secret');
      await page.keyboard.press('Enter');
      await page.getByRole('heading', { name: 'Nothing has been said yet' }).waitFor();
      await page.route('**/api/chat', route => route.abort());
      await type(page, 'secret words');
      await page.getByText('Not sent.').waitFor();
      await page.getByRole('button', { name: 'Sign out' }).click();
      await page.getByRole('alertdialog').getByRole('button', { name: 'Cancel' }).click();
      await page.getByText('Not sent.').waitFor();
      await page.getByRole('button', { name: 'Sign out' }).click();
      await page.getByRole('alertdialog').getByRole('button', { name: 'Sign out' }).click();
      await page.getByLabel('API key').waitFor();
      assert.equal(await page.evaluate(() => sessionStorage.length), 0);
    });
  } finally {
    other.end();
  }
});

for (const colorScheme of ['light', 'dark']) {
  for (const size of [[1440, 900], [390, 844]]) {
    test(`axe finds nothing in a message that was not sent, ${colorScheme} ${size[0]}`, async () => {
      await at(app.url(room('axe')), async page => {
        await page.route('**/api/chat', route => route.abort());
        await type(page, 'hello?');
        await page.getByText('Not sent.').waitFor();
        await box(page).fill('more');
        const { violations } = await new AxeBuilder({ page }).analyze();
        assert.deepEqual(violations.map(({ id, nodes }) => [id, nodes.map(({ html }) => html)]), []);
        assert(!(await page.evaluate(() => document.documentElement.scrollWidth > innerWidth)), 'nothing is wider than the screen');
      }, { colorScheme, size, reducedMotion: 'reduce' });
    });
  }
}
