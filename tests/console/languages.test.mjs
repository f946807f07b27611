// The console in the browser's language: nothing of it is left in another one, and axe finds nothing, wide and narrow, light and dark.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { AxeBuilder } from '@axe-core/playwright';
import { launch, open, private_, telegram, until, withModel } from './stage.mjs';

let browser, app, model, platform;
const ROOM = 'web:room:ops:厨房';
const TELEGRAM = 'telegram:chat:42';

before(async () => {
  platform = await telegram();
  ({ app, model } = await withModel({ HTTP_API_KEYS: 'app:app-secret,ops:ops-secret:admin', CONTEXT_WINDOW: '1500', KEEP_RECENT: '2', ...platform.settings }, 'ops-secret'));
  // Whatever is said is Chinese, so that what is not is the console's.
  model.says = (said, system) => (system.startsWith('You keep the memory') ? '- [preference] 喜欢喝汤' : /refund/.test(said) ? undefined : '- [x] 好的\n- [ ] 再说\n\n| 菜 | 时间 |\n| --- | --- |\n| 汤 | 四十分钟 |');
  for (const [at, text] of ['晚饭吃什么？', '那午饭呢？', '早饭呢？'].entries()) await app.say(ROOM, text, { userId: '艾达', messageId: `m${at}` });
  await app.call('POST', `/v1/chats/${encodeURIComponent(ROOM)}/compact?wait=20`, { userId: '艾达' });
  await app.call('POST', `/v1/chats/${encodeURIComponent(ROOM)}/reset`, { userId: '艾达' });
  await app.say(ROOM, '重新开始', { userId: '艾达' });
  await app.title(ROOM, '厨房');
  platform.blockedBy.add(42);
  await app.telegram(private_(42, 1, '在吗？', '李梅'), 's3cret');
  await until('the delivery has failed', async () => (await app.history(TELEGRAM)).some(({ metadata }) => metadata.deliveryFailure));
  browser = await launch();
});
after(async () => {
  await browser?.close();
  app?.end();
  platform?.end();
});

async function signIn(page, label, key = 'ops-secret') {
  await page.getByLabel(label).fill(key);
  await page.keyboard.press('Enter');
  await page.locator('.chats').waitFor();
}

/** Names, ids and terms that are the same in every language, and what a platform says. */
const NAMES =
  /\b(telegram:chat:42|m\d\/reply|Annals|API|HTTP|ALLOW_FROM|ALLOW_CHATS|ChatKey|openapi\.json|Telegram|Lark|Discord|Web|token|ms|doctor|id|ops|app|JSONL|Markdown|Mac|Ctrl|Shift|Enter|Escape|MB|KB|JPEG|PNG|GIF|WebP|preference|annals|openai:garden-1|dot\.png|film\.mp4|reset|console-[\d-]+)\b|Forbidden: bot was blocked by the user|\/compact\b/g;

/** Texts of the page, visible or for a screen reader, in which Latin letters are left when the names are taken out. */
const english = page =>
  page.evaluate(names => {
    const found = [];
    const own = text => text.replace(new RegExp(names, 'g'), '');
    const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_TEXT);
    for (let node = walk.nextNode(); node; node = walk.nextNode()) {
      const element = node.nodeType === Node.TEXT_NODE ? node.parentElement : node;
      // Ids, calls of the API, and what the server answers.
      if (element.closest('code, pre, kbd, noscript, script, .notice, time, .finding b, .finding .plain, .steps .plain')) continue;
      const texts = node.nodeType === Node.TEXT_NODE ? [node.data] : ['aria-label', 'title', 'placeholder', 'alt'].map(name => node.getAttribute(name) ?? '');
      for (const text of texts) if (/[A-Za-z]{2,}/.test(own(text))) found.push(text.trim());
    }
    return [...new Set(found)];
  }, NAMES.source);

const VIEWS = {
  async '首页'(page) {
    await page.goto(`${app.base}/#/`);
    await page.getByText('选择一个聊天').waitFor();
  },
  async '聊天'(page) {
    await page.goto(app.url(ROOM));
    await page.getByText('模型从这里开始看到').waitFor();
    await page.getByRole('checkbox', { name: '已完成' }).first().waitFor({ state: 'attached' });
    await page.getByRole('button', { name: /条消息的摘要/ }).first().click();
  },
  async '步骤'(page) {
    await page.goto(app.url(ROOM));
    await page.getByRole('button', { name: '这条回答是怎样生成的' }).last().click();
    await page.getByText('与发送时一致').click();
    await page.locator('.steps').getByText('工具').first().waitFor();
  },
  async '状态'(page) {
    await page.goto(`${app.base}/#/status`);
    await page.locator('.finding').first().waitFor();
  },
  async '未送达'(page) {
    await page.goto(app.url(TELEGRAM));
    await page.locator('.bubble .failure').getByText('未送达：').waitFor();
    await page.getByText('不会发送到 Telegram').waitFor();
  },
  async '上下文'(page) {
    await page.goto(app.url(ROOM, 'context'));
    await page.getByText('会话开始于').waitFor();
  },
  async '归档'(page) {
    await page.goto(app.url(ROOM, 'segments'));
    await page.getByPlaceholder('搜索归档').fill('晚饭');
    await page.keyboard.press('Enter');
    await page.locator('mark').first().waitFor();
  },
  async '归档段'(page) {
    const [{ id }] = await app.segments(ROOM);
    await page.goto(app.url(ROOM, `segments/${id}`));
    await page.locator('.archived .bubble').first().waitFor();
  },
  async '记忆'(page) {
    await page.goto(app.url(ROOM, 'memory'));
    await page.getByLabel('谁的记忆').fill('艾达');
    await page.getByRole('button', { name: '显示' }).click();
    await page.getByRole('button', { name: '编辑' }).last().click();
    await page.getByRole('button', { name: '保存' }).waitFor();
  },
  async '发件箱'(page) {
    await page.goto(`${app.base}/#/outbox`);
    await page.getByText('还没有要发送的内容').waitFor();
  },
  async '实时'(page) {
    await page.goto(`${app.base}/#/live`);
    await page.locator('.event').getByText('未送达').waitFor();
  },
  async '用量'(page) {
    await page.goto(`${app.base}/#/usage`);
    await page.getByText('没有计数过').or(page.getByRole('img', { name: /按天/ })).waitFor();
  },
  async '空聊天'(page) {
    await page.goto(app.url('web:room:ops:空'));
    await page.getByText('这里还没有人说过话').waitFor();
  },
  async '重置'(page) {
    await page.goto(app.url(ROOM));
    await page.locator('.timeline .bubble').first().waitFor();
    await page.getByRole('button', { name: '重置…' }).first().click();
    await page.getByRole('alertdialog').getByText('什么都不会删除').waitFor();
  },
  async '忘记'(page) {
    await page.getByRole('button', { name: '忘记…' }).first().click();
    await page.getByRole('alertdialog').getByText('无法恢复').waitFor();
  },
  async '导出'(page) {
    await page.getByRole('button', { name: '导出…' }).first().click();
    await page.getByRole('dialog').getByText('便于阅读').waitFor();
  },
  async '快捷键'(page) {
    await page.locator('h1').first().focus();
    await page.keyboard.press('?');
    await page.getByRole('dialog', { name: '快捷键' }).waitFor();
  },
  async '转到聊天'(page) {
    await page.keyboard.press('Control+k');
    await page.getByRole('combobox', { name: /^名称/ }).fill('厨房');
    await page.getByRole('listbox').getByRole('option').first().waitFor();
  },
  async '文件'(page) {
    await page.locator('input[type=file]').setInputFiles([{ name: 'film.mp4', mimeType: 'video/mp4', buffer: Buffer.alloc(2_500_000) }]);
    await page.getByRole('alert').getByText('film.mp4 有 2.5 MB').waitFor();
  },
  async '未发送'(page) {
    await page.route('**/api/chat', route => route.abort());
    await page.getByRole('textbox', { name: '给 厨房 发消息' }).fill('有人吗？');
    await page.keyboard.press('Enter');
    await page.getByText('未发送。').waitFor();
    await page.unroute('**/api/chat');
    // Not the button of an answer, which has the same name.
    await page.getByRole('alert').filter({ hasText: '未发送。' }).getByRole('button', { name: '重试' }).click();
    await page.getByText('未发送。').waitFor({ state: 'detached' });
    // Escape, which follows, would stop the answer.
    await until('it is answered', async () => {
      const [asked, answer] = (await app.history(ROOM)).slice(-2);
      return answer.role === 'assistant' && asked.parts.some(({ text }) => text === '有人吗？');
    });
    await page.getByRole('button', { name: '停止' }).waitFor({ state: 'detached' });
  },
  async '搜索'(page) {
    const message = { id: 'm0', role: 'user', parts: [{ type: 'text', text: '很久以前' }], metadata: { ts: 1000, kind: 'normal', messageId: 'm0', userId: '艾达' } };
    await page.route('**/search?**', route => route.fulfill({ json: { hits: new URL(route.request().url()).searchParams.get('q') === '无' ? [] : [{ message: { ...message, id: 'x9' }, score: 1, context: [] }] } }));
    await page.getByRole('button', { name: '搜索这个聊天' }).click();
    const finder = page.getByRole('search', { name: '搜索这个聊天' });
    await finder.getByRole('searchbox').fill('以前');
    await page.keyboard.press('Enter');
    await finder.getByRole('button', { name: /艾达/ }).click();
    await finder.getByText('它太久远').waitFor();
  },
  async '没有结果'(page) {
    const finder = page.getByRole('search', { name: '搜索这个聊天' });
    await finder.getByRole('searchbox').fill('无');
    await page.keyboard.press('Enter');
    await finder.getByText('没有人说过').waitFor();
    await finder.getByRole('button', { name: '关闭搜索' }).click();
  },
  async '重命名'(page) {
    await page.getByRole('button', { name: '重命名' }).click();
    await page.getByRole('dialog').getByRole('textbox', { name: '聊天的标题' }).waitFor();
  },
  async '批准'(page) {
    await app.say('web:room:ops:退款', 'refund', { userId: '诺拉' });
    await page.goto(app.url('web:room:ops:退款'));
    await page.locator('.tool').getByText('等待批准').waitFor();
    await page.getByRole('button', { name: '批准', exact: true }).waitFor();
  },
};

test('in Chinese, nothing of the console is English', async () => {
  const { page, complaints, close } = await open(browser, app.base, { locale: 'zh-CN', reducedMotion: 'reduce' });
  const left = [];
  await page.getByLabel('API 密钥').waitFor();
  assert.equal(await page.evaluate(() => document.documentElement.lang), 'zh');
  left.push(...(await english(page)).map(text => `sign in: ${text}`));
  await page.getByLabel('API 密钥').fill('wrong');
  await page.keyboard.press('Enter');
  await page.getByRole('alert').getByText('这里不认识这个密钥').waitFor();
  await signIn(page, 'API 密钥');
  for (const [name, show] of Object.entries(VIEWS)) {
    await show(page);
    // What is asked of the shop is English.
    if (name !== '批准') left.push(...(await english(page)).map(text => `${name}: ${text}`));
    await page.keyboard.press('Escape');
    await page.locator('.overlay').waitFor({ state: 'detached' });
  }
  assert.deepEqual(left, []);
  assert.deepEqual(complaints, []);
  await close();
});

test('a language that the console has not is English, and the first that it has counts', async () => {
  for (const [languages, label] of [[['de-DE', 'fr'], 'API key'], [['de-DE', 'zh-TW', 'en'], 'API 密钥'], [['en-GB', 'zh'], 'API key']]) {
    const { page, close } = await open(browser, app.base, { locale: languages[0] });
    await page.addInitScript(all => Object.defineProperty(navigator, 'languages', { get: () => all }), languages);
    await page.reload();
    await page.getByLabel(label).waitFor();
    await close();
  }
});

for (const colorScheme of ['light', 'dark']) {
  for (const size of [[1440, 900], [390, 844]]) {
    test(`axe finds nothing in Chinese, ${colorScheme} ${size[0]}`, async () => {
      const { page, close } = await open(browser, app.base, { locale: 'zh-CN', colorScheme, size, reducedMotion: 'reduce' });
      await signIn(page, 'API 密钥');
      const names = size[0] > 500 ? ['首页', '聊天', '步骤', '状态', '未送达', '实时', '归档', '记忆', '重置'] : ['首页', '聊天', '未送达', '实时', '记忆'];
      for (const name of names) {
        if (size[0] < 500 && name === '聊天') await page.goto(app.url(ROOM));
        else await VIEWS[name](page);
        await page.locator('.scrolls, .bubble, .card').first().waitFor({ state: 'attached' });
        const { violations } = await new AxeBuilder({ page }).analyze();
        assert.deepEqual(violations.map(({ id, nodes }) => [name, id, nodes.map(({ html }) => html)]), []);
        assert(!(await page.evaluate(() => document.documentElement.scrollWidth > innerWidth)), `${name}: nothing is wider than the screen`);
        await page.keyboard.press('Escape');
      }
      await close();
    });
  }
}
