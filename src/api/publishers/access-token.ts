import { createHmac, hkdfSync, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Scope } from '../../core/config/schema/schema.ts';
import { digestOf } from '../../core/lib/digest.ts';
import type { PublishedBy } from '../../core/publishers/published-by.ts';

/** The content of an access token. */
export interface Grant {
  by: PublishedBy;
  /** A hash of the publisher's rules at the time the token was issued. */
  rules: string;
  pipelines: readonly string[];
  scopes: readonly Scope[];
  issuedAt: Date;
  expiresAt: Date;
}

/**
 * Signs grants as JWTs (HS256), which every API host with the same keys can open, so hosts share no storage.
 * Unlike in `jose`, opening is synchronous, because long requests repeat their check twice a second.
 */
export interface GrantSeal {
  seal(grant: Grant): string;
  /**
   * Returns null if the text was not signed with any of the keys. Does not check whether the grant has
   * expired.
   */
  open(text: string): Grant | null;
}

const purpose = 'waybill access token';
/** The only accepted header. A token must not be able to choose its own algorithm. */
const header = base64url({ alg: 'HS256', typ: 'at+jwt' });

interface Payload {
  sub: string;
  iat: number;
  exp: number;
  scope: string;
  pipelines: string[];
  rules: string;
  by: PublishedBy;
}

/**
 * @param secrets At least one. New tokens are signed with the first one; tokens signed with any of them are
 *   accepted.
 */
export function grantSeal(secrets: readonly (string | Uint8Array)[]): GrantSeal {
  const keys = secrets.map((secret) => Buffer.from(hkdfSync('sha256', secret, '', purpose, 32)));
  const [first] = keys;
  if (first === undefined) throw new TypeError('no key for access tokens');
  return {
    seal: ({ by, rules, pipelines, scopes, issuedAt, expiresAt }) => {
      const payload: Payload & { jti: string } = {
        sub: by.publisher_id,
        iat: seconds(issuedAt),
        exp: seconds(expiresAt),
        jti: randomBytes(16).toString('base64url'),
        scope: scopes.join(' '),
        pipelines: [...pipelines],
        rules,
        by,
      };
      const signed = `${header}.${base64url(payload)}`;
      return `${signed}.${macOf(signed, first).toString('base64url')}`;
    },
    open: (text) => {
      const [head, body = '', sent = '', ...more] = text.split('.');
      if (head !== header || more.length > 0) return null;
      const mac = Buffer.from(sent, 'base64url');
      const isSigned = keys
        .map((key) => macOf(`${head}.${body}`, key))
        .some((own) => own.length === mac.length && timingSafeEqual(own, mac));
      return isSigned ? grantIn(body) : null;
    },
  };
}

/** The cast is safe, because only `seal` can have signed this text. */
function grantIn(body: string): Grant {
  const { iat, exp, scope, pipelines, rules, by } = JSON.parse(
    Buffer.from(body, 'base64url').toString('utf8'),
  ) as Payload;
  const scopes = scope.split(' ') as Scope[];
  return { by, rules, pipelines, scopes, issuedAt: new Date(iat * 1000), expiresAt: new Date(exp * 1000) };
}

function macOf(text: string, key: Buffer): Buffer {
  return createHmac('sha256', key).update(text).digest();
}

function base64url(value: object): string {
  return Buffer.from(JSON.stringify(value)).toString('base64url');
}

function seconds(date: Date): number {
  return Math.floor(date.getTime() / 1000);
}

/** Returns a hash of a publisher's rules, to detect when they change. */
export function rulesDigest(rules: object): string {
  return digestOf(JSON.stringify(rules)).slice(-22);
}
