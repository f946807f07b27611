// The status page: what `annals doctor` checks, of the running program.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { after, before, test } from 'node:test';
import { AxeBuilder } from '@axe-core/playwright';
import { launch, open, start } from './stage.mjs';

let browser, app, provider, asked = 0;

before(async () => {
  provider = createServer((request, response) => {
    asked += request.url.endsWith('/models') ? 1 : 0;
    response.writeHead(401).end();
  }).listen(0, '127.0.0.1');
  await new Promise(resolve => provider.once('listening', resolve));
  const model = { MODEL: 'openai:garden-1', MODEL_BASE_URL: `http://127.0.0.1:${provider.address().port}/v1`, MODEL_API_KEY: 'wrong-key' };
  app = await start({ ...model, HTTP_API_KEYS: 'app:app-secret,ops:ops-secret:admin' }, 'ops-secret');
  browser = await launch();
});
after(async () => {
  await browser?.close();
  app?.end();
  provider?.close();
});

test('the checks are for admins, and are not made for each request', async () => {
  const status = async key => (await fetch(`${app.base}/local/status`, { headers: key ? { authorization: `Bearer ${key}` } : {} })).status;
  assert.deepEqual([await status(), await status('wrong'), await status('app-secret')], [401, 401, 401]);
  assert.equal(asked, 0);
  const [one, other] = await Promise.all([app.call('GET', '/local/status'), app.call('GET', '/local/status')]);
  assert.deepEqual(one.body, other.body);
  assert.equal(asked, 1);
  const verdicts = Object.fromEntries(one.body.findings.map(({ check, verdict }) => [check, verdict]));
  assert.deepEqual([verdicts.model, verdicts.disk, verdicts['table annals'], verdicts.telegram], ['fault', 'ok', 'ok', 'none']);
  assert.equal(one.body.findings.filter(({ verdict }) => verdict === 'fault').length, 1);
  assert(!JSON.stringify(one.body).includes('wrong-key') && !JSON.stringify(one.body).includes('ops-secret'));
});

for (const [locale, title, says] of [['en-GB', 'Status', 'A stack does not check itself: annals doctor'], ['zh-CN', '状态', '部署的应用不检查自身']]) {
  test(`of a stack, the page says what checks it, ${locale}`, async () => {
    const { page, complaints, close } = await open(browser, app.base, { locale, reducedMotion: 'reduce' });
    // As a stack answers, which has no such route.
    const missing = await app.call('GET', '/local/nothing');
    assert.equal(missing.status, 404);
    await page.route('**/local/status', route => route.fulfill({ status: 404, json: missing.body }));
    await page.locator('input[type=password]').fill('ops-secret');
    await page.keyboard.press('Enter');
    await page.getByRole('link', { name: title }).click();
    await page.getByText(says).waitFor();
    const { violations } = await new AxeBuilder({ page }).analyze();
    assert.deepEqual(violations.map(({ id, nodes }) => [id, nodes.map(({ html }) => html)]), []);
    assert.deepEqual(complaints, []);
    await close();
  });
}

for (const [locale, name, title, colorScheme, width] of [['en-GB', 'API key', 'Status', 'light', 1440], ['en-GB', 'API key', 'Status', 'dark', 390], ['zh-CN', 'API 密钥', '状态', 'dark', 1440]]) {
  test(`the page shows faults first, and axe finds nothing, ${locale} ${colorScheme} ${width}`, async () => {
    const { page, complaints, close } = await open(browser, app.base, { size: [width, 844], locale, colorScheme, reducedMotion: 'reduce' });
    await page.getByLabel(name).fill('ops-secret');
    await page.keyboard.press('Enter');
    await page.getByRole('link', { name: title }).click();
    await page.getByRole('heading', { name: title }).waitFor();
    if (width > 1000) {
      const [brand, first] = await Promise.all([page.locator('.brand a'), page.locator('.side .bar .button').first()].map(one => one.boundingBox()));
      assert(brand.x + brand.width <= first.x, 'no icon is over the name');
    }
    const findings = page.locator('.finding');
    await findings.first().waitFor();
    const refused = locale === 'zh-CN' ? /model\s+.* 拒绝了请求（401）：请检查 MODEL_API_KEY/ : /model\s+.* refused the request with 401: check MODEL_API_KEY/;
    assert.match(await findings.first().innerText(), refused);
    if (locale === 'zh-CN') {
      const words = await page.locator('.finding .plain').allInnerTexts();
      assert.deepEqual(words.filter(text => !/\p{Script=Han}/u.test(text)), [app.folder], 'all but the path of the data is Chinese');
    }
    const { violations } = await new AxeBuilder({ page }).analyze();
    assert.deepEqual(violations.map(({ id, nodes }) => [id, nodes.map(({ html }) => html)]), []);
    assert(!(await page.evaluate(() => document.documentElement.scrollWidth > innerWidth)), 'nothing is wider than the screen');
    if (process.env.SHOTS) await page.screenshot({ path: `${process.env.SHOTS}/status-${locale}-${colorScheme}-${width}.png` });
    assert.deepEqual(complaints, []);
    await close();
  });
}
