// The program with the tools of two real MCP servers: the official reference server and one of fastmcp. See run.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { createServer } from 'node:net';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Model, program } from './world.mjs';

const { ANNALS_PROGRAM, FASTMCP_PYTHON } = process.env;
const everythingPath = 'node_modules/@modelcontextprotocol/server-everything/dist/index.js';
const TIMEOUT_SECS = 2;

const pause = millis => new Promise(resolve => setTimeout(resolve, millis));

/** A server as a process, on one port for its whole life. */
class Server {
  static async start(command) {
    const free = createServer().listen(0, '127.0.0.1');
    await new Promise(resolve => free.once('listening', resolve));
    const server = new Server();
    server.port = free.address().port;
    await new Promise(resolve => free.close(resolve));
    server.command = command;
    await server.run();
    return server;
  }

  async run() {
    const [binary, ...args] = this.command(this.port);
    this.child = spawn(binary, args, { env: { ...process.env, PORT: String(this.port) }, stdio: 'ignore' });
    for (let looks = 0; looks < 300; looks++) {
      // A GET without a session is refused by both, as soon as they listen.
      if (await fetch(this.url).then(() => true, () => false)) return;
      await pause(50);
    }
    assert.fail(`${binary} does not listen`);
  }

  get url() {
    return `http://127.0.0.1:${this.port}/mcp`;
  }

  end() {
    const ended = new Promise(resolve => this.child.once('exit', resolve));
    this.child.kill('SIGKILL');
    return ended;
  }

  /** Forgets all sessions. */
  async restart() {
    await this.end();
    await this.run();
  }
}

const data = mkdtempSync(join(tmpdir(), 'annals-mcp-'));
let model, everything, fast, annals;

before(async () => {
  model = await Model.start();
  everything = await Server.start(() => [process.execPath, everythingPath, 'streamableHttp']);
  fast = await Server.start(port => [FASTMCP_PYTHON, 'server.py', port]);
  const shared = { approval: 'destructive', timeoutSecs: TIMEOUT_SECS };
  const tools = { mcpServers: { all: { url: everything.url, ...shared }, fast: { url: fast.url, ...shared } } };
  annals = await program(ANNALS_PROGRAM, data, {
    MODEL: 'openai:test',
    MODEL_BASE_URL: model.url,
    MODEL_API_KEY: 'none',
    TOOLS: JSON.stringify(tools),
  });
});

after(async () => {
  annals?.end();
  await Promise.all([everything?.end(), fast?.end()]);
  model?.server.closeAllConnections();
  model?.server.close();
  rmSync(data, { recursive: true, force: true });
});

/** Says `text` in a chat of its own, while the model calls `steps`, one after the other; the outcomes of the calls. */
async function calls(chat, text, ...steps) {
  model.script = steps.map(step => (typeof step === 'function' ? step : async () => step));
  model.offered = [];
  const headers = { authorization: 'Bearer dev', 'content-type': 'application/json' };
  const said = await fetch(`${annals.base}/v1/chats/${chat}/messages?wait=25`, {
    method: 'POST',
    headers,
    body: JSON.stringify({ userId: 'ada', text }),
  });
  assert.equal(said.status, 200, await said.clone().text());
  return outcomes((await said.json()).reply);
}

const outcomes = reply =>
  reply.parts.filter(part => part.toolCallId).map(({ state, output, errorText }) => output ?? errorText ?? state);

const names = () => model.offered.map(tools => tools.map(tool => tool.name).filter(name => /^(all|fast)_/.test(name)));

const LATE = `there was no answer within ${TIMEOUT_SECS} seconds. Whether the call was carried out is not known.`;

test('their schemas are offered', async () => {
  await calls('schemas', 'Hello.');
  const [tools] = model.offered;
  const schema = name => tools.find(tool => tool.name === name)?.parameters;
  assert.deepEqual(Object.keys(schema('all_get-sum').properties), ['a', 'b']);
  assert.deepEqual(schema('all_get-sum').required, ['a', 'b']);
  assert.deepEqual(schema('fast_add').required, ['a']);
  assert.equal(schema('fast_secret'), undefined);
  assert.ok(names()[0].length > 15, names()[0].join());
});

test('results, images and errors', async () => {
  const [sum, echo, weather, logo, research] = await calls('official', 'Go.', [
    ['all_get-sum', { a: 2, b: 3 }],
    ['all_echo', { message: 'hi' }],
    ['all_get-structured-content', { location: 'Chicago' }],
    ['all_get-tiny-image', {}],
    ['all_simulate-research-query', { topic: 'tea', ambiguous: false }],
  ]);
  assert.equal(sum, 'The sum of 2 and 3 is 5.');
  assert.equal(echo, 'Echo: hi');
  assert.deepEqual(weather, { temperature: 36, conditions: 'Light rain / drizzle', humidity: 82 });
  assert.match(logo, /\[an image \(image\/png\) of \d+ bytes, which cannot be shown here\]/);
  // It needs an MCP task, and says so in a result.
  assert.match(research, /requires task augmentation/);

  const told = await calls('fast', 'Go.', [
    ['fast_add', { a: 2 }],
    ['fast_fail', {}],
    ['fast_picture', {}],
    ['fast_add', { a: 'two' }],
  ]);
  assert.deepEqual(told[0], { result: 3 });
  assert.equal(told[1], 'the till is broken');
  assert.match(told[2], /an image \(image\/png\)/);
  assert.match(told[3], /"a" of the input must be integer/);
});

test('a destructive tool waits for an approval', async () => {
  assert.deepEqual(await calls('wipes', 'Wipe it.', [['fast_wipe', { name: 'disk' }]]), ['approval-requested']);
  await calls('wipes', '/approve');
  for (let looks = 0; looks < 100; looks++) {
    const headers = { authorization: 'Bearer dev' };
    const { messages } = await (await fetch(`${annals.base}/v1/chats/wipes/messages`, { headers })).json();
    const wiped = messages.flatMap(outcomes).find(outcome => outcome.result === 'wiped disk');
    if (wiped) return;
    await pause(100);
  }
  assert.fail('not wiped');
});

test('a call that takes too long is followed by one that succeeds', async () => {
  const official = await calls('slow', 'Go.', [['all_trigger-long-running-operation', { duration: 30, steps: 1 }]], [['all_echo', { message: 'hi' }]]);
  assert.deepEqual(official, [LATE, 'Echo: hi']);
  assert.deepEqual(await calls('slower', 'Go.', [['fast_slow', {}]], [['fast_add', { a: 1 }]]), [LATE, { result: 2 }]);
});

test('a server that restarts within a turn costs at most the next call', async () => {
  const echo = [['all_echo', { message: 'hi' }]];
  const restarted = server => async () => {
    await server.restart();
    return server === everything ? echo : [['fast_add', { a: 1 }]];
  };
  // 400, and an error without an id.
  const official = await calls('restart', 'Go.', echo, restarted(everything), echo, echo);
  const refused = 'the tool refused the call: Bad Request: No valid session ID provided';
  assert.deepEqual(official, ['Echo: hi', refused, 'Echo: hi', 'Echo: hi']);
  // 404, by which rmcp begins another session and sends the call again.
  const fastmcp = await calls('restarts', 'Go.', [['fast_add', { a: 1 }]], restarted(fast), [['fast_add', { a: 2 }]]);
  assert.deepEqual(fastmcp, [{ result: 2 }, { result: 2 }, { result: 3 }]);
});

test('a tool that is added within a turn is offered by its next request', async () => {
  const told = await calls('added', 'Go.', [['fast_unlock', {}]], [['fast_secret', {}]]);
  assert.deepEqual(told, [{ result: 'unlocked' }, { result: 'the secret' }]);
  const [first, second] = names();
  assert.deepEqual(second.filter(name => !first.includes(name)), ['fast_secret']);
});
