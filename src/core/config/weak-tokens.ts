import { WaybillError, finding, type Finding } from '../lib/errors.ts';
import type { Secrets } from '../lib/secrets.ts';
import type { UploadTokenConfig } from './config.ts';

/** Who can guess a token may publish; shorter ones are words. `openssl rand -base64 18` makes as many. */
export const leastCharacters = 24;

/**
 * One for each upload token whose value is too short to be kept from guessing. Of one that is `sha256:` of
 * the value nothing is known, and those that are not set are another's concern. No finding holds a value.
 */
export function weakTokens(tokens: readonly UploadTokenConfig[], secrets: Pick<Secrets, 'get'>): Finding[] {
  return tokens.flatMap(({ id, valueEnv }) => {
    const value = secrets.get(valueEnv);
    if (value === undefined || value.startsWith('sha256:') || value.length >= leastCharacters) return [];
    const message = `the value of ${valueEnv} (upload token "${id}") has fewer than ${leastCharacters} characters, and could be guessed`;
    return [finding('error', 'weak_token', message)];
  });
}

/** Throws one `secrets_invalid` that names every upload token that is too short. */
export function requireStrongTokens(
  tokens: readonly UploadTokenConfig[],
  secrets: Pick<Secrets, 'get'>,
): void {
  const findings = weakTokens(tokens, secrets);
  const [first] = findings;
  if (first === undefined) return;
  const more = findings.length === 1 ? '' : ` (and ${findings.length - 1} more)`;
  throw new WaybillError('secrets_invalid', `${first.message}${more}`, {
    hint: 'give producers a token of at least 24 characters: openssl rand -hex 32',
    findings,
  });
}
