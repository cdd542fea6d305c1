import type { DestinationConfig } from '../../config/config.ts';

/**
 * Returns the public URL of a bundle path, ending with `/`, or null if it has none. It is based on
 * `public_base_url`. A channel can have its own base URL. If it does not, it has a URL only if the web server
 * exposes the destination root (`current_in_url`), where the channel is a directory.
 *
 * @param channel The channel to publish to; null for the current content.
 */
export function publicUrl(
  { publicBaseUrl, releases, location }: Pick<DestinationConfig, 'publicBaseUrl' | 'releases' | 'location'>,
  destinationPath: string,
  channel: string | null,
): string | null {
  const path = destinationPath === '.' ? [] : destinationPath.split('/');
  const at = (base: string | null, ...more: string[]): string | null =>
    base === null ? null : base + [...path, ...more].map((name) => `${encodeURIComponent(name)}/`).join('');
  // On S3, a pointer is an object, so it does not work as part of a URL.
  const isServedAsItIs = releases?.currentInUrl === true && location.backend !== 's3';
  if (channel === null) return at(publicBaseUrl, ...(releases?.currentInUrl === true ? ['current'] : []));
  const own = releases?.channels.find(({ name }) => name === channel)?.publicBaseUrl ?? null;
  return own === null && isServedAsItIs ? at(publicBaseUrl, channel) : at(own);
}
