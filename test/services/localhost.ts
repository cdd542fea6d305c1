import { existsSync, writeFileSync } from 'node:fs';

/**
 * Makes sure that programs find `localhost`, which tests connect to. A Debian root that debootstrap has just
 * made has no /etc/hosts. Says what it wrote, or what to write if it may not.
 */
export function nameLocalhost(file = '/etc/hosts', say: (line: string) => void = console.log): void {
  if (process.platform !== 'linux' || existsSync(file)) return;
  const line = '127.0.0.1 localhost';
  try {
    writeFileSync(file, `${line}\n`, { flag: 'wx' });
    say(`wrote ${file}, which was missing: ${line}`);
  } catch (error) {
    say(
      `${file} is missing, so tests cannot connect to localhost; write "${line}" into it as root: ${String(error)}`,
    );
  }
}
