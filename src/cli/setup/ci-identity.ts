import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import { WaybillError } from '../../core/lib/errors.ts';
import type { Environment } from '../../core/lib/secrets.ts';
import { describeFileError } from '../../core/lib/system-errors.ts';

/** Gets ID tokens for the CI job that this process is part of. */
interface CiIdentity {
  /** The name of the CI system, for messages: `GitHub Actions`. */
  name: string;
  /** Whether `idToken` returns a new token each time. */
  isRenewable: boolean;
  /**
   * Returns an ID token. Throws `secrets_invalid` if the CI system does not provide one. Errors never contain
   * a token.
   */
  idToken: (audience: string) => Promise<string>;
}

/** The timeout for requests to the CI system, in milliseconds. */
const withinMs = 30_000;
/** A signed JWT. */
const tokenForm = /^[\w-]+\.[\w-]+\.[\w-]+$/;

/**
 * Returns the identity of the CI job. Returns null if this process is not in a CI job, or if the CI system
 * has no ID tokens.
 */
export function ciIdentity(environment: Environment): CiIdentity | null {
  const variable = (name: string): string | null => (environment[name] ?? '').trim() || null;
  const { WAYBILL_ID_TOKEN_FILE: file = '' } = environment;
  const idToken = variable('WAYBILL_ID_TOKEN');
  if (idToken !== null) return fixedIdentity('WAYBILL_ID_TOKEN', idToken);
  if (file !== '')
    return {
      name: 'WAYBILL_ID_TOKEN_FILE',
      isRenewable: true,
      idToken: async () => requireToken(await contentOf(file), 'WAYBILL_ID_TOKEN_FILE'),
    };
  const url = variable('ACTIONS_ID_TOKEN_REQUEST_URL');
  const requestToken = variable('ACTIONS_ID_TOKEN_REQUEST_TOKEN');
  if (url !== null && requestToken !== null)
    return {
      name: 'GitHub Actions',
      isRenewable: true,
      idToken: (audience) => fromGithub(url, requestToken, audience),
    };
  if (environment['BUILDKITE'] === 'true' && variable('BUILDKITE_AGENT_ACCESS_TOKEN') !== null)
    return { name: 'Buildkite', isRenewable: true, idToken: fromBuildkite };
  const circle = variable('CIRCLE_OIDC_TOKEN_V2');
  return circle === null ? null : fixedIdentity('CircleCI', circle);
}

/** Explains how to give a CI job access to ID tokens. Returns undefined for an unknown CI system. */
export function ciAdvice(environment: Environment): string | undefined {
  if (environment['GITHUB_ACTIONS'] === 'true') return 'add `permissions: { id-token: write }` to the job';
  if (environment['GITLAB_CI'] === 'true') return 'add WAYBILL_ID_TOKEN to the id_tokens of the job';
  return undefined;
}

function fixedIdentity(name: string, token: string): CiIdentity {
  return { name, isRenewable: false, idToken: async () => requireToken(token, name) };
}

async function contentOf(file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8');
  } catch (cause) {
    throw new WaybillError(
      'secrets_invalid',
      `the file "${file}" of WAYBILL_ID_TOKEN_FILE cannot be read: ${describeFileError(cause)}`,
      {
        hint: 'let WAYBILL_ID_TOKEN_FILE name a file that holds an ID token',
      },
    );
  }
}

async function fromGithub(base: string, requestToken: string, audience: string): Promise<string> {
  const url = URL.canParse(base) ? new URL(base) : null;
  if (url === null) throw noTokenError('GitHub Actions', 'ACTIONS_ID_TOKEN_REQUEST_URL is not a URL');
  url.searchParams.set('audience', audience);
  try {
    const response = await fetch(url, {
      headers: { authorization: `Bearer ${requestToken}`, accept: 'application/json' },
      redirect: 'error',
      signal: AbortSignal.timeout(withinMs),
    });
    if (!response.ok) throw noTokenError('GitHub Actions', `it answered ${response.status}`);
    const { value } = (await response.json()) as { value?: unknown };
    return requireToken(value, 'GitHub Actions');
  } catch (error) {
    if (error instanceof WaybillError) throw error;
    throw noTokenError('GitHub Actions', 'it cannot be reached, or did not answer as expected');
  }
}

async function fromBuildkite(audience: string): Promise<string> {
  // Without these, the token contains only the names of the pipeline and organization, and not their ids.
  const ids = ['--claim', 'organization_id', '--claim', 'pipeline_id'];
  const args = ['oidc', 'request-token', '--audience', audience, ...ids];
  try {
    const limit = { timeout: withinMs, killSignal: 'SIGKILL' } as const;
    const { stdout } = await promisify(execFile)('buildkite-agent', args, limit);
    return requireToken(stdout, 'Buildkite');
  } catch (error) {
    if (error instanceof WaybillError) throw error;
    throw noTokenError('Buildkite', '`buildkite-agent oidc request-token` failed');
  }
}

function requireToken(value: unknown, from: string): string {
  const token = typeof value === 'string' ? value.trim() : '';
  if (tokenForm.test(token)) return token;
  throw noTokenError(from, 'the value is not a signed JWT');
}

function noTokenError(from: string, reason: string): WaybillError {
  return new WaybillError('secrets_invalid', `no ID token from ${from}: ${reason}`, {
    hint: 'see docs/how-to/ci-without-secrets.md, or set WAYBILL_TOKEN',
  });
}
