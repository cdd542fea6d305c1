import { WaybillError } from '../../core/lib/errors.ts';
import { nearest } from '../../core/lib/text.ts';
import { channelName } from '../../core/lib/parameters.ts';

/** The query parameter of every request that publishes. */
export const channelQuery = channelName({
  description:
    'Publishes to this channel of the destinations that have it: those who follow it see the bundle, and nobody else. Other destinations, and what is current, stay as they are.',
  example: 'preview',
});

/** Throws `channel_not_found` if no destination of the pipeline has it. */
export function requireChannel(
  { id, channels }: { id: string; channels: readonly string[] },
  name: string,
): void {
  if (channels.includes(name)) return;
  const meant = nearest(name, channels);
  const known = channels.length === 0 ? 'none is configured' : `known: ${channels.join(', ')}`;
  throw new WaybillError(
    'channel_not_found',
    `no destination of the pipeline "${id}" has a channel "${name}"`,
    {
      hint: meant === undefined ? known : `did you mean "${meant}"? ${known}`,
    },
  );
}
