import { spawn } from 'node:child_process';
import { systemClock } from '../../core/lib/clock.ts';

/** The program for opening a URL in the user's default browser. */
const opener = process.platform === 'darwin' ? 'open' : 'xdg-open';

/**
 * On some systems, this program runs as long as the browser. If it is still running after this time, the
 * browser has started.
 */
const waitMs = 3_000;

/**
 * Opens a URL in the browser. Returns null on success, and otherwise the reason why it failed. The browser
 * keeps running when this process ends, and cannot write to its terminal. Never throws.
 */
export async function openInBrowser(url: string): Promise<string | null> {
  if (!/^https?:$/.test(URL.canParse(url) ? new URL(url).protocol : '')) return 'it is not a web address';
  return new Promise((resolve) => {
    const child = spawn(opener, [url], { stdio: 'ignore', detached: true });
    const timer = systemClock.timeout(waitMs, () => end(null));
    const end = (failure: string | null): void => {
      timer.cancel();
      child.removeAllListeners('exit');
      child.unref();
      resolve(failure);
    };
    child.once('error', (error: NodeJS.ErrnoException) =>
      end(error.code === 'ENOENT' ? `${opener} is not installed` : `${opener}: ${error.message}`),
    );
    child.once('exit', (code, signal) => {
      if (code === 0) end(null);
      else end(`${opener} found no browser (${code === null ? String(signal) : `exit code ${code}`})`);
    });
  });
}

/**
 * Opens the first published URL. If the browser does not open, only prints a note, because publishing has
 * already succeeded.
 */
export async function openPublished(
  urls: readonly (string | null | undefined)[],
  { note }: { note: (text: string) => void },
  missing: string,
): Promise<void> {
  const url = urls.find((each) => each != null);
  if (url == null) {
    note(`nothing to open: ${missing}`);
    return;
  }
  const failure = await openInBrowser(url);
  if (failure !== null) note(`no browser was started: ${failure}; the address is ${url}`);
}
