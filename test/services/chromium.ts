import { type Browser, chromium } from 'playwright-core';
import { ensureInstalled, pathOf } from './debian.ts';

const flags = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run'];
const quiet = ['--disable-background-networking', '--disable-component-update', '--disable-sync'];

/**
 * Starts a headless browser: `CHROMIUM_PATH`, or one on the path, or Debian's package. The caller closes it.
 */
export async function startChromium(): Promise<Browser> {
  await ensureInstalled('chromium');
  return chromium.launch({ executablePath: pathOf('chromium') as string, args: [...flags, ...quiet] });
}
