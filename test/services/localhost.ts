import { existsSync, writeFileSync } from 'node:fs';

/**
 * Makes sure that programs can resolve `localhost`, which tests connect to. A new Debian root from
 * debootstrap has no /etc/hosts. Returns what it wrote, or what to write if it lacks permission.
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
