import { choice, environmentName, id, list, map, mapOf, text } from '../../lib/settings/kinds.ts';
import { parseBaseUrl, type ParsedValue } from '../../lib/settings/parse-values.ts';
import { claimRule, claimSettingName, isHttpsOrLoopback, issuer } from './publishers.ts';
import type { Scope } from './scopes.ts';

/** The scopes that each role in the console has. Every role can do what the one before it can. */
export const roleScopes = {
  viewer: ['read'],
  operator: ['read', 'upload', 'run', 'cancel', 'releases'],
  admin: ['read', 'upload', 'run', 'cancel', 'releases', 'audit'],
} as const satisfies Record<string, readonly Scope[]>;
export type Role = keyof typeof roleScopes;
export const roles = ['viewer', 'operator', 'admin'] as const satisfies readonly Role[];

function parsePublicUrl(value: string): ParsedValue<string> {
  const verdict = parseBaseUrl(value);
  if (!verdict.ok || isHttpsOrLoopback(value)) return verdict;
  return { ok: false, reason: 'plain http is accepted on loopback addresses only' };
}

const role = map(
  {
    role: choice(...roles)
      .required()
      .description('Rights, which docs/console.md explains. An admin controls the daemon and all pipelines.'),
    claims: mapOf(claimSettingName, claimRule)
      .required()
      .description(
        'Claims that the ID token must have, as in trusted_publishers. A list in the token, such as groups, needs one matching entry. email counts only with email_verified: true.',
      )
      .example({ groups: 'publishers' }),
    pipelines: list(id(), { min: 1, expected: 'a list of pipeline ids, at least one' }).description(
      'Pipelines of the role. Default: all.',
    ),
  },
  {
    check: ({ role: name, claims, pipelines }) => {
      if (Object.keys(claims).length === 0)
        return {
          reason: 'claims is empty, so the role would be for every account of the issuer',
          expected: 'a claim or more',
        };
      if (name === 'admin' && pipelines !== undefined)
        return {
          reason: 'the role admin is for the whole daemon',
          expected: 'no pipelines, or the role "operator"',
        };
      return null;
    },
  },
);

export const loginSchema = map({
  issuer: issuer
    .required()
    .description('Issuer of the ID tokens, exactly as in their claim iss. It needs OpenID Connect discovery.')
    .example('https://login.example.org'),
  client_id: text('the id of the client that is registered at the issuer', 'text')
    .required()
    .description('Id of waybill at the issuer.')
    .example('waybill'),
  client_secret_env: environmentName()
    .description(
      'Environment variable, or file in secrets.directory, with the secret of the client. Without it, the client is public, with PKCE.',
    )
    .example('WAYBILL_CLIENT_SECRET'),
  public_url: text('an https URL such as https://publish.example.org/', 'URL', parsePublicUrl)
    .required()
    .description(
      'URL of the daemon in browsers, with its base path. Redirect URI at the issuer: PUBLIC_URL/console/login/callback.',
    )
    .example('https://publish.example.org/'),
  name: text('a name on one line', 'text')
    .description('Name of the issuer on the login button. Default: its host.')
    .example('Example SSO'),
  scopes: list(text('the name of a scope', 'text'), { min: 1, expected: 'a list of scopes, at least one' })
    .default(['openid', 'profile', 'email'])
    .description(
      'Requested scopes; openid is always one of them. Some issuers need groups for the claim groups.',
    )
    .example(['openid', 'groups']),
  roles: list(role, { min: 1, expected: 'a list of roles, at least one' })
    .required()
    .description('All matching roles apply. Users without one are refused.'),
}).description('Login with an OpenID Connect account. See docs/console.md.');
