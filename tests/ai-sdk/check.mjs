// Gives stored histories to the AI SDK: `node check.mjs <folder of {history, context}>`. See run.
import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

const VERSIONS = ['ai-6.0.0', 'ai-6', 'ai-7'];
const folder = process.argv[2];
const files = readdirSync(folder).filter(name => name.endsWith('.json'));
assert(files.length > 0, `no histories in ${folder}`);
const states = new Set();

for (const name of VERSIONS) {
  const ai = await import(name);
  const { version } = JSON.parse(readFileSync(new URL(`node_modules/${name}/package.json`, import.meta.url)));
  let checked = 0;
  for (const file of files) {
    const { history, context } = JSON.parse(readFileSync(join(folder, file)));
    try {
      // Every form of every message alone, and what a conversation goes on from as a whole.
      for (const messages of [...history.map(message => [message]), context]) {
        await check(ai, messages);
        checked += messages.length;
      }
    } catch (error) {
      error.message = `${file} by ai ${version}: ${error.message}`;
      throw error;
    }
  }
  console.log(`ai ${version}: ${checked} messages of ${files.length} histories`);
}
console.log(`tool parts in the states ${[...states].sort().join(', ')}`);

async function check(ai, messages) {
  if (messages.length === 0) return;
  await ai.validateUIMessages({ messages });
  const calls = messages.flatMap(message => message.parts).filter(part => part.toolCallId !== undefined);
  for (const { state } of calls) states.add(state);
  const sent = await ai.convertToModelMessages(messages);
  const contents = sent.filter(message => Array.isArray(message.content)).flatMap(message => message.content);
  const of = type => contents.filter(part => part.type === type);
  const open = ['approval-requested', 'approval-responded'];
  // A request that was overtaken by what a user said since is left out from 7 on; it is still stored, and open.
  const lastUser = messages.findLastIndex(message => message.role === 'user');
  const overtaken = messages
    .slice(0, Math.max(lastUser, 0))
    .flatMap(message => message.parts)
    .filter(part => part.state === 'approval-requested').length;
  const isEach = (sent, all, what) => assert(sent === all || sent === all - overtaken, `${what}: ${sent} of ${all}`);
  isEach(of('tool-call').length, calls.length, 'each call is sent');
  const results = of('tool-result').map(part => part.toolCallId);
  const closed = calls.filter(part => !open.includes(part.state)).map(part => part.toolCallId);
  // What was denied has its result in some versions, and elsewhere the word that denies it.
  const denied = calls.filter(part => part.state === 'output-denied').map(part => part.toolCallId);
  assert.deepEqual(
    results.filter(id => !denied.includes(id)).sort(),
    closed.filter(id => !denied.includes(id)).sort(),
    'each call that is over is sent with its result',
  );
  isEach(
    of('tool-approval-request').length,
    calls.filter(part => part.approval !== undefined).length,
    'each request for an approval is sent',
  );
  assert.equal(
    of('tool-approval-response').length,
    calls.filter(part => part.approval?.approved !== undefined).length,
    'each answer to one is sent',
  );
  // A result stands directly behind the message of its call.
  sent.forEach((message, at) => {
    if (message.role !== 'tool') return;
    const before = sent[at - 1].content.filter(part => part.type === 'tool-call').map(part => part.toolCallId);
    const own = message.content.filter(part => part.type === 'tool-result').map(part => part.toolCallId);
    assert(own.every(id => before.includes(id)), 'no call is parted from its result');
  });
}
