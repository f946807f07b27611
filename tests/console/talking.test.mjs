// Talking to the bot in the console, and what is done to a chat there.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { after, before, test } from 'node:test';
import { AxeBuilder } from '@axe-core/playwright';
import { promisify } from 'node:util';
import { box, held, launch, open, private_, until, withModel } from './stage.mjs';

let browser, app, model, refunds;

before(async () => {
  // So small a window is soon full.
  ({ app, model, refunds } = await withModel({ CONTEXT_WINDOW: '4000', KEEP_RECENT: '2' }));
  model.says = (said, system) =>
    system.startsWith('You keep the memory') ? '- [preference] Ada likes her beans green.' : said.includes('<conversation>') ? 'They spoke of beans.' : undefined;
  browser = await launch();
});
after(async () => {
  await browser?.close();
  app?.end();
});

/** A window of its own for each test, at whose end nothing may have been complained of. */
async function at(url, use, options) {
  const { page, complaints, close } = await open(browser, url, options);
  try {
    await use(page);
    assert.deepEqual(complaints, []);
  } finally {
    await close();
  }
}

const say = async (page, text) => {
  await page.getByRole('button', { name: 'Send' }).waitFor();
  await box(page).fill(text);
  await box(page).press('Enter');
};
const bubbles = page => page.locator('.bubble');
const answered = (page, text) => page.locator('.bubble.assistant').filter({ hasText: text }).last().waitFor();
const roomOf = page => decodeURIComponent(new URL(page.url()).hash.split('/')[2]);
const room = name => `web:room:dev:${name}`;
/** A room in which this was said and answered. */
async function spoken(name, ...texts) {
  for (const text of texts) await app.say(room(name), text);
  return app.url(room(name));
}
const texts = async chat => (await app.history(chat)).map(({ role, parts }) => `${role}: ${parts.map(part => part.text ?? '').join('')}`);

test('an empty console says what to do first, and a chat begins with what is said there', async () => {
  await at(app.base, async page => {
    await page.getByRole('heading', { name: 'Nothing has been said yet' }).waitFor();
    const call = await page.getByLabel('A call of the API').textContent();
    assert.match(call, new RegExp(`^curl -X POST '${app.base}/v1/chats/hello/messages\\?wait=20' -H 'Authorization: Bearer dev'`));
    const gate = held(model);
    await say(page, 'hello there, **how** are you');
    await gate.there;
    // What there is of the answer is shown while the rest is not made yet.
    await until('the first words are shown', async () => /Answer \d+ to:$/.test((await bubbles(page).last().locator('.said').innerText()).trim()));
    assert.deepEqual(await texts(roomOf(page)), ['user: hello there, **how** are you'], 'the rest is not made yet');
    await page.getByRole('button', { name: 'Stop' }).waitFor();
    gate.release();
    await answered(page, 'to: hello there, how are you');
    assert.equal(await bubbles(page).last().locator('strong').textContent(), 'how', 'a model speaks Markdown');
    // The words come before the reply is stored.
    await page.getByRole('button', { name: 'Stop' }).waitFor({ state: 'detached' });
    assert.equal(await bubbles(page).count(), 2);
    const [said, reply] = await app.history(roomOf(page));
    assert.deepEqual([said.metadata.userId, reply.id], ['dev', `${said.id}/reply`]);
    await page.getByRole('link', { name: /^hello there.*Answer/ }).waitFor();
  });
});

test('a chat that begins, and one that is forgotten, log no error in the browser', async () => {
  await at(app.base, async page => {
    const refused = [];
    page.on('response', response => response.status() >= 400 && refused.push(`${response.status()} ${response.url()}`));
    page.on('console', message => message.type() === 'error' && refused.push(message.text()));
    await say(page, 'something new');
    await answered(page, 'to: something new');
    await page.getByText(/messages \d/).waitFor();
    await page.getByRole('button', { name: 'Forget…' }).click();
    await page.getByRole('button', { name: 'Forget everything' }).click();
    await page.getByRole('heading', { name: 'Choose a chat' }).waitFor();
    await page.goto(app.url(room('nobody-was-here')));
    await page.getByText('Nothing was said here yet').waitFor();
    await page.waitForTimeout(2500);
    assert.deepEqual(refused, []);
  });
});

test('the printed call works as it is printed', async () => {
  await at(app.base, async page => {
    const call = await page.getByLabel('A call of the API').textContent();
    const { stdout } = await promisify(execFile)('bash', ['-c', `${call} --silent`]);
    const answer = JSON.parse(stdout);
    assert.match(answer.reply.parts[0].text, /^Answer/);
    await page.locator('.chat-row[href*="http%3Achat%3Adev%3Ahello"]').click();
    await answered(page, 'to: hello');
  });
});

test('stop ends an answer, and the history says so', async () => {
  await at(await spoken('stop', 'first'), async page => {
    await answered(page, 'to: first');
    const gate = held(model);
    await say(page, 'a long story of beans');
    await gate.there;
    await until('some of it is shown', async () => (await bubbles(page).count()) === 4);
    await page.getByRole('button', { name: 'Stop' }).click();
    await page.locator('.notice', { hasText: 'Stopped.' }).first().waitFor();
    gate.release();
    await page.getByRole('button', { name: 'Stop' }).waitFor({ state: 'detached' });
    const cut = page.locator('.bubble.assistant').last();
    await cut.getByText('This answer was stopped.').waitFor();
    assert.match(await cut.locator('.said').innerText(), /^Answer \d+ to:/, 'what was read stays');
    await cut.getByRole('button', { name: 'Try again' }).waitFor();
    const stored = await texts(room('stop'));
    assert(!stored.some(text => /Answer \d+ to: a long story/.test(text)), stored.join('\n'));
    await say(page, 'something else');
    await answered(page, 'something else');
    assert.match((await texts(room('stop'))).at(-1), /^assistant: Answer \d+ to: something else$/);
  });
});

test('another try stands beside the first', async () => {
  await at(await spoken('again', 'beans?'), async page => {
    await answered(page, 'to: beans?');
    await page.getByRole('button', { name: 'Try again' }).click();
    await page.getByRole('button', { name: 'Earlier answer' }).click();
    const replies = page.locator('.bubble.assistant').filter({ hasText: 'to: beans?' });
    await replies.first().getByText('replaced by a later form').waitFor();
    await replies.last().getByText('form 1').waitFor();
    await page.getByText('asked again').waitFor();
    assert.equal(await replies.count(), 2);
    assert.equal((await app.context(room('again'))).messages.length, 2);
  });
});

test('after a failure another try stands on the failure, and asks the question that failed', async () => {
  const chat = room('failed');
  await at(await spoken('failed', 'what grows first?'), async page => {
    await answered(page, 'to: what grows first?');
    model.refuses = 401;
    await say(page, 'and what last?');
    const notice = page.locator('.notice').filter({ hasText: 'Sorry, I could not answer that' });
    await notice.waitFor({ timeout: 40_000 });
    await notice.getByText(/^Why: .* refused the request with 401: check MODEL_API_KEY/).waitFor();
    model.refuses = undefined;
    await page.getByRole('button', { name: 'Stop' }).waitFor({ state: 'detached' });
    assert.equal(await page.getByRole('button', { name: 'Try again' }).count(), 1);
    await page.reload();
    await notice.getByRole('button', { name: 'Try again' }).click();
    await answered(page, 'to: and what last?');
    await page.getByRole('button', { name: 'Stop' }).waitFor({ state: 'detached' });
    assert.equal(await notice.getByRole('button').count(), 0);
    assert.deepEqual((await app.history(chat)).filter(({ role }) => role === 'user').map(({ id }) => id.replace(/^.*@/, '@')).slice(2), ['@1']);
    assert.match((await texts(chat)).at(-1), /^assistant: Answer \d+ to: and what last\?$/);
    assert.equal((await texts(chat)).filter(text => /Answer \d+ to: what grows first/.test(text)).length, 1);
  });
});

test('an answer that began elsewhere is heard, also by a window that is opened in its middle', async () => {
  const gate = held(model);
  const asked = app.call('POST', '/v1/chats/' + encodeURIComponent(room('heard')) + '/messages', { userId: 'ada', text: 'tell me of peas' });
  await gate.there;
  await asked;
  await at(app.url(room('heard')), async page => {
    await until('the first words are shown', async () => /^Answer \d+/.test(await bubbles(page).last().locator('.said').innerText().catch(() => '')));
    // Who watches stops it by the button alone.
    const stops = [];
    page.on('request', request => request.url().endsWith('/stop') && stops.push(request.url()));
    await page.getByRole('button', { name: 'Stop' }).waitFor();
    await page.keyboard.press('Escape');
    gate.release();
    await answered(page, 'to: tell me of peas');
    assert.deepEqual(stops, []);
    // And what is said by the API shows without a click.
    await app.say(room('heard'), 'and of leeks');
    await answered(page, 'to: and of leeks');
    assert.equal(await bubbles(page).count(), 4);
  });
});

test('a call that waits is approved, and one is denied', async () => {
  await at(await spoken('shop', 'hi'), async page => {
    await say(page, 'refund A1');
    await page.getByText('waits for approval').waitFor();
    assert.equal(refunds.length, 0);
    // It waits for whoever asked, also in a window that knows that from the history alone.
    await page.reload();
    await page.getByRole('button', { name: 'Approve' }).click();
    await answered(page, 'refund of A1 done');
    assert.equal(refunds.length, 1);
    await say(page, 'refund A1 again');
    await page.getByRole('button', { name: 'Deny' }).click();
    await page.locator('.tool.output-denied').last().waitFor();
    await page.getByRole('button', { name: 'Send' }).waitFor();
    assert.equal(refunds.length, 1);
  });
  // In a chat that is no room, by the command.
  const chat = 'http:chat:dev:orders';
  await app.say(chat, 'refund A1');
  await at(app.url(chat), async page => {
    await page.getByRole('button', { name: 'Approve' }).click();
    await answered(page, 'refund of A1 done');
    assert.equal(refunds.length, 2);
  });
  // Of somebody else's request the bot refuses that, and the console says so.
  const theirs = 'telegram:chat:43';
  await app.telegram(private_(43, 1, 'refund A1', 'Cleo'));
  await at(app.url(theirs), async page => {
    await page.getByRole('button', { name: 'Approve' }).click();
    await page.locator('.toast').getByText('Only the person who asked, or an administrator, can answer this.').waitFor();
    assert.equal(refunds.length, 2);
  });
});

test('a call can be approved after somebody wrote', async () => {
  const chat = room('handed');
  await app.say(chat, 'refund A1');
  await app.call('PUT', `/v1/chats/${encodeURIComponent(chat)}/takeover`, { operator: 'dev' });
  await app.call('POST', `/v1/chats/${encodeURIComponent(chat)}/messages`, { userId: 'ada', text: 'are you there?' });
  await at(app.url(chat), async page => {
    await bubbles(page).filter({ hasText: 'are you there?' }).waitFor();
    const posted = page.waitForRequest(request => request.method() === 'POST' && request.url().endsWith('/api/chat'));
    await page.getByRole('button', { name: 'Approve' }).click();
    const { message } = (await posted).postDataJSON();
    assert.deepEqual([message.role, message.parts.at(-1).state], ['assistant', 'approval-responded']);
  });
});

test('a request shows what nobody can see', async () => {
  await at(await spoken('hidden', 'hi'), async page => {
    await say(page, 'refund A1\u202e\u200b9');
    const request = page.locator('.tool.approval-requested');
    await request.getByText('"order": "A1\\u202e\\u200b9"').waitFor();
    assert.doesNotMatch(await request.innerText(), /[\u202e\u200b]/);
    await page.getByRole('button', { name: 'Deny' }).click();
  });
});

test('reset, compact, the context and why', async () => {
  const long = n => `Stop ${n}: ${'the boat leaves at the pier and goes on to the next island. '.repeat(8)}`;
  const chat = room('trip');
  await at(await spoken('trip', long(1), long(2), long(3)), async page => {
    await answered(page, 'Stop 3');
    await page.getByText('Nothing is left out').waitFor();
    const { tokens } = await app.context(chat);
    await page.getByRole('meter', { name: 'Context' }).getByText(`${tokens.toLocaleString('en-GB')} of 4,000 tokens`).waitFor();
    await page.getByRole('button', { name: 'Compact' }).click();
    await page.getByRole('button', { name: /^Summary of 4 messages/ }).first().waitFor();
    await page.getByText('A summary stands for 4 messages').waitFor();
    await bubbles(page).filter({ hasText: 'Stop 1' }).first().getByText('in the summary').waitFor();
    await page.getByText('The model sees from here').waitFor();
    assert.equal((await app.context(chat)).messages[0].metadata.kind, 'summary');

    const before = (await app.history(chat)).length;
    await page.getByRole('button', { name: 'Reset…' }).click();
    const question = page.getByRole('alertdialog', { name: 'Start a new session here?' });
    await question.getByText('Nothing is deleted').waitFor();
    await question.getByRole('button', { name: 'Cancel' }).click();
    assert.equal((await app.history(chat)).length, before);
    await page.getByRole('button', { name: 'Reset…' }).click();
    await question.getByRole('button', { name: 'Start a new session' }).click();
    await page.getByText('New session, by /reset').waitFor();
    assert((await app.history(chat)).length > before, 'all that was said is still there');
    await page.getByText('No message is in the context.').waitFor();
    assert.deepEqual((await app.context(chat)).messages, []);
    await say(page, 'we start anew');
    await page.getByText(/The session began .*behind a reset/).waitFor();
    await bubbles(page).filter({ hasText: 'Stop 3' }).first().getByText('before this session').waitFor();
  });
});

test('the archive: segments are listed, searched and opened', async () => {
  const [segment] = await app.segments(room('trip'));
  await at(app.url(room('trip'), 'segments'), async page => {
    await page.getByRole('link', { name: new RegExp(`${segment.count} records`) }).waitFor();
    await page.getByRole('searchbox', { name: 'Search the archive' }).fill('STOP 2');
    await page.keyboard.press('Enter');
    const found = page.getByRole('region', { name: 'Found' });
    await found.locator('mark').first().waitFor();
    assert.equal(await found.getByRole('link').count(), 2, 'what was said, and its answer');
    await page.getByRole('searchbox', { name: 'Search the archive' }).fill('nobody said this');
    await page.keyboard.press('Enter');
    await found.getByText('Nobody said').waitFor();
    await page.getByRole('searchbox', { name: 'Search the archive' }).fill('stop 2');
    await page.getByRole('button', { name: 'Search', exact: true }).click();
    await found.getByRole('link').first().click();
    await page.locator('.archived .bubble').filter({ hasText: 'Stop 2' }).first().waitFor();
    assert.match(page.url(), new RegExp(`/segments/${segment.id}$`), 'which can be kept as a bookmark');
    await page.reload();
    await page.locator('.archived .bubble').filter({ hasText: 'Stop 2' }).first().waitFor();
    await page.getByRole('link', { name: 'All segments' }).click();
    await page.getByRole('searchbox', { name: 'Search the archive' }).waitFor();
    // It may have been erased meanwhile.
    await page.getByRole('tab', { name: 'Context' }).click();
    await page.getByRole('tab', { name: 'Archive' }).click();
    const again = page.waitForRequest(request => request.url().endsWith(`/segments/${segment.id}`));
    await page.getByRole('link', { name: new RegExp(`${segment.count} records`) }).click();
    await again;
  });
});

test('memory is corrected and deleted', async () => {
  const kept = await until('the ended session is noted', async () => (await app.memory('ada'))[0]);
  assert.equal(kept.text, 'Ada likes her beans green.');
  await at(app.url(room('heard'), 'memory'), async page => {
    const entry = page.getByRole('article', { name: 'Entry 1' });
    await entry.getByText('Ada likes her beans green.').waitFor();
    await entry.getByRole('button', { name: 'Edit' }).click();
    await entry.getByRole('textbox').fill('Ada likes her beans yellow.');
    await entry.getByRole('button', { name: 'Save' }).click();
    await entry.getByText('corrected').waitFor();
    assert.equal((await app.memory('ada'))[0].text, 'Ada likes her beans yellow.');
    await page.getByRole('tab', { name: 'Context' }).click();
    await page.getByRole('tab', { name: 'Memory' }).click();
    await entry.getByRole('button', { name: 'Delete…' }).click();
    await page.getByRole('alertdialog').getByRole('button', { name: 'Cancel' }).click();
    assert.equal((await app.memory('ada')).length, 1);
    await entry.getByRole('button', { name: 'Delete…' }).click();
    await page.getByRole('alertdialog').getByRole('button', { name: 'Delete', exact: true }).click();
    await page.getByText('Nothing is remembered yet').waitFor();
    assert.deepEqual(await app.memory('ada'), []);
  });
});

test('a chat of a platform: live, with its outbox, and what is said from here', async () => {
  await app.telegram(private_(42, 1, 'hello from the phone'));
  const chat = 'telegram:chat:42';
  await at(app.base, async page => {
    await page.getByRole('link', { name: /^Ada/ }).click();
    await answered(page, 'to: hello from the phone');
    await page.getByText('nothing of it is sent to Telegram').waitFor();
    assert.equal(await page.getByRole('textbox', { name: 'Speaking as' }).inputValue(), 'dev', 'not the customer');
    await say(page, 'a test');
    await answered(page, 'to: a test');
    assert.equal((await app.history(chat)).filter(({ role }) => role === 'user').at(-1).metadata.userId, 'dev');
    await page.getByRole('textbox', { name: 'Speaking as' }).fill('operator');
    await say(page, 'a word of the operator');
    await answered(page, 'to: a word of the operator');
    const said = (await app.history(chat)).filter(({ role }) => role === 'user').at(-1);
    assert.equal(said.metadata.userId, 'operator');
    await app.telegram(private_(42, 2, 'and again'));
    await answered(page, 'to: and again');
    await page.getByRole('link', { name: 'Outbox' }).click();
    const replies = page.getByRole('region', { name: 'Replies' });
    await replies.getByText('to: and again').waitFor();
    assert.equal(await replies.getByText('operator').count(), 0, 'that was for nobody there');
    await replies.getByRole('link', { name: '42' }).first().click();
    await answered(page, 'to: hello from the phone');
  });
});

test('the outbox shows a reply as the text that it is, and leads to a chat with any id', async () => {
  await at(app.base, async page => {
    const text = '<img src="https://elsewhere.example/x.png" onerror="alert(1)"> **not bold**';
    await page.route('**/local/outbox', route => route.fulfill({ json: [{ channel: 'lark', chatId: 'oc_a:b%3A/#', text, ts: Date.now() }] }));
    await page.getByRole('link', { name: 'Outbox' }).click();
    const replies = page.getByRole('region', { name: 'Replies' });
    assert.equal(await replies.locator('.plain').innerText(), text);
    assert.equal(await replies.locator('img, .plain *').count(), 0);
    const link = await replies.getByRole('link').getAttribute('href');
    assert.equal(decodeURIComponent(link.slice('#/chat/'.length)), 'lark:chat:oc_a%3Ab%253A/#');
  });
});

test('what happens in all chats is shown while it happens, and one can be followed', async () => {
  await app.say(room('seen'), 'before');
  await at(app.base, async page => {
    await page.getByRole('link', { name: 'Live' }).click();
    const rows = page.getByRole('region', { name: 'Events' }).getByRole('listitem');
    await rows.filter({ hasText: 'to: before' }).waitFor();
    await app.telegram(private_(77, 1, 'is it live?', 'Bo'));
    const delivered = rows.filter({ hasText: 'Bo' }).filter({ hasText: 'delivered' });
    await delivered.waitFor();
    const of = async text => (await rows.filter({ hasText: text }).count());
    assert.deepEqual([await of('is it live?'), await of('to: is it live?')], [2, 1], 'arrived and answered, each once');
    await page.getByLabel('Followed chat').selectOption('telegram:chat:77');
    await rows.filter({ hasText: 'to: is it live?' }).waitFor();
    assert.equal(await of('before'), 0);
    await app.say(room('seen'), 'elsewhere');
    await app.telegram(private_(77, 2, 'and again', 'Bo'));
    await rows.filter({ hasText: 'to: and again' }).waitFor();
    assert.equal(await of('elsewhere'), 0);
    await rows.first().getByRole('link', { name: 'Bo' }).click();
    await answered(page, 'to: and again');
  });
});

test('what happened since the last look is shown, also if it fills several pages of the list', async () => {
  const names = ['pea', 'leek', 'bean'];
  await at(app.base, async page => {
    let gate;
    // A chat a page: real pages.
    await page.route(url => url.pathname === '/v1/chats', async route => {
      await gate;
      await route.continue({ url: route.request().url().replace('limit=50', 'limit=1') });
    });
    await page.getByRole('link', { name: 'Live' }).click();
    const rows = page.getByRole('region', { name: 'Events' }).getByRole('listitem');
    await rows.first().waitFor();
    let release;
    gate = new Promise(resolve => (release = resolve));
    for (const name of names) await app.say(room(name), `news of ${name}`);
    release();
    for (const name of names) await rows.filter({ hasText: `to: news of ${name}` }).waitFor();
  });
});

test('a chat is forgotten when that is confirmed', async () => {
  const chat = room('again');
  await at(app.url(chat), async page => {
    await answered(page, 'beans?');
    await page.getByRole('button', { name: 'Forget…' }).click();
    await page.getByRole('alertdialog', { name: 'Forget this chat?' }).waitFor();
    await page.keyboard.press('Escape');
    assert.notEqual((await app.history(chat)).length, 0);
    await page.getByRole('button', { name: 'Forget…' }).click();
    await page.getByRole('button', { name: 'Forget everything' }).click();
    await page.getByRole('heading', { name: 'Choose a chat' }).waitFor();
    assert.deepEqual(await app.history(chat), []);
    await until('it left the list', async () => (await page.locator('.chat-row[href*="dev%3Aagain"]').count()) === 0);
  });
});

test('what is said can load nothing from elsewhere', async () => {
  const chat = 'http:chat:dev:pictures';
  model.says = () => '![a cat](https://elsewhere.example/cat.png) and [a page](javascript:alert(1)) <img src=x onerror=alert(1)>';
  const pixel = 'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
  const parts = [{ type: 'text', text: 'look' }, { type: 'file', mediaType: 'image/png', url: pixel, filename: 'dot.png' }, { type: 'file', mediaType: 'image/png', url: 'https://elsewhere.example/dog.png' }];
  await app.call('POST', '/v1/chats/' + encodeURIComponent(chat) + '/messages?wait=20', { userId: 'ada', parts });
  await at(app.url(chat), async page => {
    await bubbles(page).last().getByRole('link', { name: '🖼 a cat' }).waitFor();
    assert.equal(await bubbles(page).last().getByRole('link', { name: 'a page' }).count(), 0);
    assert.deepEqual(await page.locator('img').evaluateAll(all => all.map(image => image.alt)), ['dot.png']);
  });
});

const RICH = `first line
second line

| dish | how long |
| --- | --- |
| Kaiserschmarrn | twenty-five minutes, at most, in a pan that is wide enough for all of it |
| Zwetschgenknödel | forty |

- [x] sown
- [ ] watered

\`\`\`python
def grow(bed, litres=1.5):  # beans
    return f"{bed} has {litres}"
\`\`\`

\`\`\`
plain code
\`\`\``;

for (const [colorScheme, size] of [['light', [1440, 900]], ['dark', [390, 844]]]) {
  test(`Markdown: lines, tables, tasks and code, ${colorScheme} ${size[0]}`, async () => {
    const chat = room(`rich-${colorScheme}`);
    model.says = () => RICH;
    await app.say(chat, 'one\ntwo');
    await at(app.url(chat), async page => {
      const reply = bubbles(page).last();
      await reply.locator('table').waitFor();
      assert.equal((await reply.locator('p').first().innerText()).trim(), 'first line\nsecond line');
      assert.equal(await bubbles(page).first().locator('.said').innerText(), 'one\ntwo');
      // A cell is as wide as its longest word: one line of text for each word that stands alone.
      const lines = cell => cell.evaluate(cell => {
        const range = document.createRange();
        range.selectNodeContents(cell);
        return new Set([...range.getClientRects()].map(({ top }) => Math.round(top))).size;
      });
      assert.equal(await lines(page.getByRole('cell', { name: 'Kaiserschmarrn' })), 1);
      assert.equal(await lines(page.getByRole('cell', { name: 'Zwetschgenknödel' })), 1);
      assert(!(await page.evaluate(() => document.documentElement.scrollWidth > innerWidth)), 'nothing is wider than the screen');
      assert.deepEqual(await reply.getByRole('checkbox').evaluateAll(all => all.map(box => box.checked)), [true, false]);
      assert.equal(await reply.getByText('[x]').count(), 0);
      assert.equal(await reply.locator('.hljs-keyword').first().textContent(), 'def');
      const copied = () => page.evaluate(() => navigator.clipboard.readText());
      await reply.getByRole('button', { name: 'Copy the code' }).first().click();
      await reply.getByRole('button', { name: 'Copied' }).waitFor();
      assert.equal(await copied(), 'def grow(bed, litres=1.5):  # beans\n    return f"{bed} has {litres}"\n');
      await reply.getByRole('button', { name: 'Copy the message' }).click();
      await until('the message is copied', async () => (await copied()) === RICH);
      const { violations } = await new AxeBuilder({ page }).analyze();
      assert.deepEqual(violations.map(({ id, nodes }) => [id, nodes.map(({ html }) => html)]), []);
    }, { colorScheme, size, reducedMotion: 'reduce', permissions: ['clipboard-read', 'clipboard-write'] });
  });
}

test('text from right to left begins at the right, in an answer and where it is written', async () => {
  const chat = room('right');
  model.says = () => 'שלום';
  await app.say(chat, 'שלום, מה שלומך היום? אני רוצה לדעת');
  await at(app.url(chat), async page => {
    const end = element => element.evaluate(element => {
      const range = document.createRange();
      range.selectNodeContents(element);
      return Math.round(element.getBoundingClientRect().right - range.getBoundingClientRect().right);
    });
    const reply = bubbles(page).last().locator('.markdown p');
    await reply.waitFor();
    await reply.evaluate(reply => (reply.style.width = '20rem'));
    assert.equal(await end(reply), 0);
    assert.equal(await box(page).evaluate(box => getComputedStyle(box).unicodeBidi), 'plaintext');
  });
});

test('a call is named by its tool wherever it is shown', async () => {
  model.says = () => undefined;
  await at(await spoken('tools', 'look A1'), async page => {
    await page.getByRole('button', { name: /^shop_lookup/ }).waitFor();
    await page.locator('.turns').getByText('[shop_lookup]').waitFor();
    assert.equal(await page.getByText('dynamic-tool').count(), 0);
  });
});

test('a reply tells how it was made', async () => {
  const url = await spoken('steps', 'How tall are beans?');
  for (const [colorScheme, size] of [['light', [1440, 900]], ['dark', [390, 844]]]) {
    await at(url, async page => {
      const button = page.getByRole('button', { name: 'How this answer was made' });
      await page.route('**/turns/**', async route => {
        const response = await route.fetch();
        const { prompt, ...turn } = await response.json();
        assert.deepEqual(prompt.system, { text: null, exact: true });
        await route.fulfill({ response, json: { ...turn, prompt: { ...prompt, system: { text: 'You keep a garden.', exact: false } } } });
      });
      await button.click();
      const table = page.getByRole('table', { name: /^1 request to models, .* in all$/ });
      await table.getByRole('rowheader', { name: /^model openai:garden-1 first token after \d/ }).waitFor();
      await table.getByRole('rowheader', { name: 'in the queue' }).waitFor();
      await page.getByText('Prompt of 1 message, as it was sent').click();
      await page.getByRole('listitem').filter({ hasText: /^user How tall are beans\?$/ }).waitFor();
      await page.getByText('system prompt as it is now, which is not as it was sent: You keep a garden.').waitFor();
      await page.getByText('tools memory_search, memory_save, memory_forget').waitFor();
      const { violations } = await new AxeBuilder({ page }).options({ resultTypes: ['violations'] }).analyze();
      assert.deepEqual(violations.map(({ id, nodes }) => `${id} ${nodes.map(node => node.html.slice(0, 160))}`), []);
      assert(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), 'nothing is wider than the window');
      if (process.env.ANNALS_SHOTS) await page.screenshot({ path: `${process.env.ANNALS_SHOTS}/steps-${colorScheme}.png` });
      await button.click();
      assert.equal(await table.count(), 0);
    }, { colorScheme, size, reducedMotion: 'reduce' });
  }
});
