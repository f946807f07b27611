// What the program is run with: a model and an MCP server, both on loopback ports, that do what the last message says.
import { spawn } from 'node:child_process';
import { createServer } from 'node:http';
import { createInterface } from 'node:readline';

const listen = handler =>
  new Promise(resolve => {
    const server = createServer(async (request, response) => {
      let body = '';
      for await (const piece of request) body += piece;
      await handler(request, response, body === '' ? undefined : JSON.parse(body));
    });
    server.listen(0, '127.0.0.1', () => resolve(server));
  });
const address = server => `http://127.0.0.1:${server.address().port}`;

/** Chat completions, streamed: a word at a time. */
export class Model {
  /** What is asked: the texts of each request. */
  asked = [];
  /** Called between two words of an answer: what it returns is waited for. */
  pause = async () => {};
  /** What it says to a request, by what a person said last and the system part; nothing is an answer that it makes itself. */
  says = () => undefined;
  /** What its next answers call, each `async () => [[tool, input], …]`; after them it answers by what is said. */
  script = [];
  /** The tools that each request offers. */
  offered = [];
  /** The tokens that it counts for each answer, as `usage`. */
  counts = undefined;
  /** The status of a model that refuses every request. */
  refuses = undefined;
  #answers = 0;

  static async start() {
    const model = new Model();
    model.server = await listen((_, response, body) => model.#answer(response, body));
    model.url = `${address(model.server)}/v1`;
    return model;
  }

  async #answer(response, body) {
    const json = (status, value) => response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value));
    if (this.refuses) return json(this.refuses, { error: { message: 'refused' } });
    // The list of models, for the checks of the program.
    if (body === undefined) return json(200, { data: [{ id: 'garden-1' }] });
    const { messages, tools } = body;
    this.asked.push(messages.filter(message => message.role !== 'system').map(text));
    this.offered.push((tools ?? []).map(tool => tool.function));
    const scripted = await this.script.shift()?.();
    const chunk = (delta, finish_reason = null) =>
      response.write(`data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', choices: [{ index: 0, delta, finish_reason }] })}\n\n`);
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const last = messages.at(-1);
    const system = messages.filter(message => message.role === 'system').map(text).join('\n');
    // Where several people speak, each message is an element.
    const said = text(messages.findLast(message => message.role === 'user')).replaceAll(/<\/?(?:message|event)[^>]*>/g, '');
    const wanted = /^(look|refund)/.exec(said)?.[0];
    const tool = tools?.find(tool => tool.function.name === { look: 'shop_lookup', refund: 'shop_refund' }[wanted]);
    if (scripted) {
      const calls = scripted.map(([name, input], index) => ({ index, id: `call_${++this.#answers}`, type: 'function', function: { name, arguments: JSON.stringify(input) } }));
      chunk({ tool_calls: calls });
      chunk({}, 'tool_calls');
      return response.end('data: [DONE]\n\n');
    }
    if (last.role === 'user' && /think/.test(said)) chunk({ reasoning_content: 'Beans, ' }), chunk({ reasoning_content: 'I think.' });
    if (last.role === 'user' && tool !== undefined) {
      chunk({ content: 'Let me see.' });
      const call = { name: tool.function.name, arguments: JSON.stringify({ order: /^refund (\S+)/.exec(said)?.[1] ?? 'A1' }) };
      chunk({ tool_calls: [{ index: 0, id: `call_${++this.#answers}`, type: 'function', function: call }] });
      chunk({}, 'tool_calls');
    } else {
      const own = () => (last.role === 'tool' ? `It said: ${text(last)}` : `Answer ${++this.#answers} to: ${said}`);
      const answer = this.says(said, system) ?? own();
      for (const word of answer.split(/(?<= )/)) {
        chunk({ content: word });
        await this.pause();
      }
      chunk({}, 'stop');
    }
    if (this.counts) response.write(`data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', choices: [], usage: this.counts })}\n\n`);
    response.end('data: [DONE]\n\n');
  }
}

const whole = message =>
  typeof message.content === 'string' ? message.content : (message.content ?? []).map(part => part.text ?? '').join('');
/** The text of a message without the times that the program tells beside it. */
const text = message => whole(message).replaceAll(/<time>.*?<\/time>\n?/g, '').replace(/\n$/, '');

/** A shop: `lookup` reads, `refund` must be allowed. */
export async function shop() {
  const schema = { type: 'object', properties: { order: { type: 'string' } }, required: ['order'] };
  const tools = [
    { name: 'lookup', description: 'Looks an order up.', inputSchema: schema, annotations: { readOnlyHint: true } },
    { name: 'refund', description: 'Pays an order back.', inputSchema: schema },
  ];
  const refunds = [];
  const server = await listen((request, response, message) => {
    if (request.method !== 'POST') return response.writeHead(405).end();
    if (message.id === undefined) return response.writeHead(202).end();
    const { name, arguments: input } = message.params ?? {};
    if (message.method === 'tools/call' && name === 'refund') refunds.push(input);
    const result = {
      initialize: () => ({ protocolVersion: message.params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 'shop', version: '1' } }),
      'tools/list': () => ({ tools }),
      'tools/call': () => ({ content: [{ type: 'text', text: `${name} of ${input.order} done` }] }),
      ping: () => ({}),
    }[message.method];
    response.writeHead(200, { 'content-type': 'application/json' });
    const error = { code: -32601, message: 'no such method' };
    response.end(JSON.stringify({ jsonrpc: '2.0', id: message.id, ...(result ? { result: result() } : { error }) }));
  });
  const settings = { mcpServers: { shop: { url: address(server), approval: 'destructive' } } };
  return { server, refunds, settings: JSON.stringify(settings) };
}

/** The program, with the development key. */
export async function program(binary, folder, settings) {
  const env = { ...process.env, ANNALS_DATA_DIR: folder, ANNALS_PORT: '0', RUST_LOG: 'warn', ...settings };
  const child = spawn(binary, [], { env, stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = new Promise((_, reject) => child.once('exit', code => reject(new Error(`the program ended with ${code}`))));
  ended.catch(() => {});
  const greeted = new Promise(resolve =>
    createInterface({ input: child.stdout }).on('line', line => {
      const at = /Annals answers at (\S+)/.exec(line);
      if (at) resolve(at[1]);
    }),
  );
  return { base: await Promise.race([greeted, ended]), pid: child.pid, end: () => child.kill('SIGKILL') };
}
