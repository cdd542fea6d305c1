import { hkdfSync } from 'node:crypto';
import { parseCookie } from 'cookie';
import type { Request, Response } from 'express';
import { EncryptJWT, errors, jwtDecrypt } from 'jose';
import type { Clock } from '../../core/lib/clock.ts';

/**
 * Encrypts JSON values as JWTs that only a process with the secret can read or create. API hosts with the
 * same secret can open each other's values, so they need no shared storage.
 */
export interface Seal<T> {
  seal(content: T, expiresAt: Date): Promise<string>;
  /**
   * Returns null if the text has expired, has been tampered with, or was sealed with a different secret or
   * for a different purpose.
   */
  open(text: string, now: Date): Promise<T | null>;
}

/**
 * @param purpose Separates values that are sealed with the same secret. A value sealed for one purpose cannot
 *   be opened for another.
 */
export function sealOf<T>(secret: string | Uint8Array, purpose: string): Seal<T> {
  const key = new Uint8Array(hkdfSync('sha256', secret, '', purpose, 32));
  return {
    seal: (content, expiresAt) =>
      new EncryptJWT({ content })
        .setProtectedHeader({ alg: 'dir', enc: 'A256GCM' })
        .setExpirationTime(expiresAt)
        .encrypt(key),
    open: async (text, now) => {
      try {
        const { payload } = await jwtDecrypt<{ content: T }>(text, key, {
          keyManagementAlgorithms: ['dir'],
          contentEncryptionAlgorithms: ['A256GCM'],
          currentDate: now,
          requiredClaims: ['exp', 'content'],
        });
        return payload.content;
      } catch (error) {
        if (error instanceof errors.JOSEError) return null;
        throw error;
      }
    },
  };
}

interface CookieOptions<T> {
  name: string;
  seal: Seal<T>;
  /**
   * `strict` cookies are never sent when the navigation started on another site. `lax` cookies are sent if
   * the user followed a link or was redirected.
   */
  sameSite: 'strict' | 'lax';
  basePath: string;
  clock: Pick<Clock, 'now'>;
}

/** A cookie whose value is encrypted, so the browser cannot read it. */
export class SealedCookie<T> {
  readonly #options: CookieOptions<T>;

  constructor(options: CookieOptions<T>) {
    this.#options = options;
  }

  async set(req: Pick<Request, 'secure'>, res: Response, content: T, expiresAt: Date): Promise<void> {
    const { seal, clock } = this.#options;
    const maxAge = expiresAt.getTime() - clock.now().getTime();
    const sealed = await seal.seal(content, expiresAt);
    res.cookie(this.#nameFor(req), sealed, { ...this.#attributes(req), maxAge });
  }

  /** Returns null if the cookie is missing or invalid. */
  async read(req: Pick<Request, 'headers' | 'secure'>): Promise<T | null> {
    const { seal, clock } = this.#options;
    const sealed = parseCookie(req.headers.cookie ?? '')[this.#nameFor(req)];
    return sealed === undefined ? null : seal.open(sealed, clock.now());
  }

  clear(req: Pick<Request, 'secure'>, res: Response): void {
    res.clearCookie(this.#nameFor(req), this.#attributes(req));
  }

  /**
   * Over TLS, adds a prefix that makes browsers accept the cookie only from this host and only over HTTPS.
   * `__Host-` also requires the path `/`.
   */
  #nameFor({ secure }: Pick<Request, 'secure'>): string {
    const { name, basePath } = this.#options;
    if (!secure) return name;
    return `${basePath === '/' ? '__Host-' : '__Secure-'}${name}`;
  }

  // Express takes trusted proxies into account when it sets `secure`.
  #attributes({ secure }: Pick<Request, 'secure'>): object {
    const { sameSite, basePath } = this.#options;
    return { httpOnly: true, sameSite, secure, path: basePath };
  }
}
