import { type Browser, chromium } from 'playwright-core';
import { ensureInstalled, pathOf } from './debian.ts';

const flags = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run'];
const quiet = ['--disable-background-networking', '--disable-component-update', '--disable-sync'];

/** The timeout of waits in a page, in milliseconds. Only a hanging page reaches it. */
const maxWaitMs = 300_000;

/**
 * Starts a headless browser: `CHROMIUM_PATH`, or one on the path, or Debian's package. The caller closes it.
 * Its pages wait long enough for a busy machine; Playwright's default is 30 seconds.
 */
export async function startChromium(): Promise<Browser> {
  await ensureInstalled('chromium');
  const executablePath = pathOf('chromium') as string;
  const browser = await chromium.launch({ executablePath, args: [...flags, ...quiet], timeout: maxWaitMs });
  const newContext = browser.newContext.bind(browser);
  browser.newContext = async (options) => {
    const context = await newContext(options);
    context.setDefaultTimeout(maxWaitMs);
    return context;
  };
  return browser;
}
