import { type Browser, chromium } from 'playwright-core';
import { pathOf, requirePrograms } from './debian.ts';

const names = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'];
const flags = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run'];
const quiet = ['--disable-background-networking', '--disable-component-update', '--disable-sync'];

/**
 * Starts a headless browser: `CHROMIUM_PATH`, else one on the path, else Debian's package, which it installs.
 * The caller closes it.
 */
export async function startChromium(): Promise<Browser> {
  const executablePath = process.env['CHROMIUM_PATH'] ?? (await find()) ?? (await install());
  return chromium.launch({ executablePath, args: [...flags, ...quiet] });
}

async function find(): Promise<string | undefined> {
  for (const name of names) {
    const found = await pathOf(name);
    if (found !== undefined) return found;
  }
  return undefined;
}

async function install(): Promise<string> {
  await requirePrograms(['chromium'], ['chromium']);
  return (await pathOf('chromium')) as string;
}
