// grammY, with the bot's identity given, so that a start does not ask Telegram for it.
import { Bot, webhookCallback } from "grammy";
import { put } from "./put.mjs";

const botInfo = { id: 123456, is_bot: true, first_name: "Bench", username: "bench_bot" };
const bot = new Bot(process.env.TELEGRAM_BOT_TOKEN, { botInfo });
bot.on("message:text", ({ chat, message }) => put(`telegram:${chat.id}`, String(message.message_id), message.text));

export const handler = webhookCallback(bot, "aws-lambda-async", {
  secretToken: process.env.TELEGRAM_WEBHOOK_SECRET_TOKEN,
});
