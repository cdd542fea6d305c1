/**
 * How a channel of releases may be named: like a label of a host name (RFC 1123), since servers make one of
 * it, and unlike what else lies beside the releases.
 */
export const channelForm = /^(?!(?:current|releases)$)[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;

/** Pure. */
export function isChannelName(text: string): boolean {
  return channelForm.test(text);
}
