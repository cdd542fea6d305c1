import { readFile } from 'node:fs/promises';
import type { Browser, Page } from 'playwright-core';
import t from 'tap';
import type { SceneMap } from '../../src/core/scene-map/generated/schema-types.ts';
import { renderSceneMapPage } from '../../src/core/scene-map/page.ts';
import { readSceneMap } from '../../src/core/scene-map/read-scene-map.ts';
import { soundMap } from '../core/scene-map/maps.ts';
import { startChromium } from '../services/chromium.ts';

let browser: Browser;
t.before(async () => {
  browser = await startChromium();
});
t.teardown(() => browser.close());

async function open(html: string, options: Parameters<Browser['newPage']>[0] = {}): Promise<Page> {
  const page = await browser.newPage(options);
  t.teardown(() => page.close());
  await page.setContent(html);
  return page;
}

async function exampleHtml(): Promise<string> {
  const file = 'examples/scene-maps/session-42-findings.json';
  const { map, findings } = readSceneMap(await readFile(file), file);
  if (map === null) throw new Error('the example must be valid');
  return renderSceneMapPage(map, { findings });
}

const shown = (page: Page): Promise<number> => page.locator('.scene:visible').count();

t.test('the same map gives the same bytes, and the page loads nothing from elsewhere', async (t) => {
  const html = await exampleHtml();
  t.equal(html, await exampleHtml());
  t.notMatch(html, /<script|\sstyle=|https?:|\son\w+=/i);
  t.match(html, /Content-Security-Policy" content="default-src 'none'; style-src 'sha256-[^']+'/);
  const page = await open(html);
  t.equal(
    await page.evaluate('getComputedStyle(document.querySelector(".group")).listStyleType'),
    'none',
    'the policy allows the style',
  );
});

t.test('filters work by keyboard and without script', async (t) => {
  const page = await open(await exampleHtml(), { javaScriptEnabled: false });
  t.equal(await shown(page), 7);
  t.notOk(await page.locator('#m-combat').isVisible(), 'folded');
  await page.locator('.filters summary').focus();
  await page.keyboard.press('Enter');
  await page.locator('#m-combat').focus();
  await page.keyboard.press('Space');
  t.equal(await shown(page), 6);
  t.equal(await page.locator('.bar:visible').count(), 6, 'the timeline is filtered, too');
  t.same(
    [await page.locator('rect.gap:visible').count(), await page.locator('rect.overlap:visible').count()],
    [1, 0],
    'an overlap is hidden with either of its scenes',
  );
  const legend = page.getByLabel('Legend of the timeline');
  t.notMatch(await legend.innerText(), 'Overlap', 'and so is its entry in the legend');
  t.same(await page.locator('.lane:visible').allInnerTexts(), ['Recap', 'Planning', 'Narrative']);
  await page.keyboard.press('Space');
  await page.getByLabel('Participant').focus();
  await page.keyboard.type('Captain');
  t.equal(await shown(page), 1);
  await page.getByRole('button', { name: 'Show all scenes' }).focus();
  await page.keyboard.press('Enter');
  t.equal(await shown(page), 7);
});

t.test('the head says which scenes with findings a filter hides', async (t) => {
  const page = await open(await exampleHtml(), { javaScriptEnabled: false });
  const facts = page.locator('.facts');
  t.match(await facts.innerText(), /3 findings: Scene 3: gap; Scene 5: overlap; Scene 6: summary too long$/m);
  await page.locator('.filters summary').click();
  await page.locator('#m-combat').uncheck();
  t.match(
    await facts.innerText(),
    /3 findings: Scene 3: gap; Scene 5: overlap \(hidden by a filter\); Scene 6: summary too long$/m,
  );
  t.equal(await facts.getByRole('link', { name: 'Scene 5' }).count(), 0);
  await page.getByRole('button', { name: 'Show all scenes' }).click();
  await page.getByLabel('Participant').selectOption('Widow Hask');
  t.match(
    await facts.innerText(),
    /Scene 3: gap; Scene 5: overlap \(hidden by a filter\); Scene 6: summary too long \(hidden by a filter\)$/m,
  );
});

t.test('the page has the whole document, with the findings at their scenes', async (t) => {
  const page = await open(await exampleHtml());
  await page.getByRole('link', { name: 'Scene 5: overlap', exact: true }).click();
  t.ok(await page.locator('#scene-5:target').isVisible());
  t.match(
    await page.locator('#scene-5').innerText(),
    /Ambush on the stair[^]*128 to 219[^]*The Salt Wardens[^]*High confidence: Initiative[^]*overlaps scene 4/,
  );
  t.equal(await page.locator('.warn li').count(), 3, 'each finding is there once');
  t.match(await page.locator('main').innerText(), /Caveats[^]*Segments 120 to 131/);
});

t.test('scenes have their numbers on the timeline if there is space', async (t) => {
  const page = await open(await exampleHtml());
  t.same(await page.locator('.bar text').allTextContents(), ['1', '2', '3', '4', '5', '6', '7']);
  await page.setViewportSize({ width: 1280, height: 900 });
  for (const number of [2, 5]) {
    const bar = await page.locator(`.bar[href="#scene-${number}"] rect`).boundingBox();
    const label = await page.locator(`.bar[href="#scene-${number}"] text`).boundingBox();
    t.ok(label!.x > bar!.x && label!.x + label!.width < bar!.x + bar!.width, `${number} is in its bar`);
  }
  const crowded = await open(renderSceneMapPage(soundMap(300)));
  t.equal(await crowded.locator('.bar text').count(), 0, 'none if they would overlap');
});

t.test('the axis has round numbers if they fit', async (t) => {
  const numbers = async (html: string): Promise<string[]> =>
    (await open(html)).locator('svg.axis text').allTextContents();
  t.same(await numbers(await exampleHtml()), ['1', '300', '50', '100', '150', '200', '250']);
  const long = soundMap(2);
  long.session_scope.last_segment_id = Number.MAX_SAFE_INTEGER;
  t.same(await numbers(renderSceneMapPage(long)), ['1', '9007199254740991']);
});

t.test('scenes are in one column, in order, and begin on the first screen', async (t) => {
  const page = await open(await exampleHtml());
  for (const width of [1280, 360]) {
    await page.setViewportSize({ width, height: 900 });
    const columns = 'new Set([...document.querySelectorAll(".scene")].map((one) => one.offsetLeft)).size';
    t.equal(await page.evaluate(columns), 1, `${width}`);
  }
  await page.setViewportSize({ width: 1280, height: 900 });
  t.ok((await page.locator('#scene-1').boundingBox())!.y < 710);
});

t.test('the printed page has everything except the filters', async (t) => {
  const page = await open(await exampleHtml());
  await page.emulateMedia({ media: 'print' });
  t.equal(await page.locator('.filters').isVisible(), false);
  t.equal(await shown(page), 7);
});

t.test('a hostile document stays text', async (t) => {
  const attack = `</style></title><script>document.title='owned'</script><img src=x onerror="document.title='owned'">"'\`\u202E\u0000<%= 1 %>\uD800`;
  const map: SceneMap = soundMap(2);
  map.session_scope.source_description = attack;
  map.boundary_caveats = [attack];
  for (const scene of map.scenes)
    Object.assign(scene, {
      short_title: attack,
      summary: attack,
      boundary_note: attack,
      scene_id: `${attack}1`,
      main_participants: [attack, 'javascript:alert(1)'],
    });
  const page = await open(
    renderSceneMapPage(map, {
      findings: [
        {
          severity: 'warning',
          code: 'gap',
          message: attack,
          file: null,
          pointer: '/scenes/0',
          line: 1,
          column: 1,
        },
      ],
    }),
    { bypassCSP: true },
  );
  t.equal(await page.locator('script, img, a[href^="javascript"]').count(), 0);
  t.match(await page.title(), /<script>/, 'the title holds the text and no script changed it');
  t.match(await page.locator('h1').innerText(), /<script>document\.title='owned'/);
});

t.test(
  'renders unusual maps: no participants, empty texts, reversed scenes, distant ids, many people',
  async (t) => {
    const map = soundMap(300);
    for (const [index, scene] of map.scenes.entries()) scene.main_participants = [`Person ${index}`];
    map.scenes[0]!.main_participants = [];
    map.scenes[1]!.short_title = '';
    map.scenes[2]!.end_segment_id = -5;
    map.scenes[3]!.start_segment_id = Number.MIN_SAFE_INTEGER;
    const page = await open(renderSceneMapPage(map));
    t.equal(await shown(page), 300);
    t.equal(await page.locator('option').count(), 101);
    t.match(await page.locator('.filters').textContent(), /199 more/);
    t.notMatch(await page.locator('.chart').innerHTML(), /NaN|Infinity| (?:x|y|width|height)="-/);
  },
);

t.test('a page of 2,000 scenes is complete, and a filter still responds', async (t) => {
  const page = await open(renderSceneMapPage(soundMap(2_000)));
  t.equal(await page.locator('.scene').count(), 2_000);
  await page.locator('.filters summary').click();
  await page.locator('#m-combat').press('Space');
  t.equal(await shown(page), 1_500);
  await page.locator('.filters summary').click();
  t.match(
    await page.evaluate('getComputedStyle(document.querySelector(".filters summary"), "::after").content'),
    /counter\(shown\)/,
    'collapsed filters indicate hidden scenes',
  );
});

t.test('of 2,000 scenes, only those near the viewport are laid out, at any position', async (t) => {
  const page = await open(renderSceneMapPage(soundMap(2_000)), { viewport: { width: 1280, height: 900 } });
  const laidOut = (): Promise<string[]> =>
    page.evaluate<string[]>(`[...document.querySelectorAll('.scene')]
      .filter((scene) => scene.checkVisibility({ contentVisibilityAuto: true }))
      .map(({ id }) => id)`);
  const frame = (): Promise<void> =>
    page.evaluate('new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))');
  await frame();
  const atTop = await laidOut();
  t.ok(atTop.length > 0 && atTop.length < 200, `${atTop.length} at the top`);
  await page.evaluate('document.querySelector("#scene-1000").scrollIntoView()');
  await frame();
  const inTheMiddle = await laidOut();
  t.ok(inTheMiddle.includes('scene-1000'));
  t.ok(inTheMiddle.length < 200, `${inTheMiddle.length} in the middle`);
  t.notOk(inTheMiddle.includes('scene-1'), 'skipped parts are no longer laid out');
});
