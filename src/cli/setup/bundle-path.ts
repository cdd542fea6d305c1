import { WaybillError } from '../../core/lib/errors.ts';
import { parseRelativePath } from '../../core/lib/paths.ts';

/** A bundle path as it was given, also as a shell completes a directory. Throws `usage` if it is none. */
export function givenBundlePath(given: string): string {
  const path = given.replace(/^\.\/(?=.)/, '').replace(/(?<=[^/])\/+$/, '');
  const verdict = path === '.' ? { ok: true as const } : parseRelativePath(path);
  if (verdict.ok) return path;
  throw new WaybillError('usage', `"${path}" is no bundle path: it ${verdict.reason}`, {
    hint: 'give it relative to the root of the destination, as `waybill run` names it after target=',
  });
}
