// The README's pictures, of chats as they might be: `tests/console/screenshots`.
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { launch, open, private_, until, withModel } from './stage.mjs';

const images = process.env.ANNALS_IMAGES;
mkdirSync(images, { recursive: true });

const ANSWERS = [
  [/^You keep the memory/, '- [fact] Ada grows tomatoes and beans on a balcony that faces south.\n- [preference] Ada wants temperatures in Celsius.\n- [task] Repot the basil before 12 May.'],
  [/<conversation>/, 'Ada plans her **balcony garden**, which faces south: tomatoes *Sungold* at the back, bush beans in front. Sown on 3 March, pricked out on the 24th; nights under 10 °C are too cold for both. She waters in the morning and has 60 litres of peat-free soil left.'],
  [/fertili/i, 'Little and often. From the first flowers on:\n\n| week | tomatoes | beans |\n| --- | --- | --- |\n| 1 | half dose | none |\n| 2 | full dose | none |\n| 3 | full dose | half dose |\n\nBeans make their own nitrogen, so they want **potash**, if anything.'],
  [/outside/, 'Not yet. The nights are forecast at **6 to 8 °C** until Friday; Sungold wants 10 °C or more.\n\n1. From Saturday on, put them out for *two hours* at noon.\n2. Add an hour each day.\n3. After a week they may stay out.'],
  [/refund|order/, 'Your soil, 60 litres, was sent on Tuesday and should arrive **tomorrow**.'],
  [/露台/, '可以，不过要分几天慢慢来：\n\n- 前三天：中午放出去 **两小时**\n- 之后每天多一小时\n- 夜间低于 10 °C 时搬回室内'],
  [/浇水/, '番茄喜欢“见干见湿”：手指插入土里 3 厘米，觉得干了再浇透。早上浇最好。'],
  [/.*/, 'That sounds good. Shall I remind you of it next week?'],
];

const { app, model } = await withModel({ CONTEXT_WINDOW: '4000', KEEP_RECENT: '2', SYSTEM_PROMPT: 'You are a patient gardener. Answer briefly, and in the language you are asked in.' });
model.says = (said, system) => ANSWERS.find(([question]) => question.test(system) || question.test(said))[1];
const settled = chat => until('it is answered', async () => (await app.call('GET', `/v1/chats/${encodeURIComponent(chat)}`)).body.pendingTurn === null);

const garden = 'web:room:dev:balcony';
for (const [at, text] of [
  'I want to grow tomatoes and beans on my balcony. It faces south, and I have 60 litres of soil. What do I sow first, and when?',
  'I have sown the tomatoes on 3 March. When do I prick them out? Celsius please, not Fahrenheit.',
  'Pricked out today, the 24th. How often do I water them, and at what time of the day?',
  'How much fertiliser do they take, each of them?',
].entries()) await app.say(garden, text, { messageId: `m${at + 1}` });
await app.call('POST', `/v1/chats/${encodeURIComponent(garden)}/compact?wait=20`, { userId: 'ada' });
await app.say(garden, 'It is 18 °C at noon now. May they go outside?');

const day = Math.floor(Date.now() / 1000);
await app.telegram(private_(8800421, 1, '番茄苗多久浇水一次？', '李梅', day - 200));
await settled('telegram:chat:8800421');
await app.telegram(private_(8800421, 2, '现在可以把番茄苗放到露台上吗？', '李梅', day - 120));
await settled('telegram:chat:8800421');
await app.say('http:chat:dev:orders', 'Where is my order?', { userId: 'noor' });
await app.say('web:room:dev:seeds', 'Which beans climb least?', { userId: 'sam' });
await app.call('POST', `/v1/chats/${encodeURIComponent('web:room:dev:seeds')}/reset`, { userId: 'sam' });
await app.say('http:chat:dev:desk', 'How much fertiliser for a lemon?', { userId: 'jo' });
await settled(garden);
await app.telegram(private_(42, 1, 'Thanks, the beans are up!', 'Tomás'));
await settled('telegram:chat:42');

const browser = await launch();
const ready = async page => {
  await page.locator('.bubble').last().waitFor({ state: 'attached' });
  await page.locator('.tokens').waitFor({ state: 'attached' });
  await page.evaluate(() => document.activeElement?.blur());
  // Two looks at the list, with its tokens.
  await page.waitForTimeout(500);
};
for (const [name, chat, view, options] of [
  ['console-light', garden, '', { colorScheme: 'light', size: [1440, 900] }],
  ['console-dark', 'telegram:chat:8800421', '', { colorScheme: 'dark', size: [1440, 900], locale: 'zh-CN' }],
  ['console-narrow', garden, '', { colorScheme: 'light', size: [390, 780], deviceScaleFactor: 2, hasTouch: true }],
  ['console-narrow-context', garden, 'context', { colorScheme: 'dark', size: [390, 780], deviceScaleFactor: 2, hasTouch: true }],
]) {
  const { page, complaints, close } = await open(browser, app.url(chat, view), { reducedMotion: 'reduce', ...options });
  await ready(page);
  await page.screenshot({ path: join(images, `${name}.png`) });
  if (complaints.length > 0) throw new Error(complaints.join('\n'));
  await close();
}
await browser.close();
app.end();
