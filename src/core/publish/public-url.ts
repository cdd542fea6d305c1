import type { DestinationConfig } from '../config/config.ts';

/**
 * Where readers find what is published at a bundle path, from `public_base_url`; null if no setting says. A
 * channel has the URL of its own setting. Without one, it has one only if the server serves the destination
 * as it is (`current_in_url`), because the channel is then a directory. Ends with `/`. Pure.
 *
 * @param channel The channel that is published to; null for the current content.
 */
export function publicUrl(
  { publicBaseUrl, releases, location }: Pick<DestinationConfig, 'publicBaseUrl' | 'releases' | 'location'>,
  destinationPath: string,
  channel: string | null,
): string | null {
  const path = destinationPath === '.' ? [] : destinationPath.split('/');
  const at = (base: string | null, ...more: string[]): string | null =>
    base === null ? null : base + [...path, ...more].map((name) => `${encodeURIComponent(name)}/`).join('');
  // On S3, the pointers are objects that no reader can follow as a path.
  const isServedAsItIs = releases?.currentInUrl === true && location.backend !== 's3';
  if (channel === null) return at(publicBaseUrl, ...(releases?.currentInUrl === true ? ['current'] : []));
  const own = releases?.channels.find(({ name }) => name === channel)?.publicBaseUrl ?? null;
  return own === null && isServedAsItIs ? at(publicBaseUrl, channel) : at(own);
}
