import { hkdfSync } from 'node:crypto';
import { EncryptJWT, errors, jwtDecrypt } from 'jose';

/** What a browser keeps of somebody who has logged in. */
export interface Session {
  /** Tells it from others: what was logged out of stays so. */
  id: string;
  tokenId: string;
  /** Of the value of the token, so that one with a new value ends the session. */
  fingerprint: string;
  /** What each form has to send with it. */
  csrf: string;
  expiresAt: Date;
}

/**
 * Sessions as text that a browser keeps and nobody but the holder of the secret can read or make: an
 * encrypted JWT. Any API host with the same secret opens it, so that nothing has to be shared or stored.
 */
export interface SessionSeal {
  seal(session: Session): Promise<string>;
  /** Null if it was made with another secret, is damaged, or is over. */
  open(text: string, now: Date): Promise<Session | null>;
}

const purpose = 'waybill console session';
const keyBytes = 32;

export function sessionSeal(secret: string | Uint8Array): SessionSeal {
  const key = new Uint8Array(hkdfSync('sha256', secret, '', purpose, keyBytes));
  return {
    seal: ({ id, tokenId, fingerprint, csrf, expiresAt }) =>
      new EncryptJWT({ fingerprint, csrf })
        .setProtectedHeader({ alg: 'dir', enc: 'A256GCM' })
        .setSubject(tokenId)
        .setJti(id)
        .setExpirationTime(expiresAt)
        .encrypt(key),
    open: async (text, now) => {
      try {
        const { payload } = await jwtDecrypt<{ fingerprint: string; csrf: string }>(text, key, {
          keyManagementAlgorithms: ['dir'],
          contentEncryptionAlgorithms: ['A256GCM'],
          currentDate: now,
          requiredClaims: ['sub', 'jti', 'exp', 'fingerprint', 'csrf'],
        });
        const { sub: tokenId = '', jti: id = '', exp = 0, fingerprint, csrf } = payload;
        return { id, tokenId, fingerprint, csrf, expiresAt: new Date(exp * 1000) };
      } catch (error) {
        if (error instanceof errors.JOSEError) return null;
        throw error;
      }
    },
  };
}
