// Mastra's DynamoDB store, by the protocol of clients.py.
import { createInterface } from "node:readline";
import { DynamoDBStore } from "@mastra/dynamodb";

const open = async () => {
  const store = new DynamoDBStore({
    name: "bench",
    config: {
      id: "bench",
      region: process.env.AWS_REGION,
      tableName: "mastra",
      endpoint: process.env.AWS_ENDPOINT_URL,
      credentials: { accessKeyId: process.env.AWS_ACCESS_KEY_ID, secretAccessKey: process.env.AWS_SECRET_ACCESS_KEY },
    },
  });
  await store.init();
  return store.stores.memory;
};

const memory = await open();
const start = Date.now();
const message = (chat, id, text, at = Date.now()) => ({
  id: `${chat}-${id}`,
  threadId: chat,
  resourceId: "ada",
  role: "user",
  type: "text",
  createdAt: new Date(at),
  content: { format: 2, parts: [{ type: "text", text }] },
});
const threads = new Set();
const thread = async (chat) => {
  if (threads.has(chat)) return;
  threads.add(chat);
  const now = new Date();
  await memory.saveThread({ thread: { id: chat, resourceId: "ada", title: "", metadata: {}, createdAt: now, updatedAt: now } });
};
const commands = {
  fill: async ({ chat, texts }) => {
    await thread(chat);
    // As many as one call of saveMessages takes: each is a put of its own.
    await memory.saveMessages({ messages: texts.map((text, i) => message(chat, `f${i}`, text, start - 1e8 + i)) });
  },
  append: async ({ chat, id, text }) => {
    await thread(chat);
    await memory.saveMessages({ messages: [message(chat, id, text)] });
  },
  load: async ({ chat }) => ({ count: (await memory.listMessages({ threadId: chat, perPage: false })).messages.length }),
  race: async ({ chat, texts }) => {
    await thread(chat);
    const stores = await Promise.all(texts.map(open));
    const results = await Promise.allSettled(
      texts.map((text, i) => stores[i].saveMessages({ messages: [message(chat, `r${i}`, text)] })),
    );
    return { errors: results.filter((each) => each.status === "rejected").map((each) => String(each.reason)) };
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line);
  let answer;
  try {
    answer = (await commands[command.do](command)) ?? {};
  } catch (error) {
    answer = { error: String(error.cause ?? error) };
  }
  console.log(JSON.stringify(answer));
}
