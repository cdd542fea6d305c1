/** What a page may load and do: what its own host has, and no script or style that is in the markup. */
const policy = [
  "default-src 'none'",
  "style-src 'self'",
  "script-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "form-action 'self'",
  "frame-ancestors 'none'",
  "base-uri 'none'",
].join('; ');

/** Features of browsers that no page uses. */
const permissions = ['camera', 'display-capture', 'geolocation', 'microphone', 'payment', 'serial', 'usb']
  .map((feature) => `${feature}=()`)
  .join(', ');

/** The headers of every page beside those that its caching needs. */
export const pageHeaders: Readonly<Record<string, string>> = {
  'Content-Security-Policy': policy,
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Permissions-Policy': permissions,
  // Where a run or a bundle is called something private, no other host is told of it.
  'Referrer-Policy': 'same-origin',
  'X-Content-Type-Options': 'nosniff',
};
