import type { IncomingMessage } from 'node:http';
import { parseDigest, type Digest } from '../../core/lib/digest.ts';
import { WaybillError } from '../../core/lib/errors.ts';
import type { Parameter } from '../http/openapi-types.ts';

export const partialParameter: Parameter = {
  name: 'Waybill-Partial',
  in: 'header',
  description:
    'SHA-256 of the `manifest.json` in the archive, byte for byte. The archive may then leave out files whose digests the manifest declares and which the daemon keeps of earlier uploads to the pipeline (`POST …/missing` tells which it does not).',
  schema: { type: 'string', pattern: '^sha256:[0-9a-f]{64}$' },
};

/** The manifest of a partial archive; null for a whole one. Throws `invalid_request`. */
export function partialOf(req: IncomingMessage): Digest | null {
  const values = req.headersDistinct['waybill-partial'];
  if (values === undefined) return null;
  const [value = ''] = values;
  const digest = values.length === 1 ? parseDigest(value) : undefined;
  if (digest !== undefined) return digest;
  throw new WaybillError('invalid_request', 'Waybill-Partial is not one digest of a manifest', {
    hint: 'send sha256: and the 64 hexadecimal digits of the SHA-256 of manifest.json',
  });
}
