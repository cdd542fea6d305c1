import { WaybillError } from '../lib/errors.ts';

const headerName = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
// Visible ASCII and spaces. The HTTP client would reject anything else only when the first span is sent.
const headerValue = /^[\u0020-\u007e]*$/;

/**
 * Parses a secret in the format of `OTEL_EXPORTER_OTLP_HEADERS`: `name=value` pairs separated by commas, with
 * percent-encoded values. Throws `secrets_invalid`, which names the variable and never shows a value. Pure.
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
    { hint: 'write it as in authorization=Bearer%20the-token,x-tenant=maps' },
  );
}
