import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';

/**
 * Replaces the times since `sinceMs` by `to` in all catalogs and ledgers below a directory. For sample pages
 * of runs in the past: the threads that publish have their own clock, which cannot be set back.
 */
export function setBackCatalogs(directory: string, sinceMs: number, to: string): void {
  for (const name of readdirSync(directory, { recursive: true, encoding: 'utf8' })) {
    if (!/(^|\/)\.publisher\.(releases\.)?json$/.test(name)) continue;
    const file = path.join(directory, name);
    const text = readFileSync(file, 'utf8');
    const changed = text.replace(/\d{4}-\d\d-\d\dT[\d:]{8}\.\d{3}Z/g, (iso) =>
      Date.parse(iso) < sinceMs ? iso : to,
    );
    if (changed !== text) writeFileSync(file, changed);
  }
}
