import { readFileSync } from 'node:fs';

/** The version of waybill, as package.json has it. */
export function productVersion(): string {
  const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8');
  return (JSON.parse(text) as { version: string }).version;
}
