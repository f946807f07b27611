// What one can do in a chat beside talking: attach, edit, export; and the keys.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { AxeBuilder } from '@axe-core/playwright';
import { box, held, launch, open, private_, until, withModel } from './stage.mjs';

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
  const { page, complaints, close } = await open(browser, url, { reducedMotion: 'reduce', ...options });
  try {
    await use(page);
    assert.deepEqual(complaints, []);
  } finally {
    await close();
  }
}
const bubbles = page => page.locator('.bubble');
const answered = (page, text) => page.locator('.bubble.assistant').filter({ hasText: text }).last().waitFor();
const idle = page => page.getByRole('button', { name: 'Stop' }).waitFor({ state: 'detached' });
const room = name => `web:room:dev:${name}`;
const sound = async (page, what) => {
  // On a touch screen a dialog is shown once its keyboard is.
  await page.waitForFunction(() => [...document.querySelectorAll('.overlay')].every(overlay => getComputedStyle(overlay).opacity === '1'));
  const { violations } = await new AxeBuilder({ page }).analyze();
  assert.deepEqual(violations.map(({ id, nodes }) => [what, id, nodes.map(({ html }) => html)]), []);
  assert(!(await page.evaluate(() => document.documentElement.scrollWidth > innerWidth)), `${what}: nothing is wider than the screen`);
};
const PIXEL = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
const dot = { name: 'dot.png', mimeType: 'image/png', buffer: Buffer.from(PIXEL, 'base64') };

for (const [kind, chat] of [['a room', room('files')], ['a conversation of the API', 'http:chat:dev:files']]) {
  test(`files are attached, and what does not fit is refused with the reason: ${kind}`, async () => {
    await app.say(chat, 'hello');
    await at(app.url(chat), async page => {
      await answered(page, 'to: hello');
      const chooser = page.locator('input[type=file]');
      await chooser.setInputFiles([dot, { name: 'notes.txt', mimeType: 'text/plain', buffer: Buffer.from('sow on 3 March') }]);
      await page.getByText('The bot sees pictures').waitFor();
      await chooser.setInputFiles([{ name: 'film.mp4', mimeType: 'video/mp4', buffer: Buffer.alloc(2_500_000) }]);
      await page.getByRole('alert').getByText(/^film\.mp4 has 2\.5 MB, and 7\d\d\.\d KB of files still fit/).waitFor();
      await sound(page, 'attached');
      // The files are part of the draft.
      await page.reload();
      await page.getByRole('button', { name: 'Remove dot.png' }).waitFor();
      await box(page).fill('what is this?');
      await box(page).press('Enter');
      await answered(page, 'what is this?');
      await bubbles(page).getByRole('img', { name: 'dot.png' }).waitFor();
      await bubbles(page).getByText('notes.txt').first().waitFor();
      const said = (await app.history(chat)).filter(({ role }) => role === 'user').at(-1);
      assert.deepEqual(said.parts, [
        { type: 'file', mediaType: 'image/png', filename: 'dot.png', url: `data:image/png;base64,${PIXEL}` },
        { type: 'file', mediaType: 'text/plain', filename: 'notes.txt', url: `data:text/plain;base64,${Buffer.from('sow on 3 March').toString('base64')}` },
        { type: 'text', text: 'what is this?' },
      ]);
      assert.equal(await page.getByRole('button', { name: /^Remove/ }).count(), 0);
    });
  });
}

test('what is typed while a file is read stays, and is sent with the file', async () => {
  const chat = room('reading');
  await at(app.url(chat), async page => {
    await box(page).fill('what is');
    await page.evaluate(() => {
      const read = FileReader.prototype.readAsDataURL;
      FileReader.prototype.readAsDataURL = function (content) {
        window.readNow = () => read.call(this, content);
      };
    });
    await page.locator('input[type=file]').setInputFiles([dot]);
    await box(page).fill('what is this dot?');
    await box(page).press('Enter');
    await page.evaluate(() => window.readNow());
    await page.getByRole('button', { name: 'Remove dot.png' }).waitFor();
    assert.equal(await box(page).inputValue(), 'what is this dot?');
    await page.getByRole('button', { name: 'Send' }).click();
    await answered(page, 'what is this dot?');
    assert.deepEqual((await app.history(chat)).filter(({ role }) => role === 'user').map(({ parts }) => parts.map(({ type }) => type)), [['file', 'text']]);
  });
});

test('a picture that is too large is made smaller, and one can be pasted', async () => {
  await at(app.base, async page => {
    // Noise cannot be compressed. It is chosen in the page, since the driver would take seconds to send it there.
    const size = await page.locator('input[type=file]').evaluate(async input => {
      const canvas = new OffscreenCanvas(2400, 1200);
      const pen = canvas.getContext('2d');
      const noise = pen.createImageData(2400, 1200);
      for (let at = 0; at < noise.data.length; at += 65_536) crypto.getRandomValues(noise.data.subarray(at, at + 65_536));
      pen.putImageData(noise, 0, 0);
      const picture = await canvas.convertToBlob({ type: 'image/png' });
      const chosen = new DataTransfer();
      chosen.items.add(new File([picture], 'noise.png', { type: 'image/png' }));
      input.files = chosen.files;
      input.dispatchEvent(new Event('change', { bubbles: true }));
      return picture.size;
    });
    assert(size > 5_000_000);
    const chip = page.getByRole('button', { name: 'Remove noise.png' });
    await chip.waitFor();
    await page.getByRole('button', { name: 'Send' }).click();
    await page.locator('.bubble.assistant').waitFor();
    const chat = decodeURIComponent(new URL(page.url()).hash.split('/')[2]);
    const [{ parts: [sent, ...others] }] = await app.history(chat);
    assert.deepEqual([sent.mediaType, sent.filename, others], ['image/jpeg', 'noise.png', []]);
    assert(sent.url.length < 1024 * 1024);
    const [width, height] = await bubbles(page).getByRole('img', { name: 'noise.png' }).evaluate(image => [image.naturalWidth, image.naturalHeight]);
    assert(width <= 1568 && Math.abs(width / height - 2) < 0.01, `${width} × ${height}`);
    await idle(page);
    const paste = texts => box(page).evaluate((box, [png, texts]) => {
      const data = new DataTransfer();
      data.items.add(new File([Uint8Array.from(atob(png), c => c.charCodeAt(0))], 'pasted.png', { type: 'image/png' }));
      for (const [type, text] of texts) data.setData(type, text);
      return box.dispatchEvent(new ClipboardEvent('paste', { clipboardData: data, bubbles: true, cancelable: true }));
    }, [PIXEL, texts]);
    assert(await paste([['text/plain', '1\t2'], ['text/html', '<td>1<td>2']]), 'the browser inserts cells as text');
    assert(!(await paste([])));
    await page.getByRole('button', { name: 'Remove pasted.png' }).click();
    assert.equal(await page.getByRole('button', { name: /^Remove/ }).count(), 0);
  });
});

test('an edited message of a room is a revision, and is answered again', async () => {
  const chat = room('edits');
  await at(app.url(chat), async page => {
    await box(page).fill('when do I sow beans?');
    await box(page).press('Enter');
    await answered(page, 'when do I sow beans?');
    await idle(page);
    const asked = page.locator('.bubble.user').last();
    await asked.getByRole('button', { name: 'Edit' }).click();
    const editor = page.getByRole('textbox', { name: 'New text of the message' });
    await page.getByText('The bot answers it again').waitFor();
    await sound(page, 'editing');
    await editor.fill('never mind');
    await editor.press('Escape');
    await editor.waitFor({ state: 'detached' });
    await asked.getByRole('button', { name: 'Edit' }).click();
    assert.equal(await editor.inputValue(), 'when do I sow beans?');
    await editor.fill('when do I sow peas?');
    // What the program does not get stays in the box.
    await page.route('**/api/chat', route => route.abort(), { times: 1 });
    await editor.press('Enter');
    await page.getByRole('alert').getByText('No answer').first().waitFor();
    assert.equal(await editor.inputValue(), 'when do I sow peas?');
    await page.getByRole('button', { name: 'Save' }).click();
    await answered(page, 'to: when do I sow peas?');
    await idle(page);
    const forms = (await app.history(chat)).filter(({ role }) => role === 'user');
    assert.deepEqual(forms.map(({ id, metadata, parts }) => [id === metadata.messageId, parts[0].text]), [[true, 'when do I sow beans?'], [false, 'when do I sow peas?']]);
    assert.equal(new Set(forms.map(({ metadata }) => metadata.messageId)).size, 1);
    const seen = (await app.context(chat)).messages.filter(({ role }) => role === 'user');
    assert.deepEqual(seen.map(({ parts }) => parts[0].text), ['when do I sow peas?']);
    await page.getByText('edited, form 1').waitFor();
  });
});

test('in other chats an edit is a revision; what others and platforms say is not edited here', async () => {
  const chat = 'telegram:chat:77';
  await app.telegram(private_(77, 1, 'hello from the phone', 'Noor'));
  await app.say(chat, 'a note', { userId: 'dev', messageId: 'n1' });
  await app.say(chat, 'of somebody else', { userId: 'ada', messageId: 'n2' });
  await at(app.url(chat), async page => {
    await answered(page, 'of somebody else');
    const edit = text => page.locator('.bubble.user').filter({ hasText: text }).getByRole('button', { name: 'Edit' });
    assert.deepEqual([await edit('from the phone').count(), await edit('a note').count(), await edit('somebody else').count()], [0, 1, 0]);
    await edit('a note').click();
    await page.getByText('If it was answered already, it is not answered again.').waitFor();
    const replies = (await app.history(chat)).filter(({ role }) => role === 'assistant').length;
    await page.getByRole('textbox', { name: 'New text of the message' }).fill('a better note');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('edited, form 1').waitFor();
    const forms = (await app.history(chat)).filter(({ metadata }) => metadata.messageId === 'n1');
    assert.deepEqual(forms.map(({ id, parts }) => [id, parts[0].text]), [['n1', 'a note'], ['n1@1', 'a better note']]);
    assert.equal((await app.history(chat)).filter(({ role }) => role === 'assistant').length, replies);
  });
});

test('a chat is exported as JSONL and as Markdown', async () => {
  const chat = room('export all/of it');
  await app.say(chat, 'look A1');
  await app.title(chat, 'export all/of it');
  await app.call('POST', `/v1/chats/${encodeURIComponent(chat)}/reset`, { userId: 'ada' });
  await app.call('POST', `/v1/chats/${encodeURIComponent(chat)}/messages?wait=20`, { userId: 'ada', parts: [{ type: 'text', text: 'and now?' }, { type: 'file', mediaType: 'image/png', filename: 'dot.png', url: `data:image/png;base64,${PIXEL}` }] });
  await at(app.url(chat), async page => {
    await answered(page, 'and now?');
    const save = async name => {
      await page.getByRole('button', { name: 'Export…' }).click();
      if (name === 'JSONL') await sound(page, 'export');
      const [file] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name }).click()]);
      await page.getByRole('dialog').waitFor({ state: 'detached' });
      return [file.suggestedFilename(), readFileSync(await file.path(), 'utf8')];
    };
    const [jsonl, lines] = await save('JSONL');
    assert.equal(jsonl, 'export all-of it.jsonl');
    assert.deepEqual(lines.trim().split('\n').map(line => JSON.parse(line)), await app.history(chat));
    const [markdown, text] = await save('Markdown');
    assert.equal(markdown, 'export all-of it.md');
    assert.match(text, /^# export all\/of it\n\n`web:room:dev:export all\/of it`, exported /);
    assert.match(text, /\n## ada, .+\n\nlook A1\n\n## annals, .+\n\nLet me see\.\n\n\*\*shop_lookup\*\*\n\n```\n\{\n {2}"order": "A1"\n\}\n```/);
    assert.match(text, /\n---\n\n\*New session, by \/reset, .+\*\n/);
    assert.match(text, /and now\?\n\n\*\[dot\.png\]\*\n/);
    // What cannot be read says so, and leaves no half of a file.
    await page.route('**/messages', route => route.fulfill({ status: 503, contentType: 'application/problem+json', body: '{"title":"The history cannot be read","status":503,"detail":"ask again"}' }));
    await page.getByRole('button', { name: 'Export…' }).click();
    await page.getByRole('button', { name: 'Markdown' }).click();
    await page.getByRole('dialog').getByText('The history cannot be read').waitFor();
    // So a stack ends an answer whose rest cannot be read.
    const brokenOff = `${lines}{"type":"urn:annals:problem:broken-off","title":"The answer breaks off here","status":500}\n`;
    await page.route('**/messages', route => route.fulfill({ contentType: 'application/x-ndjson', body: brokenOff }));
    await page.getByRole('button', { name: 'JSONL' }).click();
    await page.getByRole('dialog').getByText('The answer broke off').waitFor();
  });
});

test('keys: go to a chat, write, the list of keys, and Escape stops', async () => {
  await app.say(room('tree-oak'), 'greetings oak');
  await app.say(room('tree-elm'), 'greetings elm');
  for (const name of ['tree-oak', 'tree-elm']) await app.title(room(name), name);
  await at(app.url(room('tree-oak')), async page => {
    await answered(page, 'greetings oak');
    const focused = () => page.evaluate(() => document.activeElement?.getAttribute('aria-label'));
    await page.keyboard.press('/');
    assert.equal(await focused(), 'Message tree-oak');
    await page.keyboard.type('is it / or ?');
    assert.equal(await box(page).inputValue(), 'is it / or ?', 'they are letters there');
    await box(page).fill('');
    await page.keyboard.press('Control+k');
    const jump = page.getByRole('combobox', { name: /^A name/ });
    await jump.waitFor();
    assert.equal(await jump.evaluate(box => box === document.activeElement), true);
    await sound(page, 'go to a chat');
    await jump.fill('TREE');
    await until('both are found', async () => (await page.getByRole('listbox').getByRole('option').count()) === 2);
    const [first, second] = await page.getByRole('listbox').getByRole('option').allInnerTexts();
    await page.keyboard.press('ArrowDown');
    await page.getByRole('listbox').getByRole('option', { selected: true }).filter({ hasText: /oak|elm/ }).waitFor();
    assert.equal(await page.getByRole('listbox').getByRole('option', { selected: true }).innerText(), second);
    assert.notEqual(first, second);
    await jump.fill('tree-elm');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'tree-elm' }).waitFor();
    await jump.waitFor({ state: 'detached' });
    await page.keyboard.press('Control+k');
    await jump.fill('http:chat:dev:nobody');
    await page.getByRole('listbox').getByRole('option', { name: /^.*Open http:chat:dev:nobody/ }).click();
    await page.getByRole('heading', { name: 'nobody' }).waitFor();
    await page.goBack();
    await page.getByRole('heading', { name: 'tree-elm' }).focus();
    await page.keyboard.press('?');
    await page.getByRole('dialog', { name: 'Keys' }).getByText('stop the answer').waitFor();
    await sound(page, 'keys');
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    const gate = held(model);
    await box(page).fill('a long story');
    await page.keyboard.press('Enter');
    await gate.there;
    await page.getByRole('button', { name: 'Stop' }).waitFor();
    await page.keyboard.press('Escape');
    await page.locator('.notice', { hasText: 'Stopped.' }).first().waitFor();
    gate.release();
    await idle(page);
  });
});

for (const colorScheme of ['light', 'dark']) {
  test(`on a narrow screen: files, an edit, keys and the way to a chat, ${colorScheme}`, async () => {
    const chat = room('narrow');
    await app.say(chat, 'hello', { userId: 'dev' });
    await app.title(chat, 'narrow');
    await at(app.url(chat), async page => {
      await answered(page, 'hello');
      await page.locator('input[type=file]').setInputFiles([dot, { name: 'film.mp4', mimeType: 'video/mp4', buffer: Buffer.alloc(2_500_000) }]);
      await page.getByRole('alert').getByText(/^film/).waitFor();
      await page.locator('.bubble.user').last().getByRole('button', { name: 'Edit' }).click();
      await sound(page, 'files and an edit');
      await page.getByRole('link', { name: 'All chats' }).click();
      await page.getByRole('button', { name: 'Go to a chat' }).click();
      await page.getByRole('combobox', { name: /^A name/ }).fill('narrow');
      await sound(page, 'go to a chat');
      await page.getByRole('listbox').getByRole('option').first().click();
      await page.getByRole('heading', { name: 'narrow' }).waitFor();
    }, { colorScheme, size: [390, 844], hasTouch: true });
  });
}
