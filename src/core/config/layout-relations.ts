import type { Fault } from './schema/findings.ts';
import type { KeyPath } from './yaml-text.ts';

/**
 * What of a destination does not go with its layout. Works on the raw document, as `relations.ts` does. Pure.
 */
export function layoutFaults(destination: unknown, path: KeyPath): Fault[] {
  const settings = mapOf(destination);
  if (settings['layout'] === 'releases') {
    const prune = mapOf(mapOf(settings['retention'])['prune']);
    if (prune['enabled'] !== true) return [];
    return [
      fault(
        [...path, 'retention', 'prune', 'enabled'],
        'releases are kept and removed as a whole, by releases.keep; expected false, or layout: in_place',
      ),
    ];
  }
  if (settings['releases'] === undefined) return [];
  const what = 'it says what is kept of releases, and there are none with layout: in_place';
  return [fault([...path, 'releases'], `${what}; set layout: releases, or leave it out`)];
}

function mapOf(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}

function fault(path: KeyPath, message: string): Fault {
  return { severity: 'error', code: 'invalid_value', path, part: 'value', message };
}
