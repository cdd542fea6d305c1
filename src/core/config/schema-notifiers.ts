import { isIP } from 'node:net';
import { refusedAddress } from '../notify/address-policy.ts';
import { subscribableTypes } from '../notify/event.ts';
import type { NotifierDocument } from './document.ts';
import {
  addressRange,
  choice,
  duration,
  environmentName,
  id,
  list,
  map,
  matching,
  path,
  variants,
  webhookUrl,
} from '../settings/kinds.ts';
import { parseWebhookUrl } from '../settings/values.ts';

/** The part `notifiers` of the configuration. */
const common = {
  id: id().required().description('Name of the notifier, for logs and warnings.').example('hook'),
  events: list(choice(...subscribableTypes), {
    min: 1,
    expected: `a list of ${subscribableTypes.join(', ')}, at least one`,
  })
    .default(['bundle.published'])
    .description('Which events the notifier is told of.'),
  pipelines: list(id(), { min: 1, expected: 'a list of pipeline ids, at least one' }).description(
    'Only what these pipelines do; without it, what all of them do.',
  ),
};

const timeout = duration({ atLeast: '100ms', atMost: '60s' })
  .default('5s')
  .description('Longest time that one try may take; there are up to four.');

export const notifierSchema = variants<NotifierDocument>('kind', 'a notifier', {
  log: map({
    ...common,
    kind: choice('log').required().description('A line in the log; on stderr where a command is run.'),
  }),
  file: map({
    ...common,
    kind: choice('file').required().description('A line of JSON at the end of a file.'),
    path: path()
      .required()
      .description(
        'The file. It is made where it is not there, readable by its owner alone; its directory must exist.',
      )
      .example('/var/log/waybill/events.jsonl'),
  }),
  webhook: map({
    ...common,
    kind: choice('webhook').required().description('A POST request, signed as Standard Webhooks says.'),
    url: webhookUrl()
      .required()
      .description('Where to. Redirects are not followed.')
      .example('https://ops.example.org/waybill'),
    secret_env: environmentName()
      .required()
      .description(
        'Environment variable, or file in secrets.directory, that holds the signing secret: whsec_ and base64.',
      )
      .example('WAYBILL_HOOK_SECRET'),
    timeout,
    allow_addresses: list(addressRange(), { min: 0, expected: 'a list of addresses or CIDR ranges' })
      .default([])
      .description(
        'Addresses that are connected to although they are link-local, unspecified or of a metadata service of a cloud.',
      ),
  }).custom((value: { url: string; allow_addresses: string[] }, helpers) => {
    const reason = refusedHost(value.url, value.allow_addresses);
    return reason === null
      ? value
      : helpers.error('waybill.reason', {
          reason: `the host of the webhook is ${reason}`,
          expected: 'another host, or this address in allow_addresses',
        });
  }),
  redis: map({
    ...common,
    kind: choice('redis').required().description('A message on a channel of Redis (PUBLISH).'),
    redis_url_env: environmentName()
      .required()
      .description('Environment variable, or file in secrets.directory, that holds the URL of Redis.')
      .example('WAYBILL_REDIS_URL'),
    channel: matching(/^[\u0021-\u007e]{1,128}$/, 'the name of a channel, without spaces')
      .default('waybill.events')
      .description('Name of the channel.'),
    timeout,
  }),
});

/** An address in the URL can be judged before it is connected to; a name cannot. */
function refusedHost(url: string, allowed: readonly string[]): string | null {
  const verdict = parseWebhookUrl(url);
  if (!verdict.ok) return null;
  const host = new URL(verdict.value).hostname.replace(/^\[|\]$/g, '');
  return isIP(host) === 0 ? null : refusedAddress(host, allowed);
}
