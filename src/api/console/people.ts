import { createHash } from 'node:crypto';
import type { Config, LoginConfig } from '../../core/config/config.ts';
import { type Role, roleScopes } from '../../core/config/schema/console-login.ts';
import type { Scope } from '../../core/config/schema/schema.ts';
import type { Secrets } from '../../core/lib/secrets.ts';
import { type ClaimRules, satisfiesRules } from '../../core/publishers/claim-rules.ts';
import type { Token } from '../http/auth.ts';
import { rulesDigest } from '../publishers/access-token.ts';

/* Maps people who log in through an OpenID Connect issuer to their roles. */

/** The `server.console.login` settings, with the client secret resolved. */
export interface ConsoleLogin extends Omit<LoginConfig, 'clientSecretEnv' | 'roles'> {
  /** null for a public client. */
  clientSecret: string | null;
  /** The issuer's hostname, used in messages. */
  host: string;
  roles: readonly ConsoleRole[];
}

interface ConsoleRole {
  /**
   * A hash of the issuer, client, role and required claims. Changing any of them ends existing sessions with
   * this role.
   */
  id: string;
  role: Role;
  claims: ClaimRules;
  /** null for all pipelines. */
  pipelines: readonly string[] | null;
}

/** Resolves the console's login settings. Throws `secrets_invalid` if the client secret is missing. */
export function resolveLogin({ server }: Config, secrets: Secrets): ConsoleLogin | null {
  const { enabled, login } = server.console;
  if (!enabled || login === null) return null;
  const { clientSecretEnv, roles, ...settings } = login;
  const { issuer, clientId } = settings;
  return {
    ...settings,
    host: new URL(issuer).host,
    clientSecret:
      clientSecretEnv === null ? null : secrets.require(clientSecretEnv, 'server.console.login').trim(),
    roles: roles.map(({ role, claims, pipelines }) => ({
      id: rulesDigest([issuer, clientId, role, claims]),
      role,
      claims,
      pipelines,
    })),
  };
}

/** The verified claims of an ID token. */
export type Claims = Readonly<Record<string, unknown>>;

/** A logged-in person, as stored in the session. */
export interface Person {
  issuer: string;
  /** The `sub` claim, which identifies the person at the issuer. */
  subject: string;
  /** For display only, because some issuers let people choose their own name. */
  name: string;
  /** The roles whose required claims the person had when logging in. */
  roles: readonly string[];
}

const control = /[\u0000-\u001f\u007f-\u009f\u2028\u2029]/g;

/** Returns the person with these verified claims. `roles` is empty if no role matches. */
export function personOf(claims: Claims, { issuer, roles }: ConsoleLogin): Person {
  const subject = String(claims['sub']);
  const names = [claims['preferred_username'], claims['email'], claims['name']];
  const name = names.find((one): one is string => typeof one === 'string' && one.trim() !== '') ?? subject;
  return {
    issuer,
    subject,
    name: name.replaceAll(control, ' ').slice(0, 100),
    roles: roles.filter((role) => satisfiesRules(role.claims, claims)).map(({ id }) => id),
  };
}

const ranks: Readonly<Record<Role, number>> = { viewer: 0, operator: 1, admin: 2 };

/**
 * Returns a token with a person's current rights, or null if none of the session's roles is configured
 * anymore.
 */
export function tokenOfPerson(
  { issuer, subject, name, roles: ids }: Person,
  login: ConsoleLogin | null,
  pipelineIds: Iterable<string>,
): Token | null {
  const own = login?.roles.filter(({ id }) => ids.includes(id)) ?? [];
  if (own.length === 0) return null;
  const roles = new Map<string, Role>();
  for (const pipelineId of pipelineIds)
    for (const { role, pipelines } of own) {
      const known = roles.get(pipelineId);
      if (pipelines?.includes(pipelineId) === false) continue;
      if (known === undefined || ranks[role] > ranks[known]) roles.set(pipelineId, role);
    }
  return {
    id: `user:${subject}`,
    hash: createHash('sha256').update(`${issuer}\n${subject}`).digest(),
    pipelines: new Set(roles.keys()),
    scopes: new Set([...roles.values()].flatMap((role): readonly Scope[] => roleScopes[role])),
    expiresAt: null,
    person: { issuer, subject, name, roles, isAdmin: own.some(({ role }) => role === 'admin') },
  };
}
