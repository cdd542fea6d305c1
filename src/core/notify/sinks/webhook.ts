import { finding } from '../../lib/errors.ts';
import type { Kinds, Settings } from '../../lib/settings/declare.ts';
import { accepted, parseWebhookUrl, resolveDuration } from '../../lib/settings/values.ts';
import { isAddressRange } from '../address-policy.ts';
import { parseSigningSecret } from '../signature.ts';
import { type Sink, type SinkContext, type SinkKind, timeoutSetting } from '../sink.ts';
import { refusedLiteral } from './guarded-lookup.ts';

interface WebhookDocument {
  kind: 'webhook';
  url: string;
  secret_env: string;
  timeout: string;
  allow_addresses: string[];
}

interface WebhookSettings {
  kind: 'webhook';
  url: string;
  /** The variable with the signing secret. */
  secretEnv: string;
  timeoutMs: number;
  /** Addresses and CIDR ranges that are allowed although the address policy refuses them. */
  allowAddresses: string[];
}

export const webhookKind: SinkKind<'webhook', WebhookDocument, WebhookSettings> = {
  kind: 'webhook',
  summary: 'A POST request, signed according to Standard Webhooks.',
  settings,
  fault: ({ url, allow_addresses }) => {
    const reason = refusedHost(url, allow_addresses);
    return reason === null
      ? null
      : {
          reason: `the host of the webhook is ${reason}`,
          expected: 'another host, or this address in allow_addresses',
        };
  },
  resolve: ({ url, secret_env, timeout, allow_addresses }) => ({
    kind: 'webhook',
    url: accepted(parseWebhookUrl(url)),
    secretEnv: secret_env,
    timeoutMs: resolveDuration(timeout),
    allowAddresses: allow_addresses,
  }),
  secrets: ({ secretEnv }) => [secretEnv],
  open,
  reach: async (settings, { signal, ...context }) => {
    await (await open(settings, context)).close();
    const { reachWebhook } = await import('./webhook-sender.ts');
    return reachWebhook(settings, signal);
  },
};

function settings(kinds: Kinds): Settings {
  const addressRange = kinds.text(
    'an address or a CIDR range such as 169.254.0.0/16',
    'address range',
    (text) => (isAddressRange(text) ? { ok: true, value: text } : { ok: false, reason: 'it is neither' }),
  );
  return {
    url: kinds
      .webhookUrl()
      .required()
      .description('URL of the receiver. Redirects are not followed.')
      .example('https://ops.example.org/waybill'),
    secret_env: kinds
      .environmentName()
      .required()
      .description(
        'Environment variable, or file in secrets.directory, with the signing secret: whsec_ followed by base64.',
      )
      .example('WAYBILL_HOOK_SECRET'),
    timeout: timeoutSetting(kinds),
    allow_addresses: kinds
      .list(addressRange, { min: 0, expected: 'a list of addresses or CIDR ranges' })
      .default([])
      .description(
        'Addresses to allow although they are link-local, unspecified, or metadata services of a cloud.',
      ),
  };
}

/** Checks a literal IP address in the URL. A host name can only be checked when connecting. */
function refusedHost(url: string, allowed: readonly string[]): string | null {
  const verdict = parseWebhookUrl(url);
  return verdict.ok ? refusedLiteral(new URL(verdict.value).hostname, allowed) : null;
}

async function open(
  { url, secretEnv, timeoutMs, allowAddresses }: WebhookSettings,
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
  const { webhookSink } = await import('./webhook-sender.ts');
  return webhookSink({ url, keys, timeoutMs, allowAddresses, clock });
}
