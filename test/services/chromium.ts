import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { type Browser, chromium } from 'playwright-core';

const run = promisify(execFile);
const names = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'];
const flags = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run'];
const quiet = ['--disable-background-networking', '--disable-component-update', '--disable-sync'];

/** Starts a headless browser: `CHROMIUM_PATH`, else one on the path, else Debian's package, which it installs. The caller closes it. */
export async function startChromium(): Promise<Browser> {
  const executablePath = process.env['CHROMIUM_PATH'] ?? (await find()) ?? (await install());
  return chromium.launch({ executablePath, args: [...flags, ...quiet] });
}

async function find(): Promise<string | undefined> {
  for (const name of names) {
    const found = await run('which', [name]).catch(() => null);
    if (found !== null) return found.stdout.trim();
  }
  return undefined;
}

async function install(): Promise<string> {
  try {
    await run('apt-get', ['update', '-qq']);
    await run('apt-get', ['install', '-y', '-qq', '--no-install-recommends', 'chromium'], {
      env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' },
      maxBuffer: 64 * 1024 * 1024,
    });
  } catch (cause) {
    throw new Error(
      'These tests need Chromium, and apt-get could not install it. Install it, or set CHROMIUM_PATH.',
      { cause },
    );
  }
  const found = await find();
  if (found === undefined)
    throw new Error('Chromium was installed and is not on the path. Set CHROMIUM_PATH.');
  return found;
}
