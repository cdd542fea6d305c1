/** Makes the pictures of the scene map page in `docs/images`, at two widths, light and dark. */
import { readFile } from 'node:fs/promises';
import { renderSceneMapPage } from '../src/core/scene-map/page.ts';
import { readSceneMap } from '../src/core/scene-map/read-scene-map.ts';
import { startChromium } from '../test/services/chromium.ts';

const file = 'examples/scene-maps/session-42-findings.json';
const { map, findings } = readSceneMap(await readFile(file), file);
if (map === null) throw new Error(`${file} is not valid`);
const browser = await startChromium();
try {
  for (const colorScheme of ['light', 'dark'] as const) {
    for (const width of [360, 1280]) {
      const page = await browser.newPage({ viewport: { width, height: 900 }, colorScheme });
      await page.setContent(renderSceneMapPage(map, { findings }));
      // As tall as the page, for what is outside the window is not painted; then once more, as what is
      // painted has its true height.
      for (let pass = 0; pass < 2; pass++) {
        await page.setViewportSize({
          width,
          height: await page.evaluate<number>('document.body.offsetHeight'),
        });
        await page.evaluate(
          'new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))',
        );
      }
      await page.screenshot({ path: `docs/images/scene-map-${width}-${colorScheme}.png`, fullPage: true });
      await page.close();
    }
  }
} finally {
  await browser.close();
}
