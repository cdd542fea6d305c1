import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { exportJWK, generateKeyPair, type JWK, SignJWT } from 'jose';
import type { Test } from 'tap';

type Answer = (req: IncomingMessage, res: ServerResponse) => void;

/** An OpenID Connect issuer on loopback whose documents a test can change. */
export interface Issuer {
  url: string;
  /** The public keys that it answers with. */
  keys: JWK[];
  /** Answers requests for the keys instead of the issuer. */
  answer: Answer | null;
  /** Answers token requests of a console login. */
  answerToken: Answer;
  /** The number of requests for the keys so far. */
  requests: () => number;
  /** Adds a key and signs with it from now on. Returns its id. */
  rotate: (alg?: string) => Promise<string>;
  /** Signs an ID token. A claim that is undefined is omitted. */
  sign: (claims?: Record<string, unknown>, header?: Record<string, unknown>) => Promise<string>;
}

export const audience = 'https://publish.example.org';

export async function startIssuer(t: Pick<Test, 'teardown'>): Promise<Issuer> {
  let key: Awaited<ReturnType<typeof generateKeyPair>>['privateKey'];
  let alg = 'RS256';
  let kid = '';
  let requests = 0;
  let ids = 0;
  const send = (res: ServerResponse, body: object): void => {
    res.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  };
  const server = createServer((req, res) => {
    if (req.url === '/token') {
      issuer.answerToken(req, res);
      return;
    }
    if (req.url !== '/jwks') {
      send(res, {
        issuer: issuer.url,
        jwks_uri: `${issuer.url}/jwks`,
        authorization_endpoint: `${issuer.url}/authorize`,
        token_endpoint: `${issuer.url}/token`,
      });
      return;
    }
    requests += 1;
    if (issuer.answer === null) send(res, { keys: issuer.keys });
    else issuer.answer(req, res);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  const issuer: Issuer = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    keys: [],
    answer: null,
    answerToken: (_req, res) => void res.writeHead(404).end(),
    requests: () => requests,
    rotate: async (wanted = 'RS256') => {
      const pair = await generateKeyPair(wanted, { extractable: true });
      [key, alg, kid] = [pair.privateKey, wanted, `key-${issuer.keys.length + 1}`];
      issuer.keys.push({ ...(await exportJWK(pair.publicKey)), kid, alg, use: 'sig' });
      return kid;
    },
    sign: async (claims = {}, header = {}) => {
      const now = Math.floor(Date.now() / 1000);
      const defaults = { iss: issuer.url, aud: audience, sub: 'job', iat: now, exp: now + 300 };
      const all: Record<string, unknown> = { ...defaults, jti: `id-${(ids += 1)}`, ...claims };
      const present = Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined));
      return new SignJWT(present).setProtectedHeader({ alg, kid, ...header }).sign(key);
    },
  };
  await issuer.rotate();
  return issuer;
}
