import { choice, duration, id, list, map, mapOf, path, text } from '../../lib/settings/kinds.ts';
import { type ParsedValue, parseEndpoint } from '../../lib/settings/parse-values.ts';
import { Setting } from '../../lib/settings/setting.ts';
import { type ClaimRule, ruleWeakness } from '../../publishers/claim-rules.ts';
import { scopes } from './scopes.ts';

const loopback = /^http:\/\/(127\.0\.0\.1|localhost|\[::1\])(:|\/|$)/i;

/**
 * Checks that this is the URL of an issuer. The result is the same string, because it has to match the `iss`
 * claim exactly.
 */
function parseIssuer(text: string): ParsedValue<string> {
  const verdict = parseEndpoint(text);
  if (!verdict.ok) return verdict;
  if (isHttpsOrLoopback(text)) return { ok: true, value: text };
  return { ok: false, reason: 'plain http is accepted on loopback addresses only' };
}

export function isHttpsOrLoopback(url: string): boolean {
  return /^https:/i.test(url) || loopback.test(url);
}

export const issuer = text(
  'an https URL such as https://token.actions.githubusercontent.com',
  'URL',
  parseIssuer,
);

export const claimSettingName = { form: /^[\u0021-\u007e]{1,200}$/, expected: 'the name of a claim' };

const claimValue = text('text; numbers in quotes', 'text');
export const claimRule = new Setting<ClaimRule, false, ClaimRule>(
  {
    kind: 'either',
    forms: [
      claimValue.form,
      list(claimValue, { min: 1, expected: 'a list of texts' }).form,
      map({ glob: claimValue.required().description('Pattern: * stands for any characters but /.') }).form,
    ],
  },
  {
    expected: 'text (numbers in quotes), a list of texts, or {glob: PATTERN}',
    title: 'text, list of texts, or {glob: PATTERN}',
  },
);

/** An entry in `trusted_publishers`. */
export const trustedPublisher = map(
  {
    id: id()
      .required()
      .description('Name of the publisher in logs, run records and the scope of idempotency keys.')
      .example('site-ci'),
    issuer: issuer
      .required()
      .description('Issuer of the ID tokens, exactly as in their claim iss.')
      .example('https://token.actions.githubusercontent.com'),
    jwks_file: path()
      .description('Keys of an issuer without OpenID Connect discovery: a JWKS file.')
      .example('./issuer-keys.json'),
    audience: text('the audience that the CI job asks for, such as https://publish.example.org', 'text')
      .required()
      .description('Audience of the ID tokens, such as the URL of the daemon.')
      .example('https://publish.example.org'),
    claims: mapOf(claimSettingName, claimRule)
      .required()
      .description(
        'Claims that an ID token must have, all of them. A list matches any of its texts; in {glob: PATTERN}, * matches any characters except /. A name that can change its owner, such as repository, needs an id in addition.',
      )
      .example({ repository_id: '123456', ref: 'refs/heads/main' }),
    pipelines: list(id(), { min: 1, expected: 'a list of pipeline ids, at least one' })
      .required()
      .description('Pipelines that the publisher may use.'),
    scopes: list(choice(...scopes), { min: 1, expected: `a list of some of ${scopes.join(', ')}` })
      .default(['upload', 'read'])
      .description('Rights, as in upload_tokens.'),
    max_lifetime: duration({ atLeast: '1s', atMost: '12h' })
      .default('15m')
      .description('Lifetime of its access tokens.'),
  },
  { check: ({ issuer, claims }) => ruleWeakness(issuer, claims) },
);
