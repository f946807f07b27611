// A page of another origin, in the browser of somebody whose program runs: it knows every port that the program listens on, and
// the development key. And the key that a real bot brings: how the console comes to it.
import assert from 'node:assert/strict';
import { readFileSync, readdirSync, readlinkSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { launch, open, start, telegram } from './stage.mjs';

const SECRET = 'what nobody else may read';
let browser;
before(async () => (browser = await launch()));
after(() => browser?.close());

/** The TCP ports on which the process listens, as the kernel has them. */
function ports(pid) {
  const sockets = new Set(readdirSync(`/proc/${pid}/fd`).map(fd => readlinkSync(`/proc/${pid}/fd/${fd}`)));
  const lines = readFileSync(`/proc/${pid}/net/tcp`, 'utf8').trim().split('\n').slice(1).map(line => line.trim().split(/\s+/));
  return lines.filter(line => line[3] === '0A' && sockets.has(`socket:[${line[9]}]`)).map(line => parseInt(line[1].split(':')[1], 16));
}

const listening = server => new Promise(resolve => server.listen(0, '127.0.0.1', () => resolve(server.address().port)));

/** Runs in the attacker's page: all that a page may try with a port, and what it has read by it. */
async function attack(ports) {
  const read = [];
  const signed = {
    Authorization: 'AWS4-HMAC-SHA256 Credential=local/20251121/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0',
    'X-Amz-Date': '20251121T225841Z', 'Content-Type': 'application/x-amz-json-1.0',
  };
  const dynamodb = (name, body) => ({ method: 'POST', headers: { ...signed, 'X-Amz-Target': `DynamoDB_20120810.${name}` }, body: JSON.stringify(body) });
  const record = { pk: { S: 'http:chat:dev:victim' }, sk: { S: '1763765920000#forged' }, forged: { S: 'yes' } };
  const bearer = { Authorization: 'Bearer dev', 'Content-Type': 'application/json' };
  const message = JSON.stringify({ userId: 'eve', text: 'forged', messageId: 'forged' });
  const calls = [
    ['/', dynamodb('Scan', { TableName: 'annals' })],
    ['/', dynamodb('PutItem', { TableName: 'annals', Item: record })],
    ['/annals?list-type=2', {}],
    ['/annals/segments/forged', { method: 'PUT', body: 'forged' }],
    ['/history?limit=10', { headers: bearer }],
    ['/v1/chats', { headers: bearer }],
    ['/v1/chats/victim/messages', { headers: bearer }],
    ['/v1/chats/victim/messages', { method: 'POST', headers: bearer, body: message }],
    ['/local/outbox', {}],
    // What a browser asks for without asking before.
    ['/v1/chats/victim/messages', { method: 'POST', mode: 'no-cors', body: message }],
    ['/lark', { method: 'POST', mode: 'no-cors', body: JSON.stringify({
      schema: '2.0', header: { event_id: 'f', event_type: 'im.message.receive_v1', token: 'dev-lark-token' },
      event: { sender: { sender_id: { open_id: 'ou_eve' }, sender_type: 'user' }, message: {
        message_id: 'om_f', chat_id: 'oc_f', chat_type: 'p2p', message_type: 'text', create_time: `${Date.now()}`, content: '{"text":"forged"}',
      } },
    }) }],
  ];
  for (const port of ports) {
    for (const host of ['127.0.0.1', 'localhost']) {
      for (const [path, options] of calls) {
        await fetch(`http://${host}:${port}${path}`, { signal: AbortSignal.timeout(3000), ...options }).then(async answer => {
          read.push(`${answer.status} ${await answer.text()}`);
        }, () => {});
      }
    }
  }
  return read;
}

test('a page of another origin reads and forges nothing at any port of the program', async () => {
  const app = await start();
  await app.say('victim', SECRET);
  const before = await app.history('victim');
  // As the engine's own server was: the page can do what it says.
  const careless = createServer((_, response) => response.writeHead(200, { 'access-control-allow-origin': '*', 'access-control-allow-headers': '*' }).end(SECRET));
  const page_ = createServer((_, response) => response.writeHead(200, { 'content-type': 'text/html' }).end('<title>evil</title>'));
  const [carelessPort, pagePort] = [await listening(careless), await listening(page_)];
  try {
    for (const host of ['127.0.0.1', 'localhost']) {
      const page = await browser.newPage();
      await page.goto(`http://${host}:${pagePort}/`);
      assert((await page.evaluate(attack, [carelessPort])).some(text => text.includes(SECRET)), 'the attack works');
      const open = ports(app.pid);
      assert.deepEqual(open, [Number(new URL(app.base).port)]);
      const read = await page.evaluate(attack, open);
      assert.deepEqual(read.filter(text => !/^0 $/.test(text)), [], 'nothing but opaque answers');
      await page.close();
    }
    assert.deepEqual(await app.history('victim'), before);
    const { chats } = (await app.call('GET', '/v1/chats')).body;
    assert.deepEqual(chats.map(({ chatKey }) => chatKey), ['http:chat:dev:victim']);
  } finally {
    careless.close(), careless.closeAllConnections(), page_.close(), page_.closeAllConnections();
    app.end();
  }
});

test('the printed address signs in, and the key is in no address afterwards', async () => {
  const platform = await telegram();
  const app = await start(platform.settings);
  const key = readFileSync(join(app.folder, 'api-key'), 'utf8').trim();
  try {
    const { page, complaints, close } = await open(browser, `${app.base}/#key=${key}`);
    await page.getByRole('heading', { name: 'Nothing has been said yet' }).waitFor();
    assert.equal(page.url(), `${app.base}/#/`);
    assert.deepEqual(await page.evaluate(() => [history.length, document.cookie]), [2, ''], 'about:blank and the page');
    await page.getByRole('link', { name: 'Outbox' }).click();
    await page.getByText('Nothing was to be sent yet').waitFor();
    await page.reload();
    await page.getByText('Nothing was to be sent yet').waitFor();
    assert.deepEqual(complaints, []);
    await close();

    // Without it, and with one of another program, one is asked.
    for (const hash of ['', '#key=0123456789']) {
      const { page, close } = await open(browser, `${app.base}/${hash}`);
      await page.getByLabel('API key').waitFor();
      assert(!(await page.content()).includes(key));
      await close();
    }
  } finally {
    app.end();
    platform.end();
  }
});
