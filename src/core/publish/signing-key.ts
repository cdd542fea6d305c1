import { readFileSync } from 'node:fs';
import type { DestinationConfig } from '../config/config.ts';
import { WaybillError } from '../lib/errors.ts';
import type { Secrets } from '../lib/secrets.ts';
import type { PublicationFacts } from '../outputs/generator.ts';
import { parseSecretKeyFile, type SecretKey } from '../signing/secret-key.ts';
import type { Owner } from '../storage/identity.ts';

export interface Signing extends PublicationFacts {
  secret: SecretKey;
}

/**
 * The key of `outputs.signature` and the facts that a statement names; null if the destination signs nothing.
 * Throws `secrets_invalid` if the secret is missing, and `signing_key_invalid` if it is not a key without a
 * passphrase. No error contains the key.
 */
export async function signingOf(
  { secrets }: { secrets: Secrets },
  { owner, destination }: { owner: Owner; destination: DestinationConfig },
  { runId = null, publisher = null }: Partial<Pick<PublicationFacts, 'runId' | 'publisher'>>,
): Promise<Signing | null> {
  const { signature = null } = destination.outputs;
  if (signature === null) return null;
  const text = secrets.require(signature.keyEnv, `destination "${owner.destinationId}"`);
  const parsed = parseSecretKeyFile(Buffer.from(`${text.trimEnd()}\n`));
  if (!parsed.ok) throw invalid(signature.keyEnv, parsed.reason);
  if (parsed.value.needsPassphrase) throw invalid(signature.keyEnv, 'it needs a passphrase');
  const opened = await parsed.value.open('');
  if (!opened.ok) throw invalid(signature.keyEnv, opened.reason);
  return { secret: opened.value, owner, runId, publisher, version: productVersion() };
}

function invalid(name: string, reason: string): WaybillError {
  return new WaybillError('signing_key_invalid', `the key in ${name} cannot be used: ${reason}`, {
    hint: 'store the file there that waybill key new --no-passphrase writes',
  });
}

let version: string | undefined;

function productVersion(): string {
  version ??= (
    JSON.parse(readFileSync(new URL('../../../package.json', import.meta.url), 'utf8')) as { version: string }
  ).version;
  return version;
}
