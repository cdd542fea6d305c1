import { WaybillError } from '../errors.ts';

const headerName = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
// Visible ASCII and spaces: anything else is refused by the HTTP client only when a span is sent.
const headerValue = /^[\u0020-\u007e]*$/;

/**
 * The headers of a secret in the form of `OTEL_EXPORTER_OTLP_HEADERS`: `name=value`, several with commas
 * between, values percent-encoded where they need it. Throws `secrets_invalid`, which names the variable and
 * never shows a value. Pure.
 */
export function parseExportHeaders(secret: string, name: string): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const part of secret.split(',').map((one) => one.trim())) {
    if (part === '') continue;
    const equals = part.indexOf('=');
    const key = part.slice(0, Math.max(equals, 0)).trim();
    const value = decoded(part.slice(equals + 1).trim());
    if (!headerName.test(key) || value === null || !headerValue.test(value)) throw malformed(name);
    headers[key.toLowerCase()] = value;
  }
  if (Object.keys(headers).length === 0) throw malformed(name);
  return headers;
}

function decoded(text: string): string | null {
  try {
    return decodeURIComponent(text);
  } catch {
    return null;
  }
}

function malformed(name: string): WaybillError {
  return new WaybillError(
    'secrets_invalid',
    `the secret ${name}, needed by tracing, is not a list of headers`,
    { hint: 'it looks like authorization=Bearer%20the-token,x-tenant=maps' },
  );
}
