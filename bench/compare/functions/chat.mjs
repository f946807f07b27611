// The Chat SDK with its Telegram adapter, its state in memory.
import { createMemoryState } from "@chat-adapter/state-memory";
import { createTelegramAdapter } from "@chat-adapter/telegram";
import { Chat } from "chat";
import { put } from "./put.mjs";

const bot = new Chat({
  userName: "bench",
  adapters: { telegram: createTelegramAdapter({ mode: "webhook" }) },
  state: createMemoryState(),
  logger: "error",
});
bot.onDirectMessage((thread, message) => put(thread.id, message.id, message.text));

export const handler = async ({ rawPath, headers, body }) => {
  const tasks = [];
  const request = new Request(`https://${headers.host}${rawPath}`, { method: "POST", headers, body });
  const options = { waitUntil: (task) => tasks.push(task), propagateHandlerErrors: true };
  const response = await bot.webhooks.telegram(request, options);
  await Promise.all(tasks);
  return { statusCode: response.status, body: await response.text() };
};
