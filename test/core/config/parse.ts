import type { Config } from '../../../src/core/config/config.ts';
import { parseConfig } from '../../../src/core/config/load-config.ts';
import { describeFinding, type Finding, hasCode, WaybillError } from '../../../src/core/lib/errors.ts';

/** Parses a YAML text as if it were in /etc/waybill/c.yml. */
export function parse(text: string | Uint8Array): { config: Config; warnings: Finding[] } {
  const bytes = typeof text === 'string' ? Buffer.from(text) : text;
  return parseConfig(bytes, '/etc/waybill/c.yml', { home: '/home/me' });
}

/** All errors of the configuration. */
export function findingsOf(text: string | Uint8Array): readonly Finding[] {
  try {
    parse(text);
  } catch (error) {
    if (hasCode(error, 'config_invalid')) return (error as WaybillError).findings;
    throw error;
  }
  throw new Error('the configuration was accepted');
}

/** The same as a user sees it. */
export function complaintsOf(text: string | Uint8Array): string[] {
  return findingsOf(text).map((item) => describeFinding(item).replace('/etc/waybill/', ''));
}

/** A pipeline from ./in to one destination with these settings. */
export function withDestination(settings: string): string {
  return `pipelines: [{id: p, source: {backend: local, path: ./in}, destinations: [{id: d, ${settings}}]}]`;
}

/** A configuration with these server.http settings. */
export function withHttp(settings: string): string {
  return `${withDestination('backend: local, path: ./out')}\nserver: {http: {${settings}}}`;
}
