import { finding } from '../../lib/errors.ts';
import { environmentName, list, text, webhookUrl } from '../../lib/settings/kinds.ts';
import { parseWebhookUrl } from '../../lib/settings/parse-values.ts';
import type { ResolvedBy } from '../../lib/settings/setting.ts';
import { isAddressRange } from '../address-policy.ts';
import { notifierSettings, type Sink, type SinkContext, sinkKind, timeoutSetting } from '../sink.ts';
import { parseSigningSecret } from '../webhook-signature.ts';
import { refusedIpHost } from './guarded-lookup.ts';

const addressRange = text('an address or a CIDR range such as 169.254.0.0/16', 'address range', (value) =>
  isAddressRange(value) ? { ok: true, value } : { ok: false, reason: 'it is neither' },
);

const settings = notifierSettings(
  'webhook',
  'A POST request, signed according to Standard Webhooks.',
  {
    url: webhookUrl()
      .required()
      .description('URL of the receiver. Redirects are not followed.')
      .example('https://ops.example.org/waybill'),
    secret_env: environmentName()
      .required()
      .description(
        'Environment variable, or file in secrets.directory, with the signing secret: whsec_ followed by base64.',
      )
      .example('WAYBILL_HOOK_SECRET'),
    timeout: timeoutSetting,
    allow_addresses: list(addressRange, { min: 0, expected: 'a list of addresses or CIDR ranges' })
      .default([])
      .description(
        'Addresses to allow although they are link-local, unspecified, or metadata services of a cloud.',
      ),
  },
  ({ url, allow_addresses }) => {
    const reason = refusedHost(url, allow_addresses);
    return reason === null
      ? null
      : {
          reason: `the host of the webhook is ${reason}`,
          expected: 'another host, or this address in allow_addresses',
        };
  },
);

export const webhookKind = sinkKind({
  settings,
  secrets: ({ secretEnv }) => [secretEnv],
  open,
  reach: async (config, { signal, ...context }) => {
    await (await open(config, context)).close();
    const { reachWebhook } = await import('./post.ts');
    return reachWebhook(config, signal);
  },
});

/**
 * Checks the URL if its host is an IP address. The addresses of a host name are not known before connecting.
 */
function refusedHost(url: string, allowed: readonly string[]): string | null {
  const verdict = parseWebhookUrl(url);
  return verdict.ok ? refusedIpHost(new URL(verdict.value).hostname, allowed) : null;
}

async function open(
  { url, secretEnv, timeoutMs, allowAddresses }: ResolvedBy<typeof settings>,
  { secrets, neededBy, warn, clock }: SinkContext,
): Promise<Sink> {
  const { keys, isPlain } = parseSigningSecret(secrets.require(secretEnv, neededBy), secretEnv);
  if (isPlain)
    warn(
      finding(
        'warning',
        'plain_signing_secret',
        `the signing secret ${secretEnv} of ${neededBy} does not begin with whsec_, so its text is the key: receivers must use the same`,
      ),
    );
  const { webhookSink } = await import('./post.ts');
  return webhookSink({ url, keys, timeoutMs, allowAddresses, clock });
}
