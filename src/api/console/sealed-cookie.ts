import { hkdfSync } from 'node:crypto';
import { parseCookie } from 'cookie';
import type { Request, Response } from 'express';
import { EncryptJWT, errors, jwtDecrypt } from 'jose';
import type { Clock } from '../../core/lib/clock.ts';

/**
 * Encrypts JSON values as JWTs. Only a process with the secret can read or create them. Any API host with the
 * same secret can open them, so hosts share no storage.
 */
export interface Seal<T> {
  seal(content: T, expiresAt: Date): Promise<string>;
  /** Returns null if the text was sealed with another secret or purpose, is damaged, or has expired. */
  open(text: string, now: Date): Promise<T | null>;
}

/**
 * @param purpose Separates values sealed with the same secret: a value sealed for one purpose cannot be
 * opened for another.
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
   * `strict`: not sent with requests triggered by another site. `lax`: sent when following a link from
   * another site.
   */
  sameSite: 'strict' | 'lax';
  basePath: string;
  clock: Pick<Clock, 'now'>;
}

/** A value that the browser stores but cannot read. */
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

  /** Returns null if there is no valid cookie. */
  async read(req: Pick<Request, 'headers' | 'secure'>): Promise<T | null> {
    const { seal, clock } = this.#options;
    const sealed = parseCookie(req.headers.cookie ?? '')[this.#nameFor(req)];
    return sealed === undefined ? null : seal.open(sealed, clock.now());
  }

  clear(req: Pick<Request, 'secure'>, res: Response): void {
    res.clearCookie(this.#nameFor(req), this.#attributes(req));
  }

  /**
   * Over TLS, the name has a prefix, so browsers accept the cookie only from this host and never over plain
   * HTTP. `__Host-` also requires the path `/`.
   */
  #nameFor({ secure }: Pick<Request, 'secure'>): string {
    const { name, basePath } = this.#options;
    if (!secure) return name;
    return `${basePath === '/' ? '__Host-' : '__Secure-'}${name}`;
  }

  // Express derives `secure` from the trusted proxies.
  #attributes({ secure }: Pick<Request, 'secure'>): object {
    const { sameSite, basePath } = this.#options;
    return { httpOnly: true, sameSite, secure, path: basePath };
  }
}
