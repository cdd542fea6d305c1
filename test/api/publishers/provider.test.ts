import t from 'tap';
import { startOidcProvider } from '../../services/oidc-provider.ts';
import { startApi, upload } from '../harness.ts';
import { claims, exchange, publisherOf } from './exchange.ts';

/** The exchange of ID tokens from a real provider, with its discovery document. */

for (const alg of ['RS256', 'ES256'] as const)
  t.test(`ID tokens of oidc-provider are exchanged once (${alg})`, async (t) => {
    const { issuer, clientId, idToken } = await startOidcProvider(t, alg);
    const publishers = [publisherOf(issuer, { audience: clientId })];
    const api = await startApi(t, { publishers });
    const { repository_id, repository, ref } = claims;
    const token = await idToken({ repository_id, repository, ref });
    const { status, body } = await exchange(api.origin, token);
    t.match({ status, body }, { status: 200, body: { publisher_id: 'site-ci', subject: 'job-1' } });
    t.equal((await upload(api.origin, { token: String(body['access_token']) })).status, 202);
    const again = await exchange(api.origin, token);
    t.match(again, { status: 400, body: { detail: /used before/ } }, 'also without a jti');

    const other = await exchange(api.origin, await idToken({ repository_id: '99', repository, ref }));
    t.match(other, { status: 400, body: { code: 'id_token_refused', detail: /different: repository_id/ } });
    const elsewhere = await startApi(t, { publishers: [publisherOf(issuer)] });
    const foreign = await exchange(elsewhere.origin, await idToken({ repository_id, repository, ref }));
    t.match(foreign, { status: 400, body: { detail: /another audience/ } });
  });
